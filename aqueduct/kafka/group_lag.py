"""Evaluation of the lag of consumer groups by several looks.

A lag alone does not tell whether a group is well. A group that reads and catches up may have a large lag, and
one that is stuck a small one. The rules are those of Burrow's "Consumer Lag Evaluation Rules".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from aqueduct.common.topic_names import TopicPartition


class LagState(Enum):
    """The state of a group or of one of its partitions, from the best to the worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling behind"
    STUCK = "stuck"
    STOPPED = "stopped"


RANKS = {state: rank for rank, state in enumerate(LagState)}


class LagLook(NamedTuple):
    """A committed offset, and the end of the log, at one moment."""

    offset: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.offset)


@dataclass(frozen=True, kw_only=True)
class PartitionLag:
    """The lag of a group in one partition."""

    partition: TopicPartition
    state: LagState
    offset: int
    lag: int | None = None  # records; None: the end of the log is not known
    seconds: float | None = None  # age of the oldest unread record; None: it is not known
    expired: int = 0  # unread records that the log has deleted


@dataclass(frozen=True, kw_only=True)
class GroupLag:
    name: str
    has_members: bool
    partitions: tuple[PartitionLag, ...]
    unknown: tuple[str, ...] = ()  # reasons why something of the group is not known

    @property
    def state(self) -> LagState:
        states = [partition.state for partition in self.partitions]
        return worst([*states, LagState.UNKNOWN] if self.unknown else states)

    @property
    def lag(self) -> int | None:
        """Return the lag of all partitions; None if one is not known."""
        lags = [partition.lag for partition in self.partitions]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) and not self.unknown else None

    @property
    def seconds(self) -> float | None:
        """Return the age of the oldest unread record; None if one is not known."""
        ages = [partition.seconds for partition in self.partitions]
        known = [age for age in ages if age is not None]
        return max(known, default=0.0) if len(known) == len(ages) and not self.unknown else None


def worst(states: Iterable[LagState]) -> LagState:
    return max(states, key=RANKS.__getitem__, default=LagState.OK)


def judge(looks: Sequence[LagLook], *, has_members: bool) -> LagState:
    """Judge a partition by looks in the order of time.

    A group without members, such as one of a program that only stores its offsets in Kafka, is stopped only
    if its offset does not move.
    """
    if any(look.lag == 0 for look in looks):
        return LagState.OK
    if len(looks) < 2:
        return LagState.UNKNOWN
    if all(look.offset == looks[0].offset for look in looks):
        return LagState.STUCK if has_members else LagState.STOPPED
    lags = [look.lag for look in looks]
    grows = all(earlier <= later for earlier, later in pairwise(lags)) and lags[0] < lags[-1]
    return LagState.FALLING_BEHIND if grows else LagState.OK


def undecided(looks: Mapping[TopicPartition, Sequence[LagLook]]) -> set[TopicPartition]:
    """Return the partitions that a further look can tell more about."""
    return {
        partition for partition, of_partition in looks.items() if all(look.lag > 0 for look in of_partition)
    }
