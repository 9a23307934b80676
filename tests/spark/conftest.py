"""Spark's cluster of all tests in a process."""

import venv
from collections.abc import Iterator

import pytest

from servers import spark
from servers.spark import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster whose hosts' own Python has no packages."""
    bare = tmp_path_factory.mktemp("bare")
    venv.create(bare, symlinks=True)
    path = f"{bare}/bin:/usr/bin:/bin"
    with spark.running(tmp_path_factory.mktemp("spark"), PATH=path, PYTHONPATH="") as cluster:
        yield cluster
