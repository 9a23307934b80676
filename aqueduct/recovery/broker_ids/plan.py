"""The former ids of brokers, found from their logs, and the repair of their partitions. Pure.

If brokers start with other ids, no error occurs, but their partitions stay assigned to the former ids and
have no leader. The logs on a host show which id its broker had, and so which repair is possible.
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

INSPECTION_SECONDS = 3600  # the inspection of a large host takes minutes


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A host whose broker has another id than the one to which its logs are assigned."""

    host: str
    now: int
    before: int
    logs: Mapping[TopicPartition, DiskLog]  # of partitions that are assigned to the former id
    strays: int  # how many of these logs are stray
    since: tuple[TopicPartition, ...]  # partitions that were assigned to the new id


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Logs of a stopped broker on the host of another broker, which never had the stopped broker's id."""

    host: str
    now: int
    owner: int  # the broker to which they are assigned
    logs: int
    why: str
    remedy: str


@dataclass(frozen=True)
class ReplacedIds:
    """The ids that `assign` replaced, each with its new id; stored for later runs."""

    cluster: str
    ids: Mapping[str, int]  # old id, as JSON has keys: new id

    def new(self, old: int, replicas: Collection[int]) -> int | None:
        """Return the new id of a replaced one if `replicas` have both; else None.

        A reassignment by `assign` has both ids until it ends. A reassignment between two real brokers also
        has two ids, but they are not in `ids`.
        """
        new_id = self.ids.get(str(old))
        return new_id if new_id in replicas else None


NOTHING_REPLACED = ReplacedIds("", {})


@dataclass(frozen=True, kw_only=True)
class RepairPlan:
    """The repair of a cluster whose brokers' ids were changed.

    `move`: the new replicas of each partition, with new ids in place of former ones. If a partition has no
    leader, the replica with the longest log is the first. `lead`: these partitions without a leader.
    `stopped`: partitions whose longest log is on a stopped broker. `unseen`: partitions that stay unchanged,
    with the reason: the longest log may be on a disk that was not inspected. `empty`: partitions without a
    log. `damaged`: damaged logs, with their brokers. `leftovers`: logs that the repair does not use.
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
    """Refuse inspections that are older than an hour. `now`: milliseconds since 1970.

    `_unseen` refuses a newer inspection if its broker has stopped or started since.
    """
    for host, folders in hosts.items():
        for folder in folders:
            try:
                age = abs(now - timestamps.parse(folder.time)) // 1000
            except ValueError:
                raise Refused(
                    "inspection-outdated",
                    f"The inspection of {host} has no time, because an older version of Aqueduct wrote it. "
                    "Run `aqueduct repair inspect` there again. Nothing was done.",
                ) from None
            if age > INSPECTION_SECONDS:
                raise Refused(
                    "inspection-outdated",
                    f"The inspection of {host} at {folder.time} is outdated: an inspection is valid for "
                    f"{INSPECTION_SECONDS // 60} minutes, because the broker may write records after it. "
                    "Check the clock of the host, and run `aqueduct repair inspect` there again. Nothing was "
                    "done.",
                )


def plan(
    cluster: Cluster,
    hosts: Mapping[str, Sequence[Folder]],
    lost: Collection[int] = (),
    moving: Collection[TopicPartition] = (),
    replaced: ReplacedIds = NOTHING_REPLACED,
) -> RepairPlan:
    """Plan the repair of partitions that are assigned to former ids. Refused for folders of another cluster.

    `lost`: brokers without logs, because their disks are lost. `moving`: partitions that are being
    reassigned, which have their former replicas, too. `replaced`: ids that earlier runs replaced.
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
                    f"{folder.path} of {host} belongs to cluster {folder.cluster_id}, but this is "
                    f"cluster {cluster.cluster_id}. Pass folders of brokers of this cluster.",
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
    changed: Mapping[int, Changed]  # by the former id
    logs: Mapping[int, Mapping[TopicPartition, DiskLog]]  # by the current id
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
    """The state of a partition, by what it needs."""

    LED = auto()  # nothing
    ELECT = auto()
    STOPPED = auto()  # its longest log is on a stopped broker
    UNSEEN = auto()
    EMPTY = auto()
    DAMAGED = auto()


@dataclass(frozen=True, kw_only=True)
class _Remedy:
    """The repair of one partition."""

    partition: TopicPartition
    fate: _Fate
    move: tuple[int, ...] | None = None  # its new replicas; None: they stay
    unseen: str = ""  # why
    damaged: Sequence[tuple[int, DiskLog]] = ()


