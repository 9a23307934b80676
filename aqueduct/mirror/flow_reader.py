"""The state of a flow as each engine's reader returns it, so that `aqueduct mirror` reports on all alike."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.status import AffectedRange, FlowTask, MirrorProgress

# Of patterns and topics, the patterns that match no topic.
UnmatchedPatterns = Callable[[Iterable[str], Collection[str]], list[str]]


class FlowReader(Protocol):
    """The reader of one flow. Another engine, such as Kafka's Cluster Mirroring (KIP-1279), has one, too.

    The other methods return the state of the last look.
    """

    source: str  # the flow's name
    hidden: list[TopicPartition]  # partitions that the source did not show, so their lag is unknown

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return findings about what does not run or is not mirrored, and the progress of each partition."""
        ...

    def position_findings(self) -> list[str]:
        """Return findings about positions that do not belong to the topics of both ends."""
        ...

    def ranges(self) -> list[AffectedRange]:
        """Return the ranges of source offsets that were lost, or whose records are at the target twice."""
        ...

    def unmatched(self, unmatched: UnmatchedPatterns) -> list[str]:
        """Return the patterns of the flow that match no topic."""
        ...


class TaskReader(FlowReader, Protocol):
    """The reader of a flow whose engine reports on its tasks."""

    def tasks(self) -> list[FlowTask]:
        """Return the tasks and the hosts that have them."""
        ...

    def unknown(self) -> list[str]:
        """Return sentences about what could not be read."""
        ...

    def unread_ages(self, progress: Iterable[MirrorProgress]) -> dict[TopicPartition, float]:
        """Return the age in seconds of the oldest record that was not mirrored, by partition."""
        ...
