"""Comparison of restored metadata with newer logs on brokers' disks, and the corrections of the metadata.
Pure.

If a log is longer than the metadata assume, brokers that start with these metadata truncate it, or wait. A
leader with an older epoch than the logs of its followers cannot find their common end (KIP-101). A leader
that was in sync then, but is not now, makes its followers truncate committed records. So such a partition
starts with the replica that has the longest log, in an epoch above all others. The stored high watermarks are
not used: a broker stores them every five seconds, and a killed broker has acknowledged more records since.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Refused
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder

# Producers got fewer ids than this since the metadata were written: brokers request a thousand at once. A
# producer that got an id twice would be mistaken for its first owner, and its records dropped (KIP-98).
PRODUCER_IDS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class KnownPartition:
    """A partition in the metadata."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int


# A broker stopped while it moved a log from one of its disks to another (KIP-113).
TWICE = (
    "another folder of the broker's log.dirs also has a log of this partition. The broker does not start "
    "with both. Move the shorter log to another place."
)

ANOTHER = "the metadata have another topic of this name"  # with another id

Known = TypeVar("Known", bound=KnownPartition, covariant=True)


@dataclass(frozen=True)
class KnownTopic(Generic[Known]):
    """A topic in the metadata."""

    name: str
    topic_id: str  # empty: the topic is older than topic ids (KIP-516)
    partitions: Mapping[int, Known]


