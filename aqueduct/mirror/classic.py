"""Status of a flow by the classic MirrorMaker, judged from its consumer group at the source.

Its positions are the group's offsets there; the target holds their bindings (`classic_binding`). A partition
without an offset begins at its start. It makes no topics: where the target lacks one, or a partition of it,
it stands still.
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
            f"No process of the mirror from {source} is a member of its group {group}. Read the journal of "
            f"{unit}."
        )
        return [labelled("mirror-workers-missing", sentence)]
    if state != "Stable":
        sentence = (
            f"The processes of the mirror from {source} are rebalancing ({state}). No partition is "
            "mirrored until the rebalance has ended. Run the command again after one minute."
        )
        return [labelled("mirror-tasks-unassigned", sentence)]
    return []


def unbound(source: str, partitions: Collection[TopicPartition]) -> list[str]:
    """Return which positions could not be checked, at most one sentence.

    A process writes its position and keeps nothing beside it. If a topic is re-created, or its log is cut,
    and grows past the position before the process asks for records again, it continues in the middle.
    """
    if not partitions:
        return []
    return [
        labelled(
            "classic-positions-unchecked",
            f"It is unknown whether the positions of the mirror in {some(sorted(partitions))} belong to the "
            f"present topics of {source}. No topic ID was stored with these positions before, or the source "
            "is older than Kafka 2.8 and has no topic IDs. Compare both ends with aqueduct reconcile.",
        )
    ]


def outdated_findings(source: str, partitions: Collection[TopicPartition]) -> list[str]:
    """Return which positions are of earlier topics or logs, at most one sentence."""
    if not partitions:
        return []
    return [
        labelled(
            "classic-position-outdated",
            f"{some(sorted(partitions))} of {source} were re-created or truncated after the last check of "
            "the mirror's positions. If the mirror ran at this time, it may have skipped records of the new "
            "logs. Compare both ends with aqueduct reconcile. Then run this command with --accept-ranges.",
        )
    ]


def topic_findings(
    source: str, prefix: str, partitions: Mapping[str, int], target: Mapping[str, int]
) -> list[str]:
    """Return what the target lacks, by how many partitions each topic has at both ends."""
    if not partitions:
        return [
            labelled(
                "pattern-matches-nothing",
                f"No topic of {source} matches the patterns of the flow. Correct the patterns, or create the "
                "topics.",
            )
        ]
    lacking = [
        (
            f"{prefix}{topic} ({count(number, 'partition')} at the source, {target.get(prefix + topic, 0)} "
            "at the target)"
        )
        for topic, number in sorted(partitions.items())
        if target.get(prefix + topic, 0) < number
    ]
    if not lacking:
        return []
    sentence = (
        f"The target lacks topics or partitions, so the mirror cannot mirror them: {some(lacking)}. Declare "
        "the topics with these numbers of partitions in kafka_topics of the target site."
    )
    return [labelled("mirror-target-topic-missing", sentence)]
