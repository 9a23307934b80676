"""Topics that dedup was asked for and of which nothing has crossed the link."""

from collections.abc import Collection

from aqueduct.kafka.client_config import End
from aqueduct.link.dedup.run import DedupOrder, report_absent, sentence
from aqueduct.link.dedup.share import DedupCounts


def order(*topics: str) -> DedupOrder:
    wanted = {name: f"clean.{name}" for name in topics} or None
    return DedupOrder(
        end=End("cluster", "localhost:9092"), raw_topics=("raw",), gap_topic="gaps", topics=wanted
    )


def test_absent_topics_are_reported_once() -> None:
    rounds: list[tuple[str, ...]] = [(), ("a",), ("a",), ("a", "b"), ("a",)]
    absent: Collection[str] = ()
    reported: list[tuple[str, ...]] = []
    for crossed in rounds:
        done = DedupCounts(crossed=crossed)
        absent = report_absent(order("a", "b"), done, absent)
        reported.append(done.silent)
    assert [len(each) for each in reported] == [1, 0, 0, 0, 1]
    assert "[link-topic-not-received] No record of a, b has arrived" in sentence(
        DedupCounts(silent=reported[0]), 1.0
    )


def test_topic_received_by_another_task_is_not_absent() -> None:
    done = DedupCounts(crossed=("a",))
    done.add(DedupCounts(crossed=("b", "a")))
    assert report_absent(order("a", "b"), done, ()) == frozenset()
    assert done.silent == ()


def test_dedup_of_every_topic_expects_none() -> None:
    assert report_absent(order(), DedupCounts(), ()) == frozenset()
