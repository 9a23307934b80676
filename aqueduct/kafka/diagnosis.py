"""What silently stops clients of a cluster, a sentence each with its remedy. Pure: the caller asks.

A partition whose replicas are all on brokers that are gone gives its clients no error: they wait. If it is of
`__consumer_offsets`, all consumers wait whose groups it coordinates. So ends a cluster whose brokers came
back with other ids: the replicas stay assigned to the old ones.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

from aqueduct.kafka.cluster import Cluster, Partition, node_problems
from aqueduct.kafka.data_folder import DataFolder
from aqueduct.names import TopicPartition
from aqueduct.wording import count, some

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"

Assigned = Mapping[int, Set[TopicPartition]]  # by broker


def findings(
    cluster: Cluster,
    *,
    silent: Sequence[str] = (),
    groups: Collection[str] = (),
    folders: Collection[DataFolder] = (),
) -> list[str]:
    """Find what is wrong, what stops most first; empty if nothing is.

    `silent` are sentences about brokers that don't answer where they say that they are; of `groups` those are
    named that nobody coordinates; `folders` are data folders of any of the brokers.
    """
    assigned = _assigned(cluster) if folders else {}
    return [
        *_lost(cluster),
        *_without_leader(cluster),
        *_without_coordinator(cluster, groups),
        *_too_few(cluster),
        *silent,
        *node_problems(cluster),
        *_idle(cluster),
        *(sentence for folder in folders for sentence in _misplaced(cluster, folder, assigned)),
        *_without_log(cluster, folders, assigned),
    ]


def group_partition(name: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` whose leader coordinates a group.

    Kafka takes the `hashCode` of Java's string, without its sign (GroupMetadataManager.partitionFor).
    """
    code = 0
    encoded = name.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2])) % (1 << 32)
    if code == 1 << 31:  # Java's least number has no counterpart: Kafka takes 0 for it
        return 0
    return min(code, (1 << 32) - code) % partitions


def _lost(cluster: Cluster) -> Iterator[str]:
    """Name partitions whose replicas are all on brokers that are gone, by these brokers."""
    by_brokers: dict[tuple[int, ...], list[Partition]] = defaultdict(list)
    for each in cluster.partitions:
        if _is_lost(cluster, each):
            by_brokers[tuple(sorted(each.replicas))].append(each)
    hosting = {node for each in cluster.partitions for node in each.replicas}
    changed = ""
    if idle := cluster.brokers - hosting:
        changed = f" There is no replica on {_named(idle)}: if that is the same host, its id was changed."
    for brokers, partitions in by_brokers.items():
        yield (
            f"{_stopped(partitions)}, for all replicas are on {_named(brokers)}, "
            f"{_absent(cluster, brokers)}. Start a host with the id and the data folders that it had, "
            f"and all is there again.{changed}"
        )


def _without_leader(cluster: Cluster) -> Iterator[str]:
    """Name partitions that have replicas, but none that was in sync."""
    found = [each for each in cluster.partitions if each.leader is None and not _is_lost(cluster, each)]
    if found:
        gone = {node for each in found for node in each.replicas} - cluster.brokers
        yield (
            f"{_stopped(found)}, for the replicas that are there were not in sync. Start "
            f"{_named(gone) if gone else 'the others'}: an unclean leader election loses what only they have."
        )


def _without_coordinator(cluster: Cluster, groups: Collection[str]) -> Iterator[str]:
    for topic, clients in ((GROUPS, "Consumers"), (TRANSACTIONS, "Transactional producers")):
        every = [each for each in cluster.partitions if each.topic == topic]
        dead = {each.number for each in every if each.leader is None}
        if dead:
            named = ""
            if topic == GROUPS and groups:
                waiting = sorted(group for group in groups if group_partition(group, len(every)) in dead)
                named = f" Of the groups that were named: {some(waiting) or 'none'}."
            yield (
                f"{clients} whose coordinator is gone wait without an error: {topic} has no leader for "
                f"{len(dead)} of {count(len(every), 'partition')}.{named}"
            )


