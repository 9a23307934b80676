"""The cluster as a whole."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    NodeNotReadyError,
    RetriableError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.protocol.admin import DescribeClusterRequest, DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from aqueduct.errors import Failed
from aqueduct.kafka.addresses import AddressUnreachableError
from aqueduct.kafka.admin.asking import POLL_SECONDS, answer
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.client_errors import TellingFailure
from aqueduct.kafka.cluster import NO_QUORUM, Cluster, Quorum

_LOG = DescribeQuorumRequest.TopicData
METADATA_LOG = [_LOG(topic_name="__cluster_metadata", partitions=[_LOG.PartitionData(partition_index=0)])]

TOLD_SECONDS = 2  # in which a new attempt to connect is made, that says why it fails

T = TypeVar("T")


def cluster_id(client: Client) -> str:
    """Return the id that the cluster was formatted with."""
    return str(answer(client, MetadataRequest(topics=[])).cluster_id)


def describe_cluster(client: Client) -> Cluster:
    """Return what one broker knows of the cluster, and the active controller of its quorum, now."""
    return _described(client, lambda: _describe(client))


def describe_by_controller(client: Client) -> Cluster:
    """Return what the controller's broker knows: with ZooKeeper others learn of a change after it."""
    return _described(client, lambda: _describe(client, client.controller()))


def describe_by_all(client: Client) -> list[Cluster]:
    """Return what each broker knows."""
    return _described(client, lambda: [_describe(client, node) for node in client.brokers()])


def _described(client: Client, attempt: Callable[[], T]) -> T:
    return Patience(client, "did not return its description").until_done(attempt)


def may_describe_all(client: Client) -> bool:
    """Return whether the client may describe topics of any name.

    Brokers conceal the other topics, also internal ones, from who asks for all. Of a topic that is asked for
    by its name, they tell whether the client may describe it before whether it exists.
    """
    try:
        client.ask_topics([uuid4().hex])
    except TopicAuthorizationFailedError:
        return False
    return True


def await_cluster(client: Client, problems: Callable[[Cluster], Sequence[str]], seconds: float) -> Cluster:
    """Wait until the cluster has no more problems, and return it.

    Failed with what is left of them when the time is up.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            cluster = _describe(client)
            left = problems(cluster)
            if not left:
                return cluster
        except RetriableError as error:
            left = [f"The cluster does not answer: {error}."]
        if time.monotonic() > deadline:
            raise Failed(
                "cluster-not-ready", f"The cluster is not ready after {seconds:g} s: {' '.join(left)}"
            )
        client.sleep(POLL_SECONDS)


def silence(client: Client, node_id: int) -> list[str]:
    """Return why this broker doesn't answer at the address that it advertises; empty if it does."""
    with TellingFailure(node_id) as failure:
        deadline = time.monotonic() + TOLD_SECONDS
        while True:
            try:
                client.send(MetadataRequest(topics=[]), node_id)
                return []
            except KafkaError as error:
                last_error: Exception = failure.error or error
            is_final = failure.error or not isinstance(last_error, NodeNotReadyError)
            if is_final or time.monotonic() > deadline:
                break
            client.sleep(POLL_SECONDS)  # it was tried a moment ago, and is not tried again at once
    address = client.address(node_id)
    cause = last_error.reason if isinstance(last_error, AddressUnreachableError) else _plain(last_error)
    if isinstance(last_error, NodeNotReadyError):  # which says only that it failed before
        cause = "no connection"
    return [
        f"Broker {node_id} does not answer at its advertised address {address} ({cause}). Correct "
        "advertised.listeners of the broker, or correct DNS, firewalls or TLS settings between this host "
        "and the broker."
    ]


def _plain(error: Exception) -> str:
    return str(error).removeprefix(f"{type(error).__name__}: ").rstrip(".")


def _describe(client: Client, node_id: int | None = None) -> Cluster:
    topics = client.ask_topics(None, node_id)
    description = client.send(DescribeClusterRequest(include_fenced_brokers=True))
    if description.error_code:
        raise for_code(description.error_code)(description.error_message or "")
    fenced = {broker.broker_id for broker in description.brokers if broker.is_fenced}
    partitions = (partition for topic in topics.values() for partition in topic.partitions)
    return Cluster(
        cluster_id=description.cluster_id,
        brokers=frozenset({broker.broker_id for broker in description.brokers} - fenced),
        fenced=frozenset(fenced),
        partitions=tuple(sorted(partitions, key=lambda partition: (partition.topic, partition.number))),
        quorum=_quorum(client, description.controller_id),
        addresses={broker.broker_id: f"{broker.host}:{broker.port}" for broker in description.brokers},
        hides_topics=not topics and not may_describe_all(client),
    )


def _quorum(client: Client, controller: int) -> Quorum:
    """Return the controllers' quorum; with ZooKeeper there is none, but an active controller.

    In KRaft, what DescribeCluster says of a controller is any broker (KIP-590).
    """
    try:
        response = client.send(DescribeQuorumRequest(topics=METADATA_LOG))
        if response.error_code:
            raise for_code(response.error_code)(response.error_message or "")
    except IncompatibleBrokerVersion:
        return Quorum(controller if controller >= 0 else None, {}, {})
    except RetriableError:  # the brokers forward the question to the active controller, and there is none
        return NO_QUORUM
    [topic] = response.topics
    [state] = topic.partitions
    return as_quorum(state)


def as_quorum(state: Any) -> Quorum:
    """Return a quorum, as its leader tells it."""
    voters, observers = (
        {node.replica_id: node.last_caught_up_timestamp for node in nodes}
        for nodes in (state.current_voters, state.observers)
    )
    leader = state.leader_id if state.leader_id >= 0 else None
    now = (voters | observers).get(leader, -1)  # the leader is always caught up; -1: unknown

    def behind(caught_up: dict[int, int]) -> dict[int, int | None]:
        return {node: now - then if min(now, then) >= 0 else None for node, then in caught_up.items()}

    return Quorum(leader, behind(voters), behind(observers))
