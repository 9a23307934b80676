"""Spark's cluster of all tests in a process, and a backup that its applications make."""

import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import RECORDS
from kit import clients

from aqueduct.work import environment
from servers import spark
from servers.broker import Broker
from servers.spark import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster whose hosts' own Python has no packages."""
    bare = tmp_path_factory.mktemp("bare")
    venv.create(bare, symlinks=True)
    path = f"{bare}/bin:/usr/bin:/bin"
    with spark.running(tmp_path_factory.mktemp("spark"), PATH=path, PYTHONPATH="") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def topic(brokers: list[Broker]) -> str:
    return clients.numbered(brokers[0], "spark", 4, RECORDS)


@pytest.fixture
def backup(brokers: list[Broker], topic: str, tmp_path: Path) -> list[str]:
    """Return a backup's arguments."""
    reached = ["--bootstrap-server", brokers[0].plaintext, "--topics", topic]
    return ["backup", *reached, "--store", f"file://{tmp_path}/store", "--report", f"{tmp_path}/report.json"]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("environment") / "env.tar.gz"
    environment.write(out)
    return out
