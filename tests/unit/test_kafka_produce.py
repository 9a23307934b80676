"""The loop around transactions, which themselves are tested in tests/broker/test_raw_produce.py."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import produce
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.produce import Retry, TransactionalProducer, until_committed


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
