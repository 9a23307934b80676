"""Which partitions make no progress although the source has more records."""

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.engine.stalls import STALLED_SECONDS, Stalls, stalled

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partition_that_stays_behind_at_its_position_stalls() -> None:
    stalls = Stalls()
    assert stalls.note({FIRST: 5, SECOND: 5}, {FIRST: 8, SECOND: 8}, 0) == []
    assert stalls.note({FIRST: 5, SECOND: 6}, {FIRST: 9, SECOND: 9}, STALLED_SECONDS) == [FIRST]
    assert stalls.note({FIRST: 6, SECOND: 6}, {FIRST: 9, SECOND: 9}, 2 * STALLED_SECONDS) == [SECOND]


def test_idle_time_does_not_count_as_stall() -> None:
    stalls = Stalls()
    assert stalls.note({FIRST: 5}, {FIRST: 5}, 0) == []
    assert stalls.note({FIRST: 5}, {FIRST: 6}, 10 * STALLED_SECONDS) == []
    assert stalls.note({FIRST: 5}, {FIRST: 6}, 11 * STALLED_SECONDS) == [FIRST]


def test_partition_whose_end_is_unknown_counts_as_behind() -> None:
    stalls = Stalls()
    assert stalls.note({FIRST: 5}, {}, 0) == []
    assert stalls.note({FIRST: 5}, {}, STALLED_SECONDS) == [FIRST]


def test_partition_that_another_process_had_meanwhile_begins_again() -> None:
    stalls = Stalls()
    stalls.note({FIRST: 5}, {FIRST: 8}, 0)
    stalls.note({}, {}, 1)
    assert stalls.note({FIRST: 5}, {FIRST: 8}, STALLED_SECONDS) == []


def test_stalled_partition_is_reported_with_its_identifier() -> None:
    assert {p: item.id for p, item in stalled([FIRST]).items()} == {FIRST: "mirror-partition-stalled"}
