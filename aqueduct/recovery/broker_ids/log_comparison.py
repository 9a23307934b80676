"""Metadata that are older than the logs on brokers' disks: what they don't know, and what makes them fit.
Pure.

Where a log goes further than the metadata know, brokers that start with them would lose of it, or stand
still. A leader whose epoch is older than its followers' logs can't tell them where they agree (KIP-101). One
that was in sync then, and is not any more, makes the others cut off what they have committed. So such a
partition begins with the replica that goes furthest, in an epoch above all. What was committed is not asked:
a broker writes that down each five seconds, and one that was killed had acknowledged more since.
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

# What producers were given since the metadata were written is less: brokers ask for a thousand at once. One
# that gets an id for the second time is taken for the one that had it, and is not written twice (KIP-98).
PRODUCER_IDS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class KnownPartition:
    """A partition as metadata know it."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int


# A broker stopped while it moved a log from one of its disks to another (KIP-113).
TWICE = (
    "another folder of the broker's log.dirs also has this partition, and the broker does not "
    "start with both: move the shorter log away."
)

ANOTHER = "another topic of this name is"  # in the metadata, with another id

Known = TypeVar("Known", bound=KnownPartition, covariant=True)


@dataclass(frozen=True)
class KnownTopic(Generic[Known]):
    """A topic as metadata know it."""

    name: str
    topic_id: str  # empty: of a time before ids (KIP-516)
    partitions: Mapping[int, Known]


@dataclass(frozen=True, kw_only=True)
class UnknownLogs:
    """Logs of one topic that the metadata don't know."""

    topic: str
    topic_id: str
    why: str
    logs: tuple[tuple[str, DiskLog], ...]  # with their hosts


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A partition of which disks have more than the metadata know, and who leads it in which epoch."""

    partition: TopicPartition
    topic_id: str
    leader: int
    leader_epoch: int
    lacking: tuple[int, ...]  # in sync by the metadata, and without the leader's end


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a comparison of metadata with logs found."""

    unknown: tuple[UnknownLogs, ...]
    empty: tuple[TopicPartition, ...]  # known, and no broker has a log of them
    corrected: tuple[Corrected, ...]
    damaged: tuple[tuple[str, DiskLog], ...]
    aside: int  # logs that brokers had set aside before
    lost: tuple[int, ...]  # brokers that have no logs any more
    lost_folders: tuple[str, ...]  # of brokers that have others, with their hosts
    nowhere: str  # which are said to be lost, and have no replica; empty if none
    unseen: tuple[int, ...]  # brokers with replicas whose folders were not looked at
    committed: Mapping[TopicPartition, int]  # up to which offset all replicas in sync had them
    furthest: Mapping[TopicPartition, tuple[int, int]]  # epoch and end of the log that goes furthest

    @property
    def differs(self) -> bool:
        """Tell whether something will not be as it was."""
        lost = self.lost or self.lost_folders
        return bool(self.unknown or self.empty or self.damaged or lost or self.unseen)


def fit(
    cluster: str,
    topics: Collection[KnownTopic[KnownPartition]],
    hosts: Mapping[str, Sequence[Folder]],
    lost: Collection[int] = (),
    *,
    without_ids: bool = False,
) -> Fit:
    """Compare what metadata know with the logs on brokers' disks; Refused for folders of another cluster.

    Brokers that are `lost` have no log any more: none of them leads where another one has records.
    `without_ids`: brokers take a log for a topic's by its name, where one of both has no id.
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
                furthest[partition] = max(log.far for log in its_own.values())
            if fitting := _corrected(partition, topic.topic_id, state, its_own, seen):
                corrected.append(fitting)
            elif not its_own and seen >= set(state.replicas):
                empty.append(partition)
    replicas = {node for topic in topics for state in topic.partitions.values() for node in state.replicas}
    return Fit(
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
        nowhere=nowhere(lost, replicas),
        unseen=tuple(sorted(replicas - seen)),
        committed=committed,
        furthest=furthest,
    )


def _refuse_other_clusters(cluster: str, hosts: Mapping[str, Sequence[Folder]]) -> None:
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        if folder.cluster_id != cluster:
            raise Refused(
                "cluster-mismatch",
                f"{folder.path} of {host} belongs to the cluster {folder.cluster_id}, but the "
                f"metadata belong to the cluster {cluster}. Pass a store of the cluster of the "
                "folders. Nothing was done.",
            )


@dataclass(frozen=True, kw_only=True)
class _SortedLogs:
    """The logs on all disks, by what metadata know of them."""

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
                its_own[folder.node_id] = max(log, other or log, key=lambda copy: copy.far)
                damaged += [(host, log)] if log.damage else []
    return _SortedLogs(of_partitions=of_partitions, unknown=unknown, damaged=damaged, aside=aside)


def lost_folders(hosts: Mapping[str, Sequence[Folder]]) -> tuple[str, ...]:
    return tuple(
        f"{folder.path} of {host}"
        for host, folders in sorted(hosts.items())
        for folder in folders
        if folder.lost
    )


def nowhere(lost: Collection[int], replicas: Collection[int]) -> str:
    """Say which brokers that are said to be lost have no replica, as with a wrong id; empty if none."""
    wrong = sorted(set(lost) - set(replicas))
    return f"--lost {some(wrong)}: no partition has a replica there." if wrong else ""


def refuse_lost(hosts: Mapping[str, Sequence[Folder]], lost: Collection[int]) -> None:
    """Refuse folders of brokers that are said to have none any more."""
    for host, folder in ((host, folder) for host, folders in hosts.items() for folder in folders):
        if folder.node_id in lost:
            raise Refused(
                "lost-broker-has-logs",
                f"{folder.path} of {host} has the logs of broker {folder.node_id}, but --lost "
                "lists this broker. Nothing was done.",
            )


def _strange(
    topic: KnownTopic[KnownPartition] | None,
    named: KnownTopic[KnownPartition] | None,
    log: DiskLog,
    node: int,
) -> str:
    """Say why a log is none of its broker's (LogManager.isStrayReplica); empty if it is."""
    if topic is None:
        return ANOTHER if named else "the topic is not"
    state = topic.partitions.get(log.partition.partition)
    if state is None:
        return "the partition is not"
    return "" if node in state.replicas else "this replica is not"


