"""Rules of a rolling restart: which node may be stopped now, and which comes next. Pure: the caller asks.

The rule for partitions is that of Strimzi's roller (its class KafkaAvailability). For each partition with a
replica on the broker that is to stop:

- no more replicas than `min.insync.replicas`: producers with acks=all stop whenever one of its brokers stops.
  That is by design and no waiting helps: `unavailable_by_design` names them and the operator decides (a site
  with one broker could never restart otherwise).
- fewer in sync than `min.insync.replicas`: not now, even if this broker is not in sync; it may be the first
  to catch up.
- exactly `min.insync.replicas` in sync, this broker among them: not now.
- else it may stop.

The rule for the controller quorum (KIP-595): the voters that are caught up, without this node, are a majority
of all voters. Of one or two voters that can never be true: by design, as above.
"""

from collections.abc import Mapping

from aqueduct.common.wording import count, some
from aqueduct.kafka.cluster import Cluster, Partition


def unavailable_by_design(cluster: Cluster, min_in_sync: Mapping[str, int], node_id: int) -> list[str]:
    """Tell what stops with `node_id` however healthy the cluster is; `min_in_sync` is by topic."""
    reasons = []
    hosted = hosted_partitions(cluster, node_id)
    if topics := sorted({p.topic for p in hosted if _has_no_spare(p, min_in_sync)}):
        reasons.append(
            f"{count(len(topics), 'topic')} on broker {node_id} with no more replicas than "
            f"min.insync.replicas: {some(topics)}. Producers could not write to these topics during the "
            "restart. Increase the replication factor, or accept the outage (kafka_restart_with_outage: "
            "true)."
        )
    voters = cluster.quorum.voters
    if node_id in voters and len(voters) - 1 < _majority(cluster):
        reasons.append(
            f"The quorum of {count(len(voters), 'controller')} has no majority without {node_id}, so the "
            "cluster cannot be changed during the restart. Deploy three controllers, or accept the outage "
            "(kafka_restart_with_outage: true)."
        )
    return reasons


def obstacles(cluster: Cluster, min_in_sync: Mapping[str, int], node_id: int) -> list[str]:
    """Return why `node_id` may not be stopped now, though perhaps later; not what is by design."""
    reasons = []
    if blocked := [
        p
        for p in hosted_partitions(cluster, node_id)
        if not _has_no_spare(p, min_in_sync)
        and len(p.in_sync) - (node_id in p.in_sync) < min_in_sync[p.topic]
    ]:
        reasons.append(
            f"Without broker {node_id}, {count(len(blocked), 'partition')} would have fewer in-sync "
            f"replicas than min.insync.replicas: {some(blocked)}; wait until the other replicas are in sync."
        )
    voters = cluster.quorum.voters
    rest = cluster.quorum.caught_up() - {node_id}
    if node_id in voters and len(rest) < _majority(cluster) <= len(voters) - 1:
        reasons.append(
            f"Without controller {node_id}, {len(rest)} of {len(voters)} controllers would be caught up, "
            f"but {_majority(cluster)} are required; wait until the other controllers have caught up."
        )
    return reasons


def restart_order(cluster: Cluster) -> list[int]:
    """Return all brokers and controllers in the order to restart them, the active controller last.

    So the quorum's leadership moves once, to a node that has been restarted already.
    """
    nodes = cluster.brokers | cluster.fenced | cluster.quorum.voters.keys()
    return sorted(nodes, key=lambda node: (node == cluster.quorum.leader, node))


def hosted_partitions(cluster: Cluster, node_id: int) -> list[Partition]:
    """Return the partitions that have a replica on this broker."""
    return [p for p in cluster.partitions if node_id in p.replicas]


def _has_no_spare(partition: Partition, min_in_sync: Mapping[str, int]) -> bool:
    return len(partition.replicas) <= min_in_sync[partition.topic]


def _majority(cluster: Cluster) -> int:
    return len(cluster.quorum.voters) // 2 + 1
