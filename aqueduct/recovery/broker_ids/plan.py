"""Which id a broker had, by the logs that it has, and what brings its partitions back. Pure.

A cluster whose brokers came back with other ids waits without an error: its partitions stay assigned to ids
that are gone. What remedy there is depends on the logs: they say which id a host had.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Refused
from aqueduct.kafka.cluster import Cluster, Partition
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder
from aqueduct.recovery.broker_ids.log_comparison import lost_folders, refuse_lost

Replicas = Mapping[TopicPartition, tuple[int, ...]]

INSPECTION_SECONDS = 3600  # on a large host, it takes a while


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A host whose broker has another id than the one to which its logs are assigned."""

    host: str
    now: int
    before: int
    logs: Mapping[TopicPartition, DiskLog]  # of partitions that are assigned to the id before
    strays: int  # of these that the broker has set aside
    since: tuple[TopicPartition, ...]  # partitions that the cluster gave to the id it has now


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Logs of a broker that does not run, on the host of another one that is not taken for it."""

    host: str
    now: int
    owner: int  # the broker to which they are assigned
    logs: int
    why: str
    remedy: str


@dataclass(frozen=True)
class ReplacedIds:
    """The ids that `assign` replaced, each with the id that its broker has now; kept for a later run."""

    cluster: str
    ids: Mapping[str, int]  # old id, as JSON has keys: new id

    def new(self, old: int, replicas: Collection[int]) -> int | None:
        """Return the new id of a broker that is a replica by both; None if it is not.

        A reassignment that `assign` began has both until it ends. Another one looks the same, and may have
        begun a copy: it is not in the ids.
        """
        new_id = self.ids.get(str(old))
        return new_id if new_id in replicas else None


NOTHING_REPLACED = ReplacedIds("", {})


@dataclass(frozen=True, kw_only=True)
class RepairPlan:
    """What a cluster lacks whose brokers' ids were changed, and what would bring it back.

    `move` are the replicas of each partition with the ids of now in place of those that are gone. Where
    nobody leads it, who has most of its log comes first; `lead` are these partitions. `stopped` wait for a
    broker that has their logs and does not run. `unseen` are left, and why: a log that was not looked at may
    go furthest. `empty` have no log anywhere; `damaged` are logs that aren't whole, with their brokers.
    `leftovers` are logs that were not taken into account.
    """

    changed: tuple[Changed, ...]
    move: Replicas
    lead: tuple[TopicPartition, ...]
    stopped: tuple[TopicPartition, ...]
    unseen: Mapping[TopicPartition, str]
    empty: tuple[TopicPartition, ...]
    damaged: tuple[tuple[int, DiskLog], ...]
    leftovers: tuple[Leftover, ...]
    lost_folders: tuple[str, ...]


def refuse_old(hosts: Mapping[str, Sequence[Folder]], now: int) -> None:
    """Refuse looks of long before now, in milliseconds since 1970: brokers may have taken more since.

    A younger one is left where its broker has stopped or started since (`_unseen`).
    """
    for host, folders in hosts.items():
        for folder in folders:
            try:
                age = abs(now - timestamps.parse(folder.time)) // 1000
            except ValueError:
                raise Refused(
                    "inspection-outdated",
                    f"The inspection of {host} has no time, because a former version made it. Run "
                    "`aqueduct repair inspect` there again. Nothing was done.",
                ) from None
            if age > INSPECTION_SECONDS:
                raise Refused(
                    "inspection-outdated",
                    f"The inspection of {host} is of {folder.time}, and is valid for "
                    f"{INSPECTION_SECONDS // 60} minutes, because its broker may have written more since. "
                    "Run `aqueduct repair inspect` there again, with a correct clock. Nothing was done.",
                )


def plan(
    cluster: Cluster,
    hosts: Mapping[str, Sequence[Folder]],
    lost: Collection[int] = (),
    moving: Collection[TopicPartition] = (),
    replaced: ReplacedIds = NOTHING_REPLACED,
) -> RepairPlan:
    """Work out what brings partitions of ids that are gone back; Refused for folders of another cluster.

    Brokers that are `lost` have no log any more; what others have that were not looked at isn't known.
    `moving` are being reassigned: they have the replicas of before, too. `replaced`: by former runs.
    """
    refuse_lost(hosts, lost)
    _refuse_other_clusters(cluster, hosts)
    changed, leftovers = _changed(cluster, hosts, _assigned(cluster), lost, moving)
    inspected = _Inspected(
        cluster=cluster,
        changed={change.before: change for change in changed},
        logs={folders[0].node_id: _furthest(folders) for folders in hosts.values() if folders},
        running=_running(hosts),
        lost=lost,
        replaced=replaced,
    )
    remedies = [_remedy(inspected, state) for state in cluster.partitions]

    def having(fate: _Fate) -> tuple[TopicPartition, ...]:
        return tuple(remedy.partition for remedy in remedies if remedy.fate is fate)

    return RepairPlan(
        changed=tuple(changed),
        move={remedy.partition: remedy.move for remedy in remedies if remedy.move is not None},
        lead=having(_Fate.ELECT),
        stopped=having(_Fate.STOPPED),
        unseen={remedy.partition: remedy.unseen for remedy in remedies if remedy.fate is _Fate.UNSEEN},
        empty=having(_Fate.EMPTY),
        damaged=tuple(damage for remedy in remedies for damage in remedy.damaged),
        leftovers=tuple(leftovers),
        lost_folders=lost_folders(hosts),
    )


def _refuse_other_clusters(cluster: Cluster, hosts: Mapping[str, Sequence[Folder]]) -> None:
    for host, folders in hosts.items():
        for folder in folders:
            if folder.cluster_id != cluster.cluster_id:
                raise Refused(
                    "cluster-mismatch",
                    f"{folder.path} of {host} belongs to the cluster {folder.cluster_id}, but this "
                    f"cluster is {cluster.cluster_id}. Pass the folders of its own brokers.",
                )


def _assigned(cluster: Cluster) -> dict[int, set[TopicPartition]]:
    """Return the partitions of each broker that is a replica."""
    return {
        node: {state.topic_partition for state in cluster.partitions if node in state.replicas}
        for node in {node for state in cluster.partitions for node in state.replicas}
    }


@dataclass(frozen=True, kw_only=True)
class _Inspected:
    """A cluster, with the logs on the disks of its hosts."""

    cluster: Cluster
    changed: Mapping[int, Changed]  # by the id before
    logs: Mapping[int, Mapping[TopicPartition, DiskLog]]  # by the id of now
    running: Mapping[int, set[bool | None]]
    lost: Collection[int]
    replaced: ReplacedIds

    def now(self, node: int) -> int:
        """Return the id that a broker has now."""
        return self.changed[node].now if node in self.changed else node

    def log(self, node: int, partition: TopicPartition) -> DiskLog | None:
        logs = self.changed[node].logs if node in self.changed else self.logs.get(node, {})
        return logs.get(partition)


class _Fate(Enum):
    """What a partition waits for."""

    LED = auto()  # nothing
    ELECT = auto()
    STOPPED = auto()  # a broker that has most of its log, and does not run
    UNSEEN = auto()
    EMPTY = auto()
    DAMAGED = auto()


@dataclass(frozen=True, kw_only=True)
class _Remedy:
    """What brings one partition back."""

    partition: TopicPartition
    fate: _Fate
    move: tuple[int, ...] | None = None  # replicas in place of those that it has; None: these
    unseen: str = ""  # why
    damaged: Sequence[tuple[int, DiskLog]] = ()


def _remedy(inspected: _Inspected, state: Partition) -> _Remedy:
    partition, now = state.topic_partition, inspected.now
    # Both ids of one broker are there while it is reassigned from one to the other.
    replicas = tuple(
        dict.fromkeys(
            now(node) for node in state.replicas if inspected.replaced.new(node, state.replicas) is None
        )
    )
    if state.leader is not None:
        return _Remedy(
            partition=partition, fate=_Fate.LED, move=replicas if replicas != state.replicas else None
        )
    nodes = [now(node) for node in state.replicas]
    if reason := _unseen(inspected.cluster, inspected.running, inspected.lost, nodes, inspected.replaced):
        return _Remedy(partition=partition, fate=_Fate.UNSEEN, unseen=reason)
    logs = {now(node): log for node in state.replicas if (log := inspected.log(node, partition))}
    if damage := [(node, log) for node, log in logs.items() if log.damage]:
        return _Remedy(partition=partition, fate=_Fate.DAMAGED, damaged=damage)
    if not logs:
        return _Remedy(partition=partition, fate=_Fate.EMPTY)
    best = max(logs, key=lambda node: logs[node].far)
    if best not in inspected.cluster.brokers:
        return _Remedy(partition=partition, fate=_Fate.STOPPED)
    first = (best, *(node for node in replicas if node != best))
    return _Remedy(partition=partition, fate=_Fate.ELECT, move=first if first != state.replicas else None)


def _damage(node: int, log: DiskLog) -> str:
    return f"the log of broker {node} is damaged ({log.damage.rstrip('.')})"


def _running(hosts: Mapping[str, Sequence[Folder]]) -> dict[int, set[bool | None]]:
    """Return of each broker whether it ran when its folders were looked at."""
    running_by_node: dict[int, set[bool | None]] = defaultdict(set)
    for folder in (folder for folders in hosts.values() for folder in folders):
        running_by_node[folder.node_id].add(folder.running)
    return running_by_node


def _unseen(
    cluster: Cluster,
    looked: Mapping[int, set[bool | None]],
    lost: Collection[int],
    nodes: Sequence[int],
    replaced: ReplacedIds,
) -> str:
    """Say which of these brokers may have more than what was seen of them; empty if none."""
    for node in (node for node in nodes if node not in lost):
        if node not in looked and node not in cluster.brokers and replaced.new(node, nodes) in looked:
            continue
        if node not in looked:
            return (
                f"broker {node} was not inspected; inspect it, too, or pass --lost {node} if its "
                "disks are permanently lost, or belong to another broker now"
            )
        ran, runs = True in looked[node], node in cluster.brokers
        if ran and not runs:
            return (
                f"broker {node} ran when it was inspected, but does not serve now; inspect it "
                "again when it serves or is stopped"
            )
        if runs and False in looked[node] and not ran:
            return f"broker {node} did not run when it was inspected, but runs now; inspect it again"
    return ""


def emptied(
    cluster: Cluster, repair: RepairPlan, named: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Choose running brokers for partitions that are to be made empty; Refused where a log may be."""
    for partition in sorted(set(named) & repair.unseen.keys()):
        raise Refused(
            "partition-may-have-logs",
            f"{partition} cannot be created empty, because {repair.unseen[partition]}. Nothing was assigned.",
        )
    if wrong := sorted(set(named) - set(repair.empty)):
        raise Refused(
            "partition-may-have-logs",
            f"{some(wrong)} cannot be created empty, because only partitions without any log can. "
            "Nothing was assigned.",
        )
    factors = {state.topic_partition: len(state.replicas) for state in cluster.partitions}
    nodes = sorted(cluster.brokers)
    return {
        partition: tuple(
            (nodes * 2)[partition.partition % len(nodes) :][: min(factors[partition], len(nodes))]
        )
        for partition in named
    }


