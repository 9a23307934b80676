"""What silently stops clients of a cluster, a labelled sentence each with its remedy. Pure: the caller asks.

A partition whose replicas are all on brokers that are gone gives its clients no error: they wait. If it is of
`__consumer_offsets`, all consumers wait whose groups it coordinates. So ends a cluster whose brokers came
back with other ids: the replicas stay assigned to the old ones.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import labelled
from aqueduct.kafka.cluster import Cluster, Partition, hidden_topics, node_problems
from aqueduct.kafka.data_folder import DataFolder

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"

Assigned = Mapping[int, Set[TopicPartition]]  # by broker
LastWrites = Mapping[Path, Mapping[TopicPartition, int]]  # by data folder: when, in milliseconds since 1970


def findings(
    cluster: Cluster,
    *,
    silent: Sequence[str] = (),
    groups: Collection[str] = (),
    folders: Collection[DataFolder] = (),
    written: LastWrites | None = None,
) -> list[str]:
    """Return labelled sentences about what is wrong, what stops most first; empty if nothing is.

    `silent` are sentences about brokers that don't answer where they say that they are; of `groups` those are
    named that nobody coordinates; `folders` are data folders of any of the brokers, and `written` tells when
    the logs that they have of `without_leader` were written to last.
    """
    assigned = _assigned(cluster) if folders else {}
    unused = cluster.fenced - {node for partition in cluster.partitions for node in partition.replicas}
    return [
        *(labelled(hidden.id, hidden.sentence) for hidden in hidden_topics(cluster)),
        *_lost(cluster),
        *_without_leader(cluster),
        *_without_coordinator(cluster, groups, told_since=bool(folders)),
        *_since(cluster, groups, written or {}),
        *_too_few(cluster),
        *(labelled("broker-address-unreachable", sentence) for sentence in silent),
        *(labelled("cluster-node-unhealthy", sentence) for sentence in node_problems(cluster, unused)),
        *_unused(cluster, unused),
        *(sentence for folder in folders for sentence in _misplaced(cluster, folder, assigned)),
        *_without_log(cluster, folders, assigned),
    ]


def group_partition(name: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` whose leader coordinates a group.

    Transactional ids belong to partitions of `__transaction_state` in the same way. Kafka takes the
    `hashCode` of Java's string, without its sign (GroupMetadataManager.partitionFor).
    """
    code = 0
    encoded = name.encode("utf-16-be")
    for index in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[index : index + 2])) % (1 << 32)
    if code == 1 << 31:  # Java's least number has no counterpart: Kafka takes 0 for it
        return 0
    return min(code, (1 << 32) - code) % partitions


@cache
def name_of_each_partition(prefix: str, partitions: int) -> list[str]:
    """Return, for each partition, the prefix with a number: a name that `group_partition` assigns to it."""
    names: dict[int, str] = {}
    numbers = itertools.count()
    while len(names) < partitions:
        name = f"{prefix}{next(numbers)}"
        names.setdefault(group_partition(name, partitions), name)
    return [names[partition] for partition in range(partitions)]


def without_leader(cluster: Cluster, topic: str) -> set[TopicPartition]:
    return {
        partition.topic_partition
        for partition in cluster.partitions
        if partition.topic == topic and partition.leader is None
    }


def _lost(cluster: Cluster) -> Iterator[str]:
    """Name partitions whose replicas are all on brokers that are gone, by these brokers."""
    by_brokers: dict[tuple[int, ...], list[Partition]] = defaultdict(list)
    for partition in cluster.partitions:
        if _is_lost(cluster, partition):
            by_brokers[tuple(sorted(partition.replicas))].append(partition)
    hosting = {node for partition in cluster.partitions for node in partition.replicas}
    changed = ""
    if idle := cluster.brokers - hosting:
        changed = (
            f" No replica is assigned to {_named(idle)}. If this is the same host, the broker id of the "
            "host was changed."
        )
    for brokers, partitions in by_brokers.items():
        yield labelled(
            "partitions-without-replicas",
            f"{_stopped(partitions)}. All their replicas are on {_named(brokers)}, "
            f"{_absent(cluster, brokers)}. Start a broker with the former id and the former data "
            f"folders.{changed}",
        )


