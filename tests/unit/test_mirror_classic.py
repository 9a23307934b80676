"""The status of a classic mirror, judged from its group and the topics at both ends."""

import pytest
from kit.identifiers import printed

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror import classic
from aqueduct.mirror.binding import SourceLog
from aqueduct.mirror.classic_binding import BoundPosition, PositionState, check, loads
from aqueduct.mirror.status import Log

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_partition_without_position_begins_at_log_start() -> None:
    found = classic.progress({A0: 7, A1: None}, {A0: Log(0, 10), A1: Log(4, 9)})
    assert [(each.partition, each.next, each.behind, each.gone) for each in found] == [
        (A0, 7, 3, 0),
        (A1, 4, 5, 0),
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("Stable", None),
        ("Empty", "No process of the mirror from old1"),
        ("Dead", "No process of the mirror from old1"),
        ("PreparingRebalance", "are rebalancing (PreparingRebalance)"),
    ],
)
def test_only_a_stable_group_is_well(state: str, said: str | None) -> None:
    found = classic.group_findings("old1", "mirror-lake-old1", state)
    assert (len(found), bool(said)) == (1, True) if said else found == []
    assert all(said and said in each for each in found)


def test_what_the_target_lacks_is_named() -> None:
    assert classic.topic_findings("old1", "", {"a": 2}, {"a": 3}) == []
    [sentence] = classic.topic_findings("old1", "old1.", {"a": 2, "b": 1, "c": 1}, {"old1.a": 1, "old1.b": 1})
    assert sentence.startswith("[mirror-target-topic-missing] ")
    assert "old1.a (2 partitions at the source, 1 at the target), old1.c (1 " in sentence
    [nothing] = classic.topic_findings("old1", "", {}, {})
    assert nothing == (
        "[pattern-matches-nothing] No topic of old1 matches the patterns of the flow. Correct the "
        "patterns, or create the topics."
    )


def test_unbound_and_outdated_positions_are_reported() -> None:
    for findings, id_ in (
        (classic.unbound, "classic-positions-unchecked"),
        (classic.outdated_findings, "classic-position-outdated"),
    ):
        [sentence] = findings("old1", [A1, A0])
        assert printed(f"aqueduct: {sentence}") == [id_]
        assert "a-0, a-1" in sentence
        assert findings("old1", []) == []


def log(end: int, topic_id: str = "new", epoch_end: int | None = None) -> SourceLog:
    return SourceLog(topic_id=topic_id, start=0, end=end, stable_end=end, epoch=3, bound_epoch_end=epoch_end)


OLD, NEW = (BoundPosition(topic_id=id_, next=50, epoch=2) for id_ in ("old", "new"))
CHECKED, UNCHECKED, OUTDATED = PositionState


@pytest.mark.parametrize(
    ("position", "bound", "source_log", "is_running", "state"),
    [
        (50, NEW, log(90, epoch_end=90), True, CHECKED),
        (80, NEW, log(90, epoch_end=90), True, CHECKED),
        (20, NEW, log(90, epoch_end=90), True, CHECKED),  # the group was reset
        (80, OLD, log(90), True, OUTDATED),  # it has grown past the position
        (50, OLD, log(30), False, OUTDATED),
        (50, OLD, log(0), True, OUTDATED),
        (50, NEW, log(30, epoch_end=30), False, OUTDATED),  # truncated
        (80, NEW, log(90, epoch_end=30), True, OUTDATED),  # truncated, and grown again
        (50, None, log(90), True, UNCHECKED),
        (50, None, log(30), True, OUTDATED),
        (50, None, log(90, ""), True, UNCHECKED),  # a source without topic ids
        (50, BoundPosition(topic_id="", next=50, epoch=2), log(90, "", 90), True, UNCHECKED),
        (None, None, log(90), True, CHECKED),  # nothing was mirrored
        (None, OLD, log(90), False, CHECKED),  # Kafka deleted the position: it begins at the start
        (None, OLD, log(90), True, OUTDATED),  # a process may be in the middle, and commit later
        (None, None, log(90, ""), False, CHECKED),
    ],
)
def test_a_position_is_checked_against_its_topic(
    position: int | None,
    bound: BoundPosition | None,
    source_log: SourceLog,
    is_running: bool,
    state: PositionState,
) -> None:
    assert check(position, bound, source_log, is_running=is_running) is state


def test_a_binding_that_is_none_binds_nothing() -> None:
    assert loads(NEW.dumps()) == NEW
    for metadata in ("", "{}", "[]", '{"topic_id": 1, "next": 2, "epoch": 3}', "x" * 4096):
        assert loads(metadata) is None