def _remedy(inspected: _Inspected, state: Partition) -> _Remedy:
    partition, now = state.topic_partition, inspected.now
    # A partition has both ids of a broker while it is reassigned from one to the other.
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
    best = max(logs, key=lambda node: logs[node].epoch_and_end)
    if best not in inspected.cluster.brokers:
        return _Remedy(partition=partition, fate=_Fate.STOPPED)
    first = (best, *(node for node in replicas if node != best))
    return _Remedy(partition=partition, fate=_Fate.ELECT, move=first if first != state.replicas else None)


def _damage(node: int, log: DiskLog) -> str:
    return f"the log of broker {node} is damaged ({log.damage.rstrip('.')})"


def _running(hosts: Mapping[str, Sequence[Folder]]) -> dict[int, set[bool | None]]:
    """Return for each broker whether it ran when its folders were inspected."""
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
    """Return why one of these brokers may have a longer log than its inspection shows; empty if none has."""
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
                f"broker {node} ran when it was inspected, but is not registered in the cluster now; inspect "
                "it again when it is registered or stopped"
            )
        if runs and False in looked[node] and not ran:
            return f"broker {node} did not run when it was inspected, but runs now; inspect it again"
    return ""


def emptied(
    cluster: Cluster, repair: RepairPlan, named: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Choose running brokers for partitions to create empty. Refused if a partition may have a log."""
    for partition in sorted(set(named) & repair.unseen.keys()):
        raise Refused(
            "partition-may-have-logs",
            f"Cannot create {partition} empty, because {repair.unseen[partition]}. Nothing was assigned.",
        )
    if wrong := sorted(set(named) - set(repair.empty)):
        raise Refused(
            "partition-may-have-logs",
            f"Cannot create {some(wrong)} empty, because these partitions have a log or a leader. Pass only "
            "partitions that `aqueduct repair plan` lists as partitions without a log. Nothing was assigned.",
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
    """Return partitions whose first running replica can become leader, and the others with the reason.

    All are partitions without a leader. `emptied`: partitions to create empty. `lost`: brokers whose disks
    are lost. `replaced`: ids that `assign` replaced.
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
    aside: Set[TopicPartition]  # a broker has a stray log of these
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
            its_own[folder.node_id] = max(
                its_own.get(folder.node_id, log), log, key=lambda copy: copy.epoch_and_end
            )
            if log.damage:
                damaged[log.partition] = _damage(folder.node_id, log)
    return _OnDisks(logs=logs, aside=aside, damaged=damaged)


def _not_electable(
    partition: TopicPartition, running: Sequence[int], on_disks: _OnDisks, unseen: str, *, emptied: bool
) -> str:
    """Return why the first running replica cannot become leader; empty if it can.

    `unseen`: why another replica may have a longer log. `emptied`: the partition is to be created empty.
    """
    if not running:
        return "none of its replicas is running"
    if partition in on_disks.aside:
        return "a broker has set aside a log of this partition; restore that log first"
    if reason := unseen or on_disks.damaged.get(partition, ""):
        return reason
    logs, leader = on_disks.logs.get(partition, {}), running[0]
    if emptied and not any(log.end for log in logs.values()):
        return ""
    if leader not in logs:
        return (
            f"broker {leader} would become leader, but no inspected folder of it has a log of this partition"
        )
    if logs[leader].epoch_and_end != max(log.epoch_and_end for log in logs.values()):
        return f"broker {leader} would become leader, but another broker has a longer log"
    return ""


def _changed(
    cluster: Cluster,
    hosts: Mapping[str, Sequence[Folder]],
    assigned: Mapping[int, Set[TopicPartition]],
    lost: Collection[int],
    moving: Collection[TopicPartition],
) -> tuple[list[Changed], list[Leftover]]:
    """Find the former id of each host: an id without a running broker, whose partitions have logs there.

    If several ids fit, as when each broker has all partitions, any of them works. A host can have logs of a
    broker that never ran on it, as after an unfinished reassignment: these are leftovers.
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
            f"The logs on {some(copies)} belong to a broker, but another host also has logs of this broker. "
            "Pass the folders of one host for each broker.",
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


Doubt = tuple[str, str]  # why a host never had a broker's id, and the remedy


def _other(
    cluster: Cluster, now: Mapping[str, int], node: int, before: int, moving: Collection[TopicPartition]
) -> Doubt | None:
    """Return why broker `node` certainly never had the id `before`; None if it may have had it."""
    if owners := sorted(host for host, id_ in now.items() if id_ == before):
        return f"{some(owners)} has the data folders of broker {before}", f"Start broker {before} there."
    both = [
        state
        for state in cluster.partitions
        if {node, before} <= {*state.replicas} and state.topic_partition not in moving
    ]
    if both:
        return (
            f"both brokers have replicas of {some(both)}, so they are not the same",
            f"Start broker {before}.",
        )
    return None


def _unproven(cluster: Cluster, host: str, node: int, before: int, lacking: int) -> Doubt | None:
    """Return why broker `node` may never have had the id `before`; None if the address or the logs prove it.

    Brokers register an address. With ZooKeeper, or before Kafka 4.0, the address of a stopped broker is
    unknown. Then few logs of `before` beside the broker's own logs prove nothing. `lacking`: in that case,
    the number of partitions of `before` without a log here; else 0.
    """
    remedy = (
        f"Start broker {before} with its own disks. If these disks are lost, or are in {host} now, pass "
        f"--lost {before}."
    )
    was, is_ = cluster.addresses.get(before, ""), cluster.addresses.get(node, "")
    if was and was == is_:
        return None
    if was and is_ and was.rpartition(":")[0] != is_.rpartition(":")[0]:
        return f"broker {before} is registered at {was}, and broker {node} at {is_}", remedy
    if lacking:
        others = count(lacking, "other partition")
        return f"{host} has logs of its own, but no log of {others} of broker {before}", remedy
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
    """Return a host's log of each partition; if it has two logs of one, the longer log."""
    furthest: dict[TopicPartition, DiskLog] = {}
    for log in (log for folder in folders for log in folder.logs):
        if log.partition not in furthest or log.epoch_and_end > furthest[log.partition].epoch_and_end:
            furthest[log.partition] = log
    return furthest


def sentences(cluster: Cluster, repair: RepairPlan) -> list[str]:
    """Return the findings and the remedies, best first; empty if no id was changed and no log is lost."""
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
    aside = f" The broker has set aside {count(moved.strays, 'log')} of these." if moved.strays else ""
    yield (
        f"{moved.host} was broker {moved.before} and is broker {moved.now} now. It has logs of "
        f"{count(len(moved.logs), 'partition')} of broker {moved.before}.{aside}"
    )
    lacking = [
        partition
        for partition, replicas in _replicas(cluster).items()
        if moved.before in replicas and partition not in moved.logs
    ]
    if lacking:
        yield (
            f"{moved.host} has no log of {count(len(lacking), 'other partition')} of broker {moved.before}: "
            f"{some(lacking)}."
        )


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
            f"Recommended: give {moved.host} the id {moved.before} again. Then all logs and group offsets "
            "are complete."
        )
    return (
        f"Do not give {moved.host} the id {moved.before} again: {count(len(moved.since), 'partition')} that "
        f"broker {moved.now} has received since would have no broker: {some(moved.since)}. Assign the logs "
        f"to the new id {moved.now}."
    )


