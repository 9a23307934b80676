"""The status of a classic mirror, judged from its group and the topics at both ends."""

import pytest
from identifiers import printed

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror import classic
from aqueduct.mirror.status import Log

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_a_partition_without_a_position_begins_at_its_start() -> None:
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
        ("PreparingRebalance", "are dividing its partitions (PreparingRebalance)"),
    ],
)
def test_only_a_stable_group_is_well(state: str, said: str | None) -> None:
    found = classic.group_findings("old1", "mirror-lake-old1", state)
    assert (len(found), bool(said)) == (1, True) if said else found == []
    assert all(said and said in each for each in found)


def test_what_the_target_lacks_is_named() -> None:
    assert classic.topic_findings("old1", "", {"a": 2}, {"a": 3}) == []
    [sentence] = classic.topic_findings("old1", "old1.", {"a": 2, "b": 1, "c": 1}, {"old1.a": 1, "old1.b": 1})
    assert sentence.startswith(
        "[mirror-target-topic-missing] The target lacks old1.a (2 partitions, has 1), old1.c (1 "
    )
    [nothing] = classic.topic_findings("old1", "", {}, {})
    assert nothing == "[pattern-matches-nothing] No topic of old1 matches the flow's patterns."


def test_what_a_position_can_not_show_is_unknown() -> None:
    """A log that has grown past the position looks like any other: 'all is well' was not asked."""
    [fits] = classic.progress({A0: 7}, {A0: Log(0, 10)})
    assert not fits.recreated
    [sentence] = classic.unknown("old1", [A0])
    assert printed(f"aqueduct: {sentence}") == ["classic-positions-unchecked"]
    assert classic.unknown("old1", []) == []
