"""Who asks for offsets of a partition without a leader gets them as soon as one leads it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewTopic
from kit import clients

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import reader
from servers import broker as brokers_
from servers.broker import Broker

TOPIC = "away"


@pytest.fixture
def led_by_second(tmp_path: Path) -> Iterator[tuple[Broker, Callable[[], Any]]]:
    """Yield a cluster whose second broker, which alone leads the topic, is stopped; and what starts it."""
    (tmp_path / "first").mkdir()
    with brokers_.running(tmp_path / "first") as first:
        second = brokers_.joining(first, 2, tmp_path / "second")
        asked = clients.admin(first)
        with second.running():
            asked.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[2]])])[TOPIC].result()
            clients.wait_for("a leader", lambda: clients.led(asked, TOPIC, 1))
            clients.produce(first, TOPIC, range(7))
        clients.wait_for("no leader", lambda: not clients.led(asked, TOPIC, 1))
        yield first, second.running


def test_offsets_are_told_when_a_leader_comes_back(
    led_by_second: tuple[Broker, Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, started = led_by_second
    monkeypatch.setattr(reader, "OFFSETS_SECONDS", clients.SECONDS)
    end, place = End("source", broker.plaintext), TopicPartition(TOPIC, 0)
    asked = clients.consumer(broker)
    with ThreadPoolExecutor() as threads:
        ranges = threads.submit(reader.ranges, end, [place])
        ends = threads.submit(clients.watermarks, asked, Place(TOPIC, 0), clients.SECONDS)
        with pytest.raises(TimeoutError):  # while nobody leads it, both wait
            ranges.result(timeout=5)
        assert not ends.done()
        with started():
            assert ranges.result() == {place: Range(TOPIC, 0, 0, 7)}
            assert ends.result() == (0, 7)
    asked.close()