@dataclass(frozen=True, kw_only=True)
class UnknownLogs:
    """Logs of one topic that are not in the metadata."""

    topic: str
    topic_id: str
    why: str
    logs: tuple[tuple[str, DiskLog], ...]  # with their hosts


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A partition with longer logs than the metadata assume, and its corrected leader and leader epoch."""

    partition: TopicPartition
    topic_id: str
    leader: int
    leader_epoch: int
    lacking: tuple[int, ...]  # in sync according to the metadata, but not with the leader's log


@dataclass(frozen=True, kw_only=True)
class LogComparison:
    """The outcome of a comparison of metadata with logs."""

    unknown: tuple[UnknownLogs, ...]
    empty: tuple[TopicPartition, ...]  # in the metadata, but without a log on any broker
    corrected: tuple[Corrected, ...]
    damaged: tuple[tuple[str, DiskLog], ...]
    aside: int  # logs that brokers had set aside before
    lost: tuple[int, ...]  # brokers whose disks are lost
    lost_folders: tuple[str, ...]  # of brokers that have other folders, with their hosts
    lost_without_replicas: str  # a sentence about lost brokers without replicas; empty if there is none
    unseen: tuple[int, ...]  # brokers with replicas whose folders were not inspected
    committed: Mapping[TopicPartition, int]  # the highest stored high watermark
    furthest: Mapping[TopicPartition, tuple[int, int]]  # epoch and end of the longest log

    @property
    def differs(self) -> bool:
        """Return whether logs or partitions are lost or unknown."""
        lost = self.lost or self.lost_folders
        return bool(self.unknown or self.empty or self.damaged or lost or self.unseen)


def compare_logs(
    cluster: str,
    topics: Collection[KnownTopic[KnownPartition]],
    hosts: Mapping[str, Sequence[Folder]],
    lost: Collection[int] = (),
    *,
    without_ids: bool = False,
) -> LogComparison:
    """Compare metadata with the logs on brokers' disks. Refused for folders of another cluster.

    `lost` brokers have no logs: they never become leader of a partition of which another broker has records.
    `without_ids`: if a log or its topic has no topic id, the log belongs to the topic of the same name.
    """
    refuse_lost(hosts, lost)
    _refuse_other_clusters(cluster, hosts)
    logs = _sorted_logs(topics, hosts, without_ids=without_ids)
    seen = {*lost, *(folder.node_id for folders in hosts.values() for folder in folders)}
    corrected, empty, committed, furthest = [], [], {}, {}
    for topic in topics:
        for number, state in sorted(topic.partitions.items()):
            partition = TopicPartition(topic.name, number)
            its_own = logs.of_partitions.get(partition, {})
            committed[partition] = max((log.committed for log in its_own.values()), default=0)
            if its_own:
                furthest[partition] = max(log.epoch_and_end for log in its_own.values())
            if correction := _corrected(partition, topic.topic_id, state, its_own, seen):
                corrected.append(correction)
            elif not its_own and seen >= set(state.replicas):
                empty.append(partition)
    replicas = {node for topic in topics for state in topic.partitions.values() for node in state.replicas}
    return LogComparison(
        unknown=tuple(
            UnknownLogs(topic=topic, topic_id=topic_id, why=reason, logs=tuple(unknown))
            for (topic, topic_id, reason), unknown in sorted(logs.unknown.items())
        ),
        empty=tuple(empty),
        corrected=tuple(corrected),
        damaged=tuple(logs.damaged),
        aside=logs.aside,
        lost=tuple(sorted(replicas.intersection(lost))),
        lost_folders=lost_folders(hosts),
        lost_without_replicas=lost_without_replicas(lost, replicas),
        unseen=tuple(sorted(replicas - seen)),
        committed=committed,
        furthest=furthest,
    )


def _refuse_other_clusters(cluster: str, hosts: Mapping[str, Sequence[Folder]]) -> None:
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        if folder.cluster_id != cluster:
            raise Refused(
                "cluster-mismatch",
                f"{folder.path} of {host} belongs to cluster {folder.cluster_id}, but the metadata belong to "
                f"cluster {cluster}. Pass a store with the metadata of cluster {folder.cluster_id}. Nothing "
                "was done.",
            )


@dataclass(frozen=True, kw_only=True)
class _SortedLogs:
    """The logs on all disks, sorted by what the metadata contain of them."""

    of_partitions: Mapping[TopicPartition, Mapping[int, DiskLog]]  # of known ones, by broker
    unknown: Mapping[tuple[str, str, str], Sequence[tuple[str, DiskLog]]]  # by topic, its id, and why
    damaged: Sequence[tuple[str, DiskLog]]
    aside: int


def _sorted_logs(
    topics: Collection[KnownTopic[KnownPartition]],
    hosts: Mapping[str, Sequence[Folder]],
    *,
    without_ids: bool,
) -> _SortedLogs:
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id}
    by_name = {topic.name: topic for topic in topics}
    of_partitions: dict[TopicPartition, dict[int, DiskLog]] = defaultdict(dict)
    unknown: dict[tuple[str, str, str], list[tuple[str, DiskLog]]] = defaultdict(list)
    damaged: list[tuple[str, DiskLog]] = []
    aside = 0
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        for log in folder.logs:
            topic, named = by_id.get(log.topic_id), by_name.get(log.partition.topic)
            if without_ids and named and not (log.topic_id and named.topic_id):
                topic = named
            if log.stray:
                aside += 1
            elif reason := _strange(topic, named, log, folder.node_id):
                unknown[log.partition.topic, log.topic_id, reason].append((host, log))
            else:
                its_own = of_partitions[log.partition]
                if other := its_own.get(folder.node_id):
                    damaged.append((host, replace(log, damage=TWICE)))
                its_own[folder.node_id] = max(log, other or log, key=lambda copy: copy.epoch_and_end)
                damaged += [(host, log)] if log.damage else []
    return _SortedLogs(of_partitions=of_partitions, unknown=unknown, damaged=damaged, aside=aside)


def lost_folders(hosts: Mapping[str, Sequence[Folder]]) -> tuple[str, ...]:
    return tuple(
        f"{folder.path} of {host}"
        for host, folders in sorted(hosts.items())
        for folder in folders
        if folder.lost
    )


def lost_without_replicas(lost: Collection[int], replicas: Collection[int]) -> str:
    """Return a sentence about `lost` brokers without replicas, such as wrong ids; empty if there is none."""
    wrong = sorted(set(lost) - set(replicas))
    return f"--lost {some(wrong)}: no partition has a replica there. Check the broker ids." if wrong else ""


def refuse_lost(hosts: Mapping[str, Sequence[Folder]], lost: Collection[int]) -> None:
    """Refuse folders of brokers whose disks are declared as lost."""
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        if folder.node_id in lost:
            raise Refused(
                "lost-broker-has-logs",
                f"{folder.path} of {host} has the logs of broker {folder.node_id}, but --lost "
                "lists this broker. Remove the broker from --lost. Nothing was done.",
            )


def _strange(
    topic: KnownTopic[KnownPartition] | None,
    named: KnownTopic[KnownPartition] | None,
    log: DiskLog,
    node: int,
) -> str:
    """Return why a log is not of its broker by the metadata (LogManager.isStrayReplica); else empty."""
    if topic is None:
        return ANOTHER if named else "the metadata do not have the topic"
    state = topic.partitions.get(log.partition.partition)
    if state is None:
        return "the metadata do not have the partition"
    return "" if node in state.replicas else "the metadata do not have this replica"


def _corrected(
    partition: TopicPartition,
    topic_id: str,
    state: KnownPartition,
    logs: Mapping[int, DiskLog],
    seen: set[int],
) -> Corrected | None:
    """Return the corrected leader of a partition; None if the metadata fit its logs."""
    if not logs:
        return None
    # The end of a damaged log is before its damage. If it is the longest one, each other one would lose more.
    best = max(logs, key=lambda node: (logs[node].epoch_and_end, not logs[node].damage))
    lacking = tuple(
        node
        for node in state.in_sync
        if node in seen and node != best and (node not in logs or logs[node].end != logs[best].end)
    )
    epoch = logs[best].epoch
    if not lacking and epoch <= state.leader_epoch:
        return None
    return Corrected(
        partition=partition,
        topic_id=topic_id,
        leader=best,
        leader_epoch=max(epoch, state.leader_epoch) + 1,
        lacking=lacking,
    )


def sentences(outcome: LogComparison, fate: str) -> Iterable[str]:
    """Yield the differences after the restore; `fate`: what brokers do with unknown logs, as sentences."""
    for unknown in outcome.unknown:
        yield from _of_unknown(unknown, fate)
    if outcome.empty:
        yield (
            f"EMPTY: {some(outcome.empty)}. No broker has a log of these partitions: they were deleted after "
            "the metadata were written, or their logs are lost."
        )
    yield from _of_corrected(outcome.corrected)
    yield from _of_damaged(outcome.damaged)
    if outcome.lost:
        yield (
            f"LOST: the disks of brokers {some(outcome.lost)}. If a disk is only unmounted, mount it first."
        )
    if outcome.lost_folders:
        yield f"LOST: {some(outcome.lost_folders)}. If a disk is only unmounted, mount it first."
    if outcome.lost_without_replicas:
        yield outcome.lost_without_replicas
    if outcome.unseen:
        yield (
            f"NOT inspected: brokers {some(outcome.unseen)}. Their logs may be longer than the "
            "inspected logs. Inspect these brokers, too. If their disks are permanently lost, pass --lost."
        )
    if outcome.aside:
        yield f"Already set aside and left unchanged: {count(outcome.aside, 'log')}."


def _of_unknown(unknown: UnknownLogs, fate: str) -> Iterator[str]:
    named = sorted({str(log.partition) for _, log in unknown.logs})
    records = max(log.end for _, log in unknown.logs)
    yield (
        f"NOT known: {some(named)} (topic id {unknown.topic_id or 'none'}), because {unknown.why}. "
        f"{count(len(unknown.logs), 'log')} on {some(sorted({host for host, _ in unknown.logs}))}, "
        f"up to offset {records:,}. {fate}"
    )
    if unknown.topic == GROUPS:
        yield (
            "The committed offsets of groups in these partitions are lost. Restore them from a backup with "
            "`aqueduct restore --groups-only`."
        )


def _of_corrected(corrected: Iterable[Corrected]) -> Iterator[str]:
    furthest: dict[tuple[int, tuple[int, ...]], list[TopicPartition]] = defaultdict(list)
    for correction in corrected:
        furthest[correction.leader, correction.lacking].append(correction.partition)
    for (leader, lacking), led in sorted(furthest.items()):
        remark = (
            f" The metadata list these brokers as in sync, but their logs differ: {some(lacking)}."
            if lacking
            else ""
        )
        yield f"Broker {leader} has the longest logs and becomes leader of: {some(led)}.{remark}"


def _of_damaged(logs: Iterable[tuple[str, DiskLog]]) -> Iterator[str]:
    damaged: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, log in logs:
        damaged[host, log.damage].append(log.folder)
    for (host, damage), folders in damaged.items():
        yield f"DAMAGED: {some(folders)} on {host}: {damage}"