def _of_new_ids(cluster: Cluster, repair: RepairPlan) -> Iterator[str]:
    away = [moved for moved in repair.changed if moved.now not in cluster.brokers]
    for moved in away:
        yield (
            f"Broker {moved.now} does not run on {moved.host}, so no partition can be assigned to it. "
            "If a controller rejects it because its directory.id belongs to broker "
            f"{moved.before}, give it that id again."
        )
    if repair.changed and not away:
        yield (
            f"Alternative: assign {count(len(repair.move), 'partition')} to the current ids of the brokers, "
            f"and elect leaders of {count(len(repair.lead), 'partition')} from the logs on the disks."
        )
    elif repair.lead and not repair.changed:
        yield (
            f"{count(len(repair.lead), 'partition')} without a leader, with logs on running "
            f"brokers: {some(repair.lead)}. Restore the logs that a broker has set aside. "
            "Then elect leaders from the logs on the disks."
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
            f"No leader can be elected for {some(left)}, because {flaw}. Records that only this log has "
            "would be truncated. Start its broker: it truncates the damaged part of the log. Then inspect "
            "the broker again. Or restore the partitions from a backup."
        )


def _of_empty_partitions(repair: RepairPlan) -> Iterator[str]:
    if repair.empty:
        yield (
            f"No inspected folder has a log of {count(len(repair.empty), 'partition')}: "
            f"{some(repair.empty)}. Inspect other disks, or start the brokers of these partitions. "
            "If you create them empty, all of their records are lost. With a partition of "
            "__consumer_offsets, the offsets of its groups are lost, too."
        )


def _replicas(cluster: Cluster) -> dict[TopicPartition, tuple[int, ...]]:
    return {state.topic_partition: state.replicas for state in cluster.partitions}
