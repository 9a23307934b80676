"""Assign partitions to the current ids of their brokers, and elect leaders from the logs on the disks."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS
from aqueduct.kafka.admin.cluster import describe_by_all, describe_by_controller
from aqueduct.kafka.admin.reassign import elect_unclean, reassign, under_way
from aqueduct.kafka.client import Client
from aqueduct.kafka.cluster import Partition


def assign(client: Client, move: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Assign replicas, and wait until all brokers have them. Failed if the controller rejects some."""
    if refused := reassign(client, move):
        raise Failed(
            "partition-change-rejected",
            f"The controller rejected the assignment of {some(refused)}. The other partitions were assigned. "
            "Run the command again.",
        )
    _await(
        client, move, "not assigned", lambda state: set(move[state.topic_partition]) <= set(state.replicas)
    )


def lead(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Elect the first running replica of each partition as leader. Failed if some still have no leader."""
    if refused := elect_unclean(client, partitions):
        raise Failed(
            "partition-change-rejected",
            f"The controller rejected the election of leaders of {some(refused)}. Run the command again.",
        )
    _await(client, partitions, "without a leader", lambda state: state.leader is not None)


def end_reassignments(client: Client) -> None:
    """End reassignments whose target replicas are all in sync. Failed if the controller rejects one.

    KRaft checks whether a reassignment is complete before it elects (PartitionChangeBuilder.build). So a
    reassignment that an election completes waits for another change, and a partition of one replica has none.
    A partition that was reassigned back also waits for a removed id, until its reassignment is cancelled.
    """
    moves = under_way(client)
    whole = {
        state.topic_partition: moves[state.topic_partition]
        for state in describe_by_controller(client).partitions
        if state.topic_partition in moves and {*moves[state.topic_partition].wanted} <= {*state.in_sync}
    }
    ends = {partition: None if move.contradictory else move.wanted for partition, move in whole.items()}
    if refused := reassign(client, ends):
        raise Failed(
            "partition-change-rejected",
            f"The controller rejected the end of the reassignments of {some(refused)}. Run the command "
            "again.",
        )
    _await(
        client,
        whole,
        "not reassigned",
        lambda state: {*state.replicas} == {*whole[state.topic_partition].wanted},
    )


def _await(
    client: Client,
    partitions: Collection[TopicPartition],
    state_name: str,
    is_settled: Callable[[Partition], bool],
) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        left = sorted(
            {
                str(each)
                for state in describe_by_all(client)
                for each in state.partitions
                if each.topic_partition in partitions and not is_settled(each)
            }
        )
        if not left:
            return
        if time.monotonic() > deadline:
            raise Failed(
                "partition-change-not-visible",
                f"After {SETTLE_SECONDS} s, {count(len(left), 'partition')} still {state_name}: "
                f"{some(left)}. Check the logs of the brokers, and run the command again.",
            )
        client.sleep(POLL_SECONDS)