def _without_leader(cluster: Cluster) -> Iterator[str]:
    """Name partitions of which a replica runs, and none may lead."""
    leaderless = [
        partition
        for partition in cluster.partitions
        if partition.leader is None and not _is_lost(cluster, partition)
    ]
    awaited = {partition: set(partition.in_sync) - cluster.brokers for partition in leaderless}
    if behind := [partition for partition in leaderless if awaited[partition]]:
        start = _named({node for partition in behind for node in awaited[partition]})
        yield labelled(
            "partitions-awaiting-replicas",
            f"{_stopped(behind)}. The replicas on running brokers are not in sync. Start {start}. An "
            "unclean leader election would lose the records that exist only on these stopped brokers.",
        )
    # As where a data folder got its old id back: to KRaft's controller it is a new one, which leads nothing.
    if unknown := [partition for partition in leaderless if not awaited[partition]]:
        replicas = {node for partition in unknown for node in partition.replicas}
        running, gone = replicas & cluster.brokers, replicas - cluster.brokers
        run = "run" if len(running) > 1 else "runs"
        first = (
            (f"Start {_named(gone)} first, because their replicas may contain more records. Then run")
            if gone
            else "Run"
        )
        yield labelled(
            "partitions-without-leader",
            f"{_stopped(unknown)}, although {_named(running)} {run}. The controller counts no replica on "
            f"running brokers as in sync. {first} `aqueduct repair inspect` on the host of each broker. "
            "Then run `aqueduct repair elect` with the output of all hosts. This command elects the replica "
            "with the longest log. If an inventory exists, run playbooks/repair_broker_ids.yml instead.",
        )


def _without_coordinator(cluster: Cluster, groups: Collection[str], *, told_since: bool) -> Iterator[str]:
    for topic, clients in ((GROUPS, "consumers"), (TRANSACTIONS, "transactional producers")):
        if dead := without_leader(cluster, topic):
            more = ""
            if topic == GROUPS and groups:
                more = f" Affected groups in --groups: {some(_waiting(cluster, groups)) or 'none'}."
            if topic == GROUPS and not told_since:
                more += (
                    " To see when these groups last committed offsets, pass the data folders of the "
                    "brokers with --data-folder."
                )
            every = sum(partition.topic == topic for partition in cluster.partitions)
            yield labelled(
                "coordinator-without-leader",
                f"{len(dead)} of {count(every, 'partition')} of {topic} have no leader, so {clients} that "
                f"use these partitions have no coordinator. These clients wait and receive no error.{more}",
            )


def _waiting(cluster: Cluster, groups: Collection[str]) -> dict[str, TopicPartition]:
    """Return the groups that nobody coordinates, each with the partition that keeps its positions."""
    if not (groups and (dead := without_leader(cluster, GROUPS))):
        return {}
    every = sum(partition.topic == GROUPS for partition in cluster.partitions)
    kept = {group: TopicPartition(GROUPS, group_partition(group, every)) for group in sorted(groups)}
    return {group: partition for group, partition in kept.items() if partition in dead}


def _since(cluster: Cluster, groups: Collection[str], written: LastWrites) -> Iterator[str]:
    """Tell since when groups wait: not before the newest position that a folder has of theirs.

    Other groups share the partition, so that it may be of those; and another replica's log may go further.
    """
    waiting = _waiting(cluster, groups)
    for path, times in written.items():
        if times:
            named = [
                f"{timestamps.text(times[partition])} ({group})"
                for group, partition in waiting.items()
                if partition in times
            ]
            newest = some(named) or timestamps.text(max(times.values()))
            yield labelled(
                "group-positions-dated",
                f"{path} contains records of {len(times)} of these partitions of {GROUPS}. The newest "
                f"committed offset in these records is of {newest}.",
            )


def _too_few(cluster: Cluster) -> Iterator[str]:
    """Name partitions that are served, and have a replica on a broker that does not exist."""
    registered = cluster.brokers | cluster.fenced
    served = (partition for partition in cluster.partitions if not _is_lost(cluster, partition))
    if short := [partition for partition in served if set(partition.replicas) - registered]:
        gone = {node for partition in short for node in partition.replicas} - registered
        yield labelled(
            "partitions-short-of-replicas",
            f"{count(len(short), 'partition')} will stay under-replicated, because some replicas are "
            f"assigned to {_named(gone)}, {_absent(cluster, gone)}: {some(short)}. Set the former broker id "
            "on the host, or reassign the partitions.",
        )


