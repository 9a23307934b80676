"""Changed settings of topics are waited for until the leaders know them."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import ConfigSourceType
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.admin import topics
from aqueduct.kafka.client import Partition, Topic

ALTER = {"orders": {"retention.ms": "-1", "segment.ms": None}}


class Cluster:
    """A client of two brokers that know new settings only after some questions."""

    patience_seconds = 60.0

    def __init__(self, **questions: int) -> None:
        self.left = {int(broker.removeprefix("broker_")): number for broker, number in questions.items()}

    def topics(self, names: Any) -> dict[str, Topic]:
        """Return topics with two partitions: each broker leads one."""
        return {
            name: Topic(
                id=None,
                name=name,
                partitions=tuple(
                    Partition(topic=name, number=number, leader=number + 1, replicas=(1, 2), in_sync=(1, 2))
                    for number in range(2)
                ),
            )
            for name in names
        }

    def send(self, request: Any, broker: int) -> Any:
        self.left[broker] -= 1
        values = {"segment.ms": "7"} if self.left[broker] >= 0 else {"retention.ms": "-1"}
        source = ConfigSourceType.DYNAMIC_TOPIC_CONFIG
        configs = [SimpleNamespace(name=key, value=of, config_source=source) for key, of in values.items()]
        [asked] = request.resources
        return SimpleNamespace(
            results=[SimpleNamespace(error_code=0, resource_name=asked.resource_name, configs=configs)]
        )

    def sleep(self, _: float) -> None: ...


def test_each_leader_is_asked_until_it_knows_settings() -> None:
    cluster: Any = Cluster(broker_1=0, broker_2=3)
    topics.await_settings(cluster, ALTER)
    assert cluster.left == {1: -4, 2: -1}


def test_without_changes_nobody_is_asked() -> None:
    cluster: Any = Cluster()
    topics.await_settings(cluster, {})


def test_leader_without_settings_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SETTLE_SECONDS", 0)
    cluster: Any = Cluster(broker_1=0, broker_2=1_000_000)
    with raises(Failed, "topic-not-ready", "orders"):
        topics.await_settings(cluster, ALTER)
