"""Partitions that make no progress although the source has more records, by what the caller has asked."""

from collections.abc import Iterable, Mapping

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Skipped

STALLED_SECONDS = 300  # behind at the same position, after which a partition is reported


class Stalls:
    """How long partitions have been behind at their positions."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[int, float]] = {}  # position, and since when it is behind

    def note(
        self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now: float
    ) -> list[TopicPartition]:
        """Note the next offset to mirror and the source's end of each partition; return those that stall.

        A partition whose end is not known counts as behind.
        """
        since: dict[TopicPartition, tuple[int, float]] = {}
        for partition, position in positions.items():
            if ends.get(partition, position + 1) > position:
                former = self._since.get(partition)
                since[partition] = former if former and former[0] == position else (position, now)
        self._since = since
        return sorted(partition for partition, (_, start) in since.items() if now >= start + STALLED_SECONDS)


def stalled(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Skipped]:
    """Return what a task reports of partitions that stall."""
    reason = (
        f"its task runs, but has mirrored no record of the partition for {STALLED_SECONDS} s. The source "
        "has more records, or the partition has no leader. Check the brokers of the source. Then restart "
        "the unit of the task"
    )
    return {p: Skipped(str(p), reason, "mirror-partition-stalled") for p in partitions}