def electable(
    cluster: Cluster,
    hosts: Mapping[str, Sequence[Folder]],
    emptied: Collection[TopicPartition] = (),
    lost: Collection[int] = (),
    replaced: ReplacedIds = NOTHING_REPLACED,
) -> tuple[list[TopicPartition], list[tuple[str, str]]]:
    """Find partitions without a leader whose first running replica has most of the log; and others, with why.

    Of those in `emptied` no folder that was named has a log; brokers that are `lost` have none any more.
    `replaced`: ids that `assign` replaced.
    """
    refuse_lost(hosts, lost)
    on_disks, looked = _on_disks(hosts), _running(hosts)
    ready, left = [], []
    for state in (state for state in cluster.partitions if state.leader is None):
        partition = state.topic_partition
        running = [node for node in state.replicas if node in cluster.brokers]
        unseen = _unseen(cluster, looked, lost, state.replicas, replaced)
        if reason := _not_electable(partition, running, on_disks, unseen, emptied=partition in emptied):
            left.append((str(partition), reason))
        else:
            ready.append(partition)
    return ready, left


@dataclass(frozen=True, kw_only=True)
class _OnDisks:
    """The logs of partitions, by broker."""

    logs: Mapping[TopicPartition, Mapping[int, DiskLog]]
    aside: Set[TopicPartition]  # a broker has put a log of these aside
    damaged: Mapping[TopicPartition, str]