def _unused(cluster: Cluster, unused: Collection[int]) -> Iterator[str]:
    """Name fenced brokers without a replica: KRaft keeps a broker registered until it is unregistered."""
    if unused:
        yield labelled(
            "broker-id-unused",
            f"No partition is assigned to {_named(unused)}, which {'are' if len(unused) > 1 else 'is'} "
            "registered but fenced. If a host has this id, start its broker. Otherwise, remove the id with "
            "`kafka-cluster unregister`.",
        )


def _misplaced(cluster: Cluster, folder: DataFolder, by_broker: Assigned) -> Iterator[str]:
    """Compare a data folder with what the cluster assigns to the broker whose it is."""
    if folder.cluster_id != cluster.cluster_id:
        yield labelled(
            "data-folder-cluster-differs",
            f"{folder.path} belongs to the cluster {folder.cluster_id}, but the inspected cluster is "
            f"{cluster.cluster_id}. Correct --data-folder or --bootstrap-server.",
        )
        return
    assigned = by_broker.get(folder.node_id, frozenset())
    if folder.node_id not in cluster.brokers and (its_own := folder.logs & assigned):
        yield labelled(
            "data-folder-broker-stopped",
            f"{folder.path} contains logs of {count(len(its_own), 'partition')} of "
            f"{_named([folder.node_id])}, {_absent(cluster, [folder.node_id])}. Start the broker with this "
            "id and this folder.",
        )
    elif folder.node_id not in cluster.brokers | cluster.fenced | cluster.quorum.voters.keys():
        yield labelled(
            "data-folder-broker-unregistered",
            f"{folder.path} belongs to broker {folder.node_id}, which is not registered in the cluster. The "
            "broker does not run, or the controller rejects it because its id was changed. The log of the "
            "broker shows the reason. `aqueduct repair plan` shows to which broker id the logs in the "
            "folder belong.",
        )
    if others := folder.logs - assigned:
        yield labelled(
            "data-folder-logs-unassigned",
            f"{folder.path} contains logs of {count(len(others), 'partition')} that the cluster does not "
            f"assign to {_named([folder.node_id])}: {some(sorted(others))}.{_fate(cluster)}",
        )
    if folder.strays:
        yield labelled(
            "data-folder-logs-quarantined",
            f"{folder.path} contains {count(len(folder.strays), 'stray log')}: "
            f"{some(sorted(folder.strays))}. A broker renamed a log to a stray log, because the cluster "
            "does not assign the partition to this broker. Keep stray logs until you know why their "
            "partitions are not assigned.",
        )


def _fate(cluster: Cluster) -> str:
    """Say what becomes of logs that are not the broker's, if the cluster tells where its metadata is."""
    if cluster.quorum.voters:
        return " When the broker starts, it renames these logs to stray logs."
    with_zookeeper = cluster.quorum.leader is not None
    return (
        (" A broker with ZooKeeper keeps these logs in the folder and does not use them.")
        if with_zookeeper
        else ""
    )


def _without_log(cluster: Cluster, folders: Iterable[DataFolder], assigned: Assigned) -> Iterator[str]:
    """Name what is assigned to a broker and is in none of its folders, if one of them was named."""
    logs: dict[int, set[TopicPartition]] = defaultdict(set)
    for folder in folders:
        if folder.cluster_id == cluster.cluster_id:
            logs[folder.node_id] |= folder.logs
    for node, partitions in sorted(logs.items()):
        if missing := assigned.get(node, frozenset()) - partitions:
            yield labelled(
                "data-folder-logs-missing",
                f"The passed data folders of {_named([node])} lack the logs of "
                f"{count(len(missing), 'partition')} that the cluster assigns to this broker: "
                f"{some(sorted(missing))}.",
            )


def _is_lost(cluster: Cluster, partition: Partition) -> bool:
    return not cluster.brokers & set(partition.replicas)


def _assigned(cluster: Cluster) -> Assigned:
    assigned: dict[int, set[TopicPartition]] = defaultdict(set)
    for partition in cluster.partitions:
        for node in partition.replicas:
            assigned[node].add(partition.topic_partition)
    return assigned


def _stopped(partitions: Sequence[Partition]) -> str:
    return f"{count(len(partitions), 'partition')} cannot be read or written ({some(partitions)})"


def _named(brokers: Collection[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {some(sorted(brokers))}"


def _absent(cluster: Cluster, brokers: Collection[int]) -> str:
    verb = "do" if len(brokers) > 1 else "does"
    return f"which {verb} not run" if cluster.fenced & set(brokers) else f"which {verb} not exist"
