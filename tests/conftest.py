"""Fixtures for several directories of tests."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import settings

from servers import broker

# How long an example takes says what else the machine does, not whether it is right.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[broker.Broker]]:
    """Yield two real brokers, each a cluster of its own, from the jars in AQUEDUCT_KAFKA_JARS."""
    directories = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    with ExitStack() as stack, ThreadPoolExecutor() as starting:
        running = [broker.running(directory) for directory in directories]
        yield list(starting.map(stack.enter_context, running))