def _on_disks(hosts: Mapping[str, Sequence[Folder]]) -> _OnDisks:
    logs: dict[TopicPartition, dict[int, DiskLog]] = defaultdict(dict)
    aside: set[TopicPartition] = set()
    damaged: dict[TopicPartition, str] = {}
    for folder in (folder for folders in hosts.values() for folder in folders):
        for log in folder.logs:
            if log.stray:
                aside.add(log.partition)
                continue
            its_own = logs[log.partition]
            its_own[folder.node_id] = max(its_own.get(folder.node_id, log), log, key=lambda copy: copy.far)
            if log.damage:
                damaged[log.partition] = _damage(folder.node_id, log)
    return _OnDisks(logs=logs, aside=aside, damaged=damaged)


def _not_electable(
    partition: TopicPartition, running: Sequence[int], on_disks: _OnDisks, unseen: str, *, emptied: bool
) -> str:
    """Say why the first of the running replicas must not lead; empty if it may.

    `unseen`: why another one may have more. No folder that was named has a log of what is `emptied`.
    """
    if not running:
        return "none of its replicas is running"
    if partition in on_disks.aside:
        return "a broker has set a log of it aside: restore that log first"
    if reason := unseen or on_disks.damaged.get(partition, ""):
        return reason
    logs, leader = on_disks.logs.get(partition, {}), running[0]
    if emptied and not any(log.end for log in logs.values()):
        return ""
    if leader not in logs:
        return f"no inspected folder of broker {leader} has a log of it"
    if logs[leader].far != max(log.far for log in logs.values()):
        return f"broker {leader} would lead, but another broker has more of the log"
    return ""