def _too_few(cluster: Cluster) -> Iterator[str]:
    """Name partitions that are served, and have a replica on a broker that does not exist."""
    known = cluster.brokers | cluster.fenced
    served = (each for each in cluster.partitions if not _is_lost(cluster, each))
    if short := [each for each in served if set(each.replicas) - known]:
        gone = {node for each in short for node in each.replicas} - known
        yield (
            f"{count(len(short), 'partition')} will stay with too few replicas, for others are on "
            f"{_named(gone)}, {_absent(cluster, gone)}: {some(short)}. Give the host its old id again, or "
            "reassign them."
        )


def _idle(cluster: Cluster) -> Iterator[str]:
    """Name brokers that don't run and have nothing: KRaft knows an id until somebody removes it."""
    if idle := cluster.fenced - {node for each in cluster.partitions for node in each.replicas}:
        yield (
            f"Nothing is assigned to {_named(idle)}, {_absent(cluster, idle)}: where no host has that id any "
            "more, `kafka-cluster unregister` removes it."
        )


def _misplaced(cluster: Cluster, folder: DataFolder, by_broker: Assigned) -> Iterator[str]:
    """Compare a data folder with what the cluster assigns to the broker whose it is."""
    if folder.cluster_id != cluster.cluster_id:
        yield f"{folder.path} is of the cluster {folder.cluster_id}, and this one is {cluster.cluster_id}."
        return
    assigned = by_broker.get(folder.node_id, frozenset())
    if folder.node_id not in cluster.brokers and (its_own := folder.logs & assigned):
        yield (
            f"{folder.path} has logs of {count(len(its_own), 'partition')} of {_named([folder.node_id])}, "
            f"{_absent(cluster, [folder.node_id])}: start it with this id and this folder."
        )
    if others := folder.logs - assigned:
        yield (
            f"{folder.path} has logs of {count(len(others), 'partition')} that the cluster does not assign "
            f"to {_named([folder.node_id])}: {some(sorted(others))}. A broker puts them aside when it starts."
        )
    if folder.strays:
        yield (
            f"{folder.path} has {count(len(folder.strays), 'log')} that a broker put aside: "
            f"{some(sorted(folder.strays))}. Keep them until you know why."
        )


def _without_log(cluster: Cluster, folders: Iterable[DataFolder], assigned: Assigned) -> Iterator[str]:
    """Name what is assigned to a broker and is in none of its folders, if one of them was named."""
    logs: dict[int, set[TopicPartition]] = defaultdict(set)
    for folder in folders:
        if folder.cluster_id == cluster.cluster_id:
            logs[folder.node_id] |= folder.logs
    for node, there in sorted(logs.items()):
        if missing := assigned.get(node, frozenset()) - there:
            yield (
                f"No folder that was named has logs of {count(len(missing), 'partition')} that the cluster "
                f"assigns to {_named([node])}: {some(sorted(missing))}."
            )


def _is_lost(cluster: Cluster, partition: Partition) -> bool:
    return not cluster.brokers & set(partition.replicas)


def _assigned(cluster: Cluster) -> Assigned:
    found: dict[int, set[TopicPartition]] = defaultdict(set)
    for each in cluster.partitions:
        for node in each.replicas:
            found[node].add(each.topic_partition)
    return found


def _stopped(partitions: Sequence[Partition]) -> str:
    return f"{count(len(partitions), 'partition')} can't be read or written ({some(partitions)})"


def _named(brokers: Collection[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {some(sorted(brokers))}"


def _absent(cluster: Cluster, brokers: Collection[int]) -> str:
    verb = "do" if len(brokers) > 1 else "does"
    return f"which {verb} not run" if cluster.fenced & set(brokers) else f"which {verb} not exist"
