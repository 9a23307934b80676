"""The evaluation of a group's lag by several looks."""

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.group_lag import GroupLag, LagLook, LagState, PartitionLag, judge, worst

HERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("looks", "has_members", "state"),
    [
        ([(5, 5)], True, LagState.OK),
        ([(7, 5)], True, LagState.OK),  # the log was cut
        ([(1, 5)], True, LagState.UNKNOWN),  # one look does not tell
        ([], True, LagState.UNKNOWN),
        ([(1, 5), (1, 5)], True, LagState.STUCK),
        ([(1, 5), (1, 9)], True, LagState.STUCK),
        ([(1, 5), (1, 5)], False, LagState.STOPPED),
        ([(1, 5), (2, 9), (3, 14)], True, LagState.FALLING_BEHIND),
        ([(1, 5), (2, 9), (3, 14)], False, LagState.FALLING_BEHIND),
        ([(1, 5), (2, 6), (3, 7)], True, LagState.OK),  # it keeps pace
        ([(1, 5), (2, 9), (9, 14)], True, LagState.OK),  # it catches up now and then
        ([(1, 5), (5, 5), (5, 9)], True, LagState.OK),  # it had read everything
    ],
)
def test_a_partition_is_judged_by_all_looks(
    looks: list[tuple[int, int]], has_members: bool, state: LagState
) -> None:
    assert judge([LagLook(*look) for look in looks], has_members=has_members) == state


def test_the_worst_state_is_the_group_s() -> None:
    assert worst([]) == LagState.OK
    assert worst([LagState.OK, LagState.UNKNOWN]) == LagState.UNKNOWN
    assert worst([LagState.STUCK, LagState.UNKNOWN, LagState.OK]) == LagState.STUCK


def test_what_is_not_known_is_no_number() -> None:
    known = PartitionLag(partition=HERE, state=LagState.OK, offset=3, lag=2, seconds=1.5)
    unknown = PartitionLag(partition=HERE, state=LagState.UNKNOWN, offset=3)
    group = GroupLag(name="g", has_members=True, partitions=(known, known))
    assert (group.lag, group.seconds, group.state) == (4, 1.5, LagState.OK)
    group = GroupLag(name="g", has_members=True, partitions=(known, unknown))
    assert (group.lag, group.seconds, group.state) == (None, None, LagState.UNKNOWN)
    group = GroupLag(name="g", has_members=True, partitions=(known,), unknown=("no answer",))
    assert (group.lag, group.seconds, group.state) == (None, None, LagState.UNKNOWN)
