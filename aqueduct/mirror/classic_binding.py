"""Bindings of a classic mirror's positions: the topic, by its id, to which each of them belongs.

The positions are those of a consumer group at the source, which keeps no topic id, and Kafka deletes them
with their topic. A process that runs then commits those of the re-created topic, and nothing tells them
apart. So a second group keeps the ids, as the metadata of its offsets. It is at the target, where a topic
that is re-created at the source deletes nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

from aqueduct.common import strict_json
from aqueduct.mirror import binding
from aqueduct.mirror.binding import UNKNOWN_TOPIC, Binding, Evidence, SourceLog


@dataclass(frozen=True, kw_only=True)
class BoundPosition:
    """The position of one source partition as it was when it was last checked."""

    topic_id: str
    next: int
    epoch: int  # of the leader

    def dumps(self) -> str:
        return strict_json.dumps(self).decode()


def loads(metadata: str) -> BoundPosition | None:
    """Parse the metadata of an offset; None if it is no binding."""
    try:
        return strict_json.loads(BoundPosition, metadata.encode())
    except strict_json.Unreadable:
        return None


def bindings_group(group: str) -> str:
    """Return the group at the target that keeps the bindings of a group at the source."""
    return f"{group}-bindings"


class PositionState(StrEnum):
    """Whether a position belongs to the topic and the log that are there now."""

    CHECKED = "checked"
    UNCHECKED = "unchecked"  # it was bound to no topic id before, or the source has none
    OUTDATED = "outdated"  # the topic was re-created, or its log truncated


def check(
    position: int | None, bound: BoundPosition | None, log: SourceLog, *, is_running: bool
) -> PositionState:
    """Check the position of a partition; None: its group has committed none.

    `is_running`: a process may have a position that it has not committed yet. Without one, a partition that
    has no position is read from its start.
    """
    if position is None and (bound is None or not is_running):
        return PositionState.CHECKED
    if log.topic_id == UNKNOWN_TOPIC:
        return PositionState.UNCHECKED
    prior = Binding(topic_id=bound.topic_id, next=bound.next, epoch=bound.epoch) if bound else None
    if binding.judge(position, prior, log, Evidence()).is_of_another_log:
        return PositionState.OUTDATED
    return PositionState.CHECKED if bound else PositionState.UNCHECKED