def _changed(
    cluster: Cluster,
    hosts: Mapping[str, Sequence[Folder]],
    assigned: Mapping[int, Set[TopicPartition]],
    lost: Collection[int],
    moving: Collection[TopicPartition],
) -> tuple[list[Changed], list[Leftover]]:
    """Find the id that each host had: one that is gone, whose partitions are those of its logs.

    Where several fit, as with all partitions on all brokers, any does: each has its logs. A host can have
    logs of a broker that it never was, as from a reassignment that was not cleaned up: those are left.
    """
    logs = {host: _furthest(folders) for host, folders in hosts.items()}
    now = {host: _id(host, folders) for host, folders in hosts.items() if folders}
    others = {host: logs[host].keys() - assigned.get(node, set()) for host, node in now.items()}
    fits, leftovers = [], []
    for host, node in now.items():
        for id_ in assigned.keys() - cluster.brokers - {node}:
            had, lacking = others[host] & assigned[id_], assigned[id_] - logs[host].keys()
            if not had:
                continue
            doubt = _other(cluster, now, node, id_, moving)
            if not doubt and id_ not in lost:
                few = bool(assigned.get(node)) and len(had) < len(lacking)
                doubt = _unproven(cluster, host, node, id_, len(lacking) if few else 0)
            if doubt:
                reason, remedy = doubt
                leftovers.append(
                    Leftover(host=host, now=node, owner=id_, logs=len(had), why=reason, remedy=remedy)
                )
            else:
                fits.append((len(had) - len(lacking), host, id_))
    before: dict[str, int] = {}
    for _, host, id_ in sorted(fits, key=lambda fit: (-fit[0], *fit[1:])):
        if host not in before and id_ not in before.values():
            before[host] = id_
    if copies := sorted({host for _, host, _ in fits} - before.keys()):
        raise Refused(
            "data-folders-mixed",
            f"The logs of {some(copies)} belong to a broker whose logs another host also has. Pass "
            "the folders of one host for each broker.",
        )
    changes = []
    for host, id_ in sorted(before.items()):
        its_own = {partition: logs[host][partition] for partition in sorted(assigned[id_] & others[host])}
        strays = sum(log.stray for log in its_own.values())
        since = tuple(sorted(assigned.get(now[host], ())))
        changes.append(
            Changed(host=host, now=now[host], before=id_, logs=its_own, strays=strays, since=since)
        )
    return changes, [leftover for leftover in leftovers if leftover.owner not in before.values()]