def _corrected(
    partition: TopicPartition,
    topic_id: str,
    state: KnownPartition,
    logs: Mapping[int, DiskLog],
    seen: set[int],
) -> Corrected | None:
    """Return how a partition must begin whose logs have more than the metadata know; None: as they say."""
    if not logs:
        return None
    # A damaged one goes as far as it is whole: where that is furthest, any other one would lose more.
    best = max(logs, key=lambda node: (logs[node].far, not logs[node].damage))
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


def sentences(outcome: Fit, fate: str) -> Iterable[str]:
    """Say what comes back otherwise than it was; `fate`: what brokers do with logs that are not known."""
    for unknown in outcome.unknown:
        yield from _of_unknown(unknown, fate)
    if outcome.empty:
        yield (
            f"EMPTY: {some(outcome.empty)}: no broker has a log of them; they were deleted since, or "
            "are lost."
        )
    yield from _of_corrected(outcome.corrected)
    yield from _of_damaged(outcome.damaged)
    if outcome.lost:
        yield (
            f"LOST: the disks of brokers {some(outcome.lost)}. If a disk is only unmounted, mount it first."
        )
    if outcome.lost_folders:
        yield f"LOST: {some(outcome.lost_folders)}. If a disk is only unmounted, mount it first."
    if outcome.nowhere:
        yield outcome.nowhere
    if outcome.unseen:
        yield (
            f"NOT inspected: brokers {some(outcome.unseen)}. Their logs may be longer than those "
            "of the others: inspect them, too. If their disks are permanently lost, pass --lost."
        )
    if outcome.aside:
        yield f"Already set aside and left unchanged: {count(outcome.aside, 'log')}."


def _of_unknown(unknown: UnknownLogs, fate: str) -> Iterator[str]:
    named = sorted({str(log.partition) for _, log in unknown.logs})
    records = max(log.end for _, log in unknown.logs)
    yield (
        f"NOT known: {some(named)} (id {unknown.topic_id or 'none'}), because {unknown.why} in the "
        f"metadata; {count(len(unknown.logs), 'log')} on "
        f"{some(sorted({host for host, _ in unknown.logs}))}, up to offset {records:,}. {fate}"
    )
    if unknown.topic == GROUPS:
        yield (
            "Offsets of groups are lost with these partitions: `aqueduct restore --groups-only` "
            "restores those of a backup."
        )


def _of_corrected(corrected: Iterable[Corrected]) -> Iterator[str]:
    furthest: dict[tuple[int, tuple[int, ...]], list[TopicPartition]] = defaultdict(list)
    for fitting in corrected:
        furthest[fitting.leader, fitting.lacking].append(fitting.partition)
    for (leader, lacking), led in sorted(furthest.items()):
        remark = (
            f"; {some(lacking)}, in sync according to the metadata, does not have the same log"
            if lacking
            else ""
        )
        yield f"Broker {leader} has the longest logs and becomes leader of: {some(led)}{remark}."


def _of_damaged(logs: Iterable[tuple[str, DiskLog]]) -> Iterator[str]:
    damaged: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, log in logs:
        damaged[host, log.damage].append(log.folder)
    for (host, damage), folders in damaged.items():
        yield f"DAMAGED: {some(folders)} on {host}: {damage}"
