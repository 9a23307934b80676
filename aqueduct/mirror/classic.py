"""Status of a flow by the classic MirrorMaker, judged from its consumer group at the source.

Its positions are the group's offsets there, and the target holds nothing of it. A partition without an offset
begins at its start. It makes no topics: where the target lacks one, or a partition of it, it stands still.
"""

from collections.abc import Collection, Mapping

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import labelled
from aqueduct.mirror.status import Log, MirrorProgress


def progress(
    committed: Mapping[TopicPartition, int | None], logs: Mapping[TopicPartition, Log]
) -> list[MirrorProgress]:
    """Return the progress of each partition whose log the source shows; None: nothing is committed."""
    nexts = {partition: committed.get(partition) for partition in logs}
    return [
        MirrorProgress(
            partition=partition,
            next=log.start if (next_ := nexts[partition]) is None else next_,
            log=log,
            drained=False,
        )
        for partition, log in logs.items()
    ]


def group_findings(source: str, group: str, state: str) -> list[str]:
    """Return what is not well with the group, in a state of DescribeGroups; at most one sentence."""
    unit = f"mirror_maker@{source}"
    if state in ("Empty", "Dead"):
        sentence = (
            f"No process of the mirror from {source} is in its group {group}; see the journal of {unit}."
        )
        return [labelled("mirror-workers-missing", sentence)]
    if state != "Stable":
        sentence = f"The processes of the mirror from {source} are dividing its partitions ({state})."
        return [labelled("mirror-tasks-unassigned", sentence)]
    return []


def unknown(source: str, partitions: Collection[TopicPartition]) -> list[str]:
    """Return what the position of a classic mirror cannot show, at most one sentence.

    Its process writes the position and keeps nothing beside it. If a topic is re-created, or its log is cut,
    and grows past the position before the process asks for records again, it continues in the middle.
    """
    if not partitions:
        return []
    return [
        labelled(
            "classic-positions-unchecked",
            f"It is not known whether topics of {source} were re-created or lost the end of their log and "
            "have grown past the mirror's position since: a classic mirror stores no topic id. Compare both "
            "ends with aqueduct reconcile.",
        )
    ]


def topic_findings(
    source: str, prefix: str, partitions: Mapping[str, int], target: Mapping[str, int]
) -> list[str]:
    """Return what the target lacks, by how many partitions each topic has at both ends."""
    if not partitions:
        return [labelled("pattern-matches-nothing", f"No topic of {source} matches the flow's patterns.")]
    lacking = [
        f"{prefix}{topic} ({count(number, 'partition')}, has {target.get(prefix + topic, 0)})"
        for topic, number in sorted(partitions.items())
        if target.get(prefix + topic, 0) < number
    ]
    if not lacking:
        return []
    sentence = (
        f"The target lacks {some(lacking)}; declare them in kafka_topics, for without them it stands still."
    )
    return [labelled("mirror-target-topic-missing", sentence)]
