"""What a new quorum begins with: metadata that are older than the logs on brokers' disks, and fit them.
Pure.

Where a log goes further than the metadata know, brokers that start with them would lose of it, or stand
still. A leader whose epoch is older than its followers' logs can't tell them where they agree (KIP-101).
One that was in sync then, and is not any more, makes the others cut off what they have committed. And a
producer that gets an id for the second time is taken for the one that had it, whose records are not written
twice (KIP-98). So the new log has one record more for each such partition, as a controller would write it,
and one for producers' ids.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from aqueduct.errors import Refused
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.mend.logs import DiskLog, Folder
from aqueduct.moments import text
from aqueduct.names import TopicPartition
from aqueduct.quorum.metadata import Metadata
from aqueduct.quorum.records import (
    KnownTopic,
    PartitionState,
    partition_record,
    producer_ids_record,
)
from aqueduct.wording import count, some

# What producers were given since the metadata were written is less: brokers ask for a thousand at once.
PRODUCER_IDS = 1_000_000_000
# What the old controllers had since is less, too: an old log that comes back follows, and does not lead.
EPOCHS = 1_000_000


@dataclass(frozen=True)
class UnknownLogs:
    """Logs of one topic that the metadata don't know: brokers put them aside when they start, and keep
    them."""

    topic: str
    topic_id: str
    why: str
    logs: tuple[tuple[str, DiskLog], ...]  # with their hosts


@dataclass(frozen=True)
class Corrected:
    """A partition of which disks have more than the metadata know."""

    partition: TopicPartition
    topic_id: str
    state: PartitionState  # as it begins
    lacking: tuple[int, ...]  # in sync by the metadata, and without what others have committed


@dataclass(frozen=True)
class QuorumPlan:
    metadata: Metadata
    unknown: tuple[UnknownLogs, ...]
    empty: tuple[TopicPartition, ...]  # known, and no broker has a log of them
    corrected: tuple[Corrected, ...]
    damaged: tuple[tuple[str, DiskLog], ...]
    aside: int  # logs that brokers had put aside before
    lost: tuple[int, ...]  # brokers that have no logs any more
    unseen: tuple[int, ...]  # brokers with replicas whose folders were not looked at
    committed: Mapping[TopicPartition, int]  # up to which offset all replicas in sync had them

    @property
    def differs(self) -> bool:
        """Tell whether something will not be as it was."""
        return bool(
            self.unknown
            or self.empty
            or self.damaged
            or self.lost
            or self.unseen
            or any(each.lacking for each in self.corrected)
        )

    def seed(self) -> Metadata:
        """Return what the controllers of the new quorum begin with; the same for one that has it already."""
        if self.metadata.rise >= EPOCHS:
            return self.metadata
        values = [producer_ids_record(self.metadata.image.next_producer_id + PRODUCER_IDS)]
        values += [
            partition_record(each.topic_id, each.partition.partition, each.state) for each in self.corrected
        ]
        return self.metadata.with_records(values, self.metadata.end_epoch + EPOCHS)


def plan(metadata: Metadata, hosts: Mapping[str, Sequence[Folder]], lost: Collection[int] = ()) -> QuorumPlan:
    """Compare metadata with the logs on brokers' disks; Refused for folders of another cluster.

    Brokers that are `lost` have no log any more: none of them leads where another one has records.
    """
    topics = metadata.image.topics
    names = {each.name for each in topics.values()}
    known: dict[tuple[str, int], dict[int, DiskLog]] = defaultdict(dict)
    strange: dict[tuple[str, str, str], list[tuple[str, DiskLog]]] = defaultdict(list)
    damaged, aside, seen = [], 0, {*lost}
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        if folder.cluster_id != metadata.cluster:
            raise Refused(
                f"{folder.path} of {host} is of the cluster {folder.cluster_id}, and the metadata are of "
                f"{metadata.cluster}: name a store of that cluster. Nothing was done."
            )
        if folder.node_id in lost:
            raise Refused(
                f"{folder.path} of {host} has the logs of broker {folder.node_id}, which is said to have "
                "lost them. Nothing was done."
            )
        seen.add(folder.node_id)
        for log in folder.logs:
            if log.stray:
                aside += 1
            elif why := _strange(topics, names, log, folder.node_id):
                strange[log.partition.topic, log.topic_id, why].append((host, log))
            else:
                known[log.topic_id, log.partition.partition][folder.node_id] = log
                damaged += [(host, log)] if log.damage else []
    corrected, empty, committed = [], [], {}
    for topic in topics.values():
        for number, state in sorted(topic.partitions.items()):
            at, logs = TopicPartition(topic.name, number), known[topic.topic_id, number]
            committed[at] = max((log.committed for log in logs.values()), default=0)
            if fitting := _corrected(at, topic.topic_id, state, logs, seen):
                corrected.append(fitting)
            elif not logs and seen >= set(state.replicas):
                empty.append(at)
    unknown = tuple(UnknownLogs(*of, tuple(logs)) for of, logs in sorted(strange.items()))
    replicas = (state.replicas for topic in topics.values() for state in topic.partitions.values())
    unseen = tuple(sorted({node for nodes in replicas for node in nodes} - seen))
    return QuorumPlan(
        metadata,
        unknown,
        tuple(empty),
        tuple(corrected),
        tuple(damaged),
        aside,
        tuple(sorted(lost)),
        unseen,
        committed,
    )


def _strange(topics: Mapping[str, KnownTopic], names: Set[str], log: DiskLog, node: int) -> str:
    """Say why a broker puts a log aside when it starts (LogManager.isStrayReplica); empty if it takes it."""
    if log.topic_id not in topics:
        return "another topic of this name is" if log.partition.topic in names else "the topic is not"
    state = topics[log.topic_id].partitions.get(log.partition.partition)
    if state is None:
        return "the partition is not"
    return "" if node in state.replicas else "this replica is not"


def _corrected(
    at: TopicPartition, topic_id: str, state: PartitionState, logs: Mapping[int, DiskLog], seen: set[int]
) -> Corrected | None:
    """Return how a partition must begin whose logs have more than the metadata know; None: as they say."""
    whole = {node: log for node, log in logs.items() if not log.damage}
    if not whole:
        return None
    best = max(whole, key=lambda node: (whole[node].epoch, whole[node].end))
    committed = max(log.committed for log in logs.values())
    lacking = tuple(
        node
        for node in state.in_sync
        if node in seen and node != best and (node not in whole or whole[node].end < committed)
    )
    epoch = max(log.epoch for log in whole.values())
    if not lacking and epoch <= state.leader_epoch:
        return None
    begun = replace(
        state,
        in_sync=(best,),
        # Brokers that come back are not believed to have all their logs (KIP-966): who led last, leads then.
        leader=best,
        leader_epoch=max(epoch, state.leader_epoch) + 1,
        epoch=state.epoch + 1,
    )
    return Corrected(at, topic_id, begun, lacking)


def sentences(found: QuorumPlan) -> list[str]:
    """Say what comes back otherwise than it was."""
    metadata = found.metadata
    topics = metadata.image.topics.values()
    partitions = sum(len(each.partitions) for each in topics)
    lines = [
        f"The metadata are those of node {metadata.node} at {text(metadata.time)}: "
        f"{count(len(topics), 'topic')} with {count(partitions, 'partition')}. What was changed later but "
        "topics can't be known: settings, ACLs, users, quotas."
    ]
    for each in found.unknown:
        named = sorted({str(log.partition) for _, log in each.logs})
        records = max(log.end for _, log in each.logs)
        lines.append(
            f"NOT known: {some(named)} (id {each.topic_id or 'none'}), for {each.why} in the metadata; "
            f"{count(len(each.logs), 'log')} on {some(sorted({host for host, _ in each.logs}))}, up to "
            f"offset {records:,}. Brokers put them aside as <topic>-<partition>.<digits>-stray and keep them."
        )
        if each.topic == GROUPS:
            lines.append(
                "With these go positions of groups: `aqueduct restore --groups-only` sets those of a backup."
            )
    if found.empty:
        lines.append(f"EMPTY: {some(found.empty)}: no broker has a log of them; deleted since, or lost.")
    furthest: dict[tuple[int, tuple[int, ...]], list[TopicPartition]] = defaultdict(list)
    for fitting in found.corrected:
        furthest[fitting.state.leader, fitting.lacking].append(fitting.partition)
    for (leader, lacking), led in sorted(furthest.items()):
        why = f"; {some(lacking)}, in sync by the metadata, lacks what was committed" if lacking else ""
        lines.append(f"What broker {leader} has goes furthest, and leads: {some(led)}{why}.")
    lines += [f"DAMAGED: {log.folder} on {host}: {log.damage}" for host, log in found.damaged]
    if found.lost:
        lines.append(
            f"LOST: the disks of brokers {some(found.lost)}. If one is only not mounted, mount it before."
        )
    if found.unseen:
        lines.append(
            f"NOT looked at: brokers {some(found.unseen)}, whose logs may have more than those of the "
            "others. Partitions with replicas there may wait for them. Start none with an empty disk: where "
            "that is lost, say so (--lost), or others lose what they have."
        )
    if found.aside:
        lines.append(f"{count(found.aside, 'log')} had been put aside before, and stay so.")
    return lines
