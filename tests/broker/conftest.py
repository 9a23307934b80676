"""Fixtures of tests that need real brokers."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from kit import clients
from kit.links import Link, linked
from kit.mirror_engine_flows import Flow
from kit.raw_topic import RawTopic

from aqueduct.kafka import client as raw
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.work.runner import D, R, here
from aqueduct.work.workers import Workers
from servers.broker import Broker


@pytest.fixture
def broker(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def crossed(brokers: list[Broker]) -> RawTopic:
    return RawTopic(brokers[0])


@pytest.fixture
def link(tmp_path: Path, source: Broker, target: Broker) -> Iterator[Link]:
    """Yield a link for a topic of two partitions."""
    name = clients.unique("link_x-y")
    for broker in (source, target):
        clients.create(broker, name, 2)
    with linked(tmp_path, source, target, name) as link:
        yield link


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        yield client


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a broker that starts again as long as that takes on a slow machine."""
    monkeypatch.setattr(raw, "STALL_SECONDS", 600)


@pytest.fixture
def each_task_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each task, and then again, as Spark does where an executor dies after its task has written."""

    def run(function: Callable[[D], R], descriptions: Sequence[D], _: object = None) -> list[R]:
        here(function, descriptions)
        return here(function, descriptions)

    for kind in ("parallel", "runner"):
        monkeypatch.setattr(Workers, kind, lambda *_: run)


@pytest.fixture
def flow(source: Broker, target: Broker, tmp_path: Path) -> Flow:
    return Flow(source, target, clients.create(source, clients.unique("mirrored"), 2), tmp_path)
