"""The loop around transactions, which themselves are tested in tests/broker/test_raw_produce.py."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError
from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import produce
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.fan_out import OmittedError
from aqueduct.kafka.produce import Retry, TransactionalProducer, _Sent, until_committed


class Cluster:
    """A cluster whose clock is the time that a client sleeps."""

    end = "target h:1"

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(produce, "time", cluster)
    return cluster


def test_a_trouble_that_passes_is_borne_with(cluster: Cluster) -> None:
    troubles = [Retry("no leader"), Retry("no leader")]

    def attempt(_: Callable[[], None]) -> str:
        if troubles:
            raise troubles.pop()
        return "done"

    assert until_committed(cast(Any, cluster), attempt) == "done"


@pytest.mark.parametrize(("progressing", "attempts"), [(False, 122), (True, 500)])
def test_only_progress_makes_more_time(cluster: Cluster, progressing: bool, attempts: int) -> None:
    made = 0

    def attempt(progress: Callable[[], None]) -> None:
        nonlocal made
        made += 1
        if progressing:
            progress()
        if made == 500:
            return
        raise Retry("no leader.")

    if progressing:
        until_committed(cast(Any, cluster), attempt)
    else:
        facts = ("h:1", "120 s", "no leader", "once more goes on")
        with raises(Failed, "transaction-failed", *facts):
            until_committed(cast(Any, cluster), attempt, "; once more goes on")
    assert made == attempts


def test_last_error_does_not_hide_unreachable_address(cluster: Cluster) -> None:
    """A client that waits before it connects again says so alone, and a time limit may end then."""
    causes = itertools.cycle([KafkaConnectionError("kafka:9092 refused"), NodeNotReadyError("node 1")])

    def attempt(_: Callable[[], None]) -> None:
        cause = next(causes)
        raise Retry(str(cause)) from cause

    with raises(Failed, "transaction-failed", "kafka:9092 refused"):
        until_committed(cast(Any, cluster), attempt)


def test_offset_below_an_acknowledged_one_ends_the_transaction() -> None:
    """The partition's next leader has less: it lost records of the transaction, which must not commit."""
    producer, partition = TransactionalProducer(cast(Any, Cluster()), "mirror"), TopicPartition("orders", 0)

    def acknowledge(offset: int) -> None:
        answer = SimpleNamespace(error_code=0, base_offset=offset, log_append_time_ms=-1)
        producer._acknowledged(partition, answer, {partition: Ready(bytearray(100), 10, 0)})

    acknowledge(70)
    acknowledge(80)
    acknowledge(93)  # after a record of another client
    assert (producer.starts, producer.ends) == ({partition: 70}, {partition: 103})
    with pytest.raises(Retry):
        acknowledge(50)


@pytest.mark.parametrize("numbers", [(0, 1), (0,)])
def test_response_must_mention_each_partition_of_transaction(
    numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records or offsets of a partition that no response mentions may be missing after the commit."""
    batches = {TopicPartition("orders", number): Ready(bytearray(100), 10, 0) for number in (0, 1)}
    parts = [
        SimpleNamespace(
            index=number,
            partition_index=number,
            error_code=0,
            partition_error_code=0,
            base_offset=7,
            log_append_time_ms=-1,
        )
        for number in numbers
    ]
    topic = SimpleNamespace(
        name="orders", partitions=parts, partition_responses=parts, results_by_partition=parts
    )
    response = SimpleNamespace(responses=[topic], topics=[topic], results_by_topic_v3_and_below=[topic])
    client = SimpleNamespace(wait=lambda _: response, send=lambda *_: response)
    monkeypatch.setattr(TransactionalProducer, "_coordinator", lambda *_: 1)

    def producer() -> TransactionalProducer:
        producer = TransactionalProducer(cast(Any, client), "mirror")
        monkeypatch.setattr(producer, "_abort_open", lambda: None)
        return producer

    def acknowledge() -> None:
        sending = producer()
        sent = _Sent(batches, cast(Any, None))
        sending._in_flight.append(sent)
        sending._acknowledge(sent)

    for request in (
        acknowledge,
        lambda: producer()._add_partitions([*batches]),
        lambda: producer()._commit_offsets("g", dict.fromkeys(batches, (1, ""))),
    ):
        if len(numbers) == len(batches):
            request()
        else:
            with pytest.raises(OmittedError, match="orders-1"):
                request()