Doubt = tuple[str, str]  # why a host is not taken for a broker, and the remedy


def _other(
    cluster: Cluster, now: Mapping[str, int], node: int, before: int, moving: Collection[TopicPartition]
) -> Doubt | None:
    """Tell whether broker `node` certainly never was `before`."""
    if owners := sorted(host for host, id_ in now.items() if id_ == before):
        return f"{some(owners)} has the data folders of broker {before}", f"Start broker {before} there."
    both = [
        state
        for state in cluster.partitions
        if {node, before} <= {*state.replicas} and state.topic_partition not in moving
    ]
    if both:
        return f"{some(both)} has replicas on both, so these are two brokers", f"Start broker {before}."
    return None


def _unproven(cluster: Cluster, host: str, node: int, before: int, lacking: int) -> Doubt | None:
    """Tell whether broker `node` may never have been `before`.

    Brokers register an address. That of one that does not run is not known with ZooKeeper, nor before Kafka
    4.0. Then a broker is not taken for one of which it has few logs beside its own; `lacking`: how many
    partitions it has no log of in that case.
    """
    remedy = (
        f"Start broker {before} with its own disks. If these are lost, or {host} has them now, pass "
        f"--lost {before}."
    )
    was, is_ = cluster.addresses.get(before, ""), cluster.addresses.get(node, "")
    if was and was == is_:
        return None
    if was and is_ and was.rpartition(":")[0] != is_.rpartition(":")[0]:
        return f"broker {before} is registered at {was}, and broker {node} at {is_}", remedy
    if lacking:
        others = count(lacking, "other partition")
        return f"it has partitions of its own, and no log of {others} of broker {before}", remedy
    return None


def _id(host: str, folders: Sequence[Folder]) -> int:
    ids = {folder.node_id for folder in folders}
    if len(ids) > 1:
        raise Refused(
            "data-folders-mixed",
            f"The data folders of {host} belong to brokers {some(sorted(ids))}. Pass the folders "
            "of one broker.",
        )
    return ids.pop()


def _furthest(folders: Sequence[Folder]) -> dict[TopicPartition, DiskLog]:
    """Return the log of each partition that a host has; of two, that which goes further."""
    furthest: dict[TopicPartition, DiskLog] = {}
    for log in (log for folder in folders for log in folder.logs):
        if log.partition not in furthest or log.far > furthest[log.partition].far:
            furthest[log.partition] = log
    return furthest


def sentences(cluster: Cluster, repair: RepairPlan) -> list[str]:
    """Say what is found, and the remedies, best first; empty if no id was changed and no log is gone."""
    return [
        *(sentence for moved in repair.changed for sentence in _of_host(cluster, moved)),
        *map(_of_leftover, repair.leftovers),
        *_of_lost_folders(repair),
        *map(_of_former_id, repair.changed),
        *_of_new_ids(cluster, repair),
        *_of_partitions_that_wait(repair),
        *_of_empty_partitions(repair),
    ]


