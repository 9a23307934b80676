"""Which brokers have a partition's replicas: change it, and elect a leader that was not in sync."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import ElectionNotNeededError, for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.admin.asking import Said, change
from aqueduct.kafka.client import REQUEST_SECONDS, Client, Patience
from aqueduct.kafka.requests import in_lists

PARTITIONS_PER_REQUEST = 1_000
_MILLISECONDS = REQUEST_SECONDS * 1000


def reassign(client: Client, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> list[str]:
    """Give partitions these replicas, in this order (KIP-455); return what the controller refused.

    None takes the partition's reassignment back.
    It answers at once: a broker that is new to a partition is to copy its log from the leader first.
    """
    refused: list[str] = []
    for chunk in in_lists(sorted(replicas.items()), PARTITIONS_PER_REQUEST):
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        topics = [
            kind(
                name=topic,
                partitions=[
                    kind.ReassignablePartition(
                        partition_index=partition.partition, replicas=nodes and [*nodes]
                    )
                    for partition, nodes in chunk
                    if partition.topic == topic
                ],
            )
            for topic in sorted({partition.topic for partition, _ in chunk})
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=_MILLISECONDS, topics=topics)
        refused += _change(
            client,
            request,
            lambda response: (
                ("the reassignment", response.error_code, response.error_message),
                *(
                    (f"{topic.name}-{part.partition_index}", part.error_code, part.error_message)
                    for topic in response.responses
                    for part in topic.partitions
                ),
            ),
        )
    return refused


@dataclass(frozen=True)
class Reassignment:
    """One that has not ended: what is to be there then, and an id that is to come and to go."""

    wanted: tuple[int, ...]
    contradictory: bool


def under_way(client: Client) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments that have not ended."""

    def attempt() -> Any:
        asked = ListPartitionReassignmentsRequest(timeout_ms=_MILLISECONDS)
        response = client.send(asked, client.controller())
        if response.error_code:
            raise for_code(response.error_code)(response.error_message or "")
        return response

    response = Patience(client, "did not list its reassignments").until_done(attempt)
    return {
        TopicPartition(topic.name, part.partition_index): Reassignment(
            tuple(node for node in part.replicas if node not in part.removing_replicas),
            not {*part.adding_replicas}.isdisjoint(part.removing_replicas),
        )
        for topic in response.topics
        for part in topic.partitions
    }


def elect_unclean(client: Client, partitions: Iterable[TopicPartition]) -> list[str]:
    """Let the first replica that runs lead each partition, though it was not in sync (KIP-460).

    What only others had is lost. Returns what the controller refused; a partition that has a leader stays.
    """
    refused: list[str] = []
    for chunk in in_lists(sorted(partitions), PARTITIONS_PER_REQUEST):
        kind = ElectLeadersRequest.TopicPartitions
        topics = [
            kind(
                topic=topic,
                partitions=[partition.partition for partition in chunk if partition.topic == topic],
            )
            for topic in sorted({partition.topic for partition in chunk})
        ]
        request = ElectLeadersRequest(
            election_type=ElectionType.UNCLEAN, topic_partitions=topics, timeout_ms=_MILLISECONDS
        )
        refused += _change(
            client,
            request,
            lambda response: (
                ("the election", response.error_code, None),
                *(
                    (f"{result.topic}-{part.partition_id}", part.error_code, part.error_message)
                    for result in response.replica_election_results
                    for part in result.partition_result
                    if for_code(part.error_code) is not ElectionNotNeededError
                ),
            ),
        )
    return refused


def _change(client: Client, request: Any, read_answers: Callable[[Any], Iterable[Said]]) -> list[str]:
    """Ask for a change that may be made twice, also where the broker that was asked has just gone."""
    return Patience(client, "accepted no changes").until_done(lambda: change(client, request, read_answers))
