"""Checks that a cluster is a scratch cluster: marked, empty, and not the one that was backed up."""

from kafka.protocol.metadata import MetadataRequest

from aqueduct.common.topic_names import OWN_TOPICS
from aqueduct.common.wording import count, some
from aqueduct.errors import Refused
from aqueduct.kafka.admin.asking import answer
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.client import Client

RACK = "aqueduct-drill"  # broker.rack of each broker; other clusters do not have it by chance


def check(client: Client, backed_up: str) -> None:
    """Check the cluster; Refused unless all its brokers are marked and it has no topics."""
    servers = client.end.bootstrap_servers
    metadata = answer(client, MetadataRequest(topics=[]))
    others = sorted(broker.node_id for broker in metadata.brokers if broker.rack != RACK)
    if others or not metadata.brokers:
        raise Refused(
            "scratch-cluster-wrong",
            f"{servers} is not a scratch cluster: broker.rack of broker {some(others)} is not {RACK}. "
            "Nothing was done. The role `drill` starts such a cluster. Never set that rack in a cluster with "
            "data.",
        )
    if cluster_id(client) == backed_up:
        raise Refused(
            "scratch-cluster-wrong",
            f"{servers} is the cluster that was backed up ({backed_up}). Nothing was done. Pass a scratch "
            "cluster.",
        )
    topics = sorted(client.topics().keys() - OWN_TOPICS)
    if topics:
        raise Refused(
            "scratch-cluster-not-empty",
            f"The scratch cluster {servers} has {count(len(topics), 'topic')} already ({some(topics)}), "
            "which this drill did not create. Nothing was done. Start the scratch cluster empty.",
        )