def _of_host(cluster: Cluster, moved: Changed) -> Iterator[str]:
    aside = f", of which the broker has set {moved.strays:,} aside" if moved.strays else ""
    yield (
        f"{moved.host} was broker {moved.before} and is broker {moved.now} now: it has logs of "
        f"{count(len(moved.logs), 'partition')} of broker {moved.before}{aside}."
    )
    lacking = [
        partition
        for partition, replicas in _replicas(cluster).items()
        if moved.before in replicas and partition not in moved.logs
    ]
    if lacking:
        yield f"It has no log of {count(len(lacking), 'partition')} of these: {some(lacking)}."


def _of_leftover(rest: Leftover) -> str:
    return (
        f"{rest.host} is broker {rest.now}, and has logs of {count(rest.logs, 'partition')} of "
        f"broker {rest.owner}. They are left unchanged: {rest.why}. {rest.remedy}"
    )


def _of_lost_folders(repair: RepairPlan) -> Iterator[str]:
    if repair.lost_folders:
        yield f"LOST: {some(repair.lost_folders)}. If a disk is only unmounted, mount it first."


def _of_former_id(moved: Changed) -> str:
    if not moved.since:
        return (
            f"Best: give {moved.host} the id {moved.before} back. Then all logs and group offsets are "
            "complete."
        )
    return (
        f"{moved.host} cannot get the id {moved.before} back without losing the use of "
        f"{count(len(moved.since), 'partition')} that broker {moved.now} has received since: "
        f"{some(moved.since)}. Assign the logs to its new id."
    )


def _of_new_ids(cluster: Cluster, repair: RepairPlan) -> Iterator[str]:
    away = [moved for moved in repair.changed if moved.now not in cluster.brokers]
    for moved in away:
        yield (
            f"Broker {moved.now} does not run on {moved.host}, so nothing can be assigned to it. "
            "If a controller rejects it because its directory.id belongs to broker "
            f"{moved.before}, give it that id again."
        )
    if repair.changed and not away:
        yield (
            f"Or assign {count(len(repair.move), 'partition')} to the present ids of the brokers, "
            f"and elect leaders of {count(len(repair.lead), 'partition')} by the logs on the disks."
        )
    elif repair.lead and not repair.changed:
        yield (
            f"{count(len(repair.lead), 'partition')} without a leader, with logs on running "
            f"brokers: {some(repair.lead)}. Restore the logs that a broker has set aside, and "
            "elect leaders by the logs on the disks."
        )


def _of_partitions_that_wait(repair: RepairPlan) -> Iterator[str]:
    if repair.stopped:
        yield (
            f"{count(len(repair.stopped), 'partition')} without a leader, because the broker with "
            f"the longest log is stopped: {some(repair.stopped)}. Start their brokers."
        )
    unseen: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition, reason in repair.unseen.items():
        unseen[reason].append(partition)
    for reason, left in unseen.items():
        yield (
            f"{count(len(left), 'partition')} without a leader may have a longer log on another "
            f"broker, {some(left)}: {reason}."
        )
    damaged: dict[str, list[TopicPartition]] = defaultdict(list)
    for node, log in repair.damaged:
        damaged[_damage(node, log)].append(log.partition)
    for flaw, left in damaged.items():
        yield (
            f"No leader can be elected for {some(left)}, because {flaw}, and records that only "
            "this log has would be truncated. Start its broker, which truncates the damaged part, "
            "and inspect it again; or restore the partitions from a backup."
        )


def _of_empty_partitions(repair: RepairPlan) -> Iterator[str]:
    if repair.empty:
        yield (
            f"No inspected folder has a log of {count(len(repair.empty), 'partition')}: "
            f"{some(repair.empty)}. Inspect other disks, or start the brokers of these partitions. "
            "If you create them empty, all of their records are lost, and for a partition of "
            "__consumer_offsets the offsets of its groups."
        )


def _replicas(cluster: Cluster) -> dict[TopicPartition, tuple[int, ...]]:
    return {state.topic_partition: state.replicas for state in cluster.partitions}
