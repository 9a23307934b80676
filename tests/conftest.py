"""Fixtures for several directories of tests."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from kit import clients
from kit.early_end import pytest_runtest_makereport as pytest_runtest_makereport
from kit.lakes import PARTITIONS, HiveLake

from servers import broker, hive_metastore
from servers.broker import Broker
from servers.hive_metastore import HiveMetastore

# How long an example takes says what else the machine does, not whether it is right.
EXAMPLES = 100 if os.environ.get("AQUEDUCT_ALL_SEEDS") else 30  # script/test --all, and without
settings.register_profile("unhurried", deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[broker.Broker]]:
    """Yield two real brokers, each a cluster of its own, from the jars in AQUEDUCT_KAFKA_JARS."""
    directories = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    with ExitStack() as stack, ThreadPoolExecutor() as starting:
        running = [broker.running(directory) for directory in directories]
        yield list(starting.map(stack.enter_context, running))


@pytest.fixture
def source(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def target(brokers: list[Broker]) -> Broker:
    return brokers[1]


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    with hive_metastore.running(tmp_path_factory.mktemp("metastore")) as started:
        yield started


@pytest.fixture
def lake(brokers: list[Broker], metastore: HiveMetastore, tmp_path: Path) -> HiveLake:
    (tmp_path / "lake").mkdir()
    topic = clients.create(brokers[0], clients.unique("landed"), PARTITIONS)
    return HiveLake(brokers[0], metastore, tmp_path, topic, topic.replace(".", "_"))
