"""Fixtures of tests that need one broker."""

from collections.abc import Iterator

import pytest

from aqueduct.kafka import client as raw
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from servers.broker import Broker


@pytest.fixture
def broker(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        yield client
