"""Assign logs to the ids that their brokers have now, and elect leaders by what is on the disks."""

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
    """Give partitions their replicas, and return when all brokers know them; Failed with what is refused."""
    if refused := reassign(client, move):
        raise Failed(
            "partition-change-rejected",
            f"The controller refused {some(refused)}; the rest is assigned. Run the command again.",
        )
    _await(client, move, "assigned", lambda state: set(move[state.topic_partition]) <= set(state.replicas))


def lead(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Let the first replica that runs lead each partition; Failed with those that have no leader after it."""
    if refused := elect_unclean(client, partitions):
        raise Failed(
            "partition-change-rejected",
            f"The controller refused to elect leaders of {some(refused)}. Run the command again.",
        )
    _await(client, partitions, "led", lambda state: state.leader is not None)


def end_reassignments(client: Client) -> None:
    """Let go of ids that are gone where all replicas that are to be there are in sync.

    KRaft looks whether a reassignment has ended before it elects (PartitionChangeBuilder.build). So one that
    an election makes complete waits for another change; a partition of one replica has none. One that was
    reassigned back meanwhile waits for an id that is to go, too, until that is taken back.
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
            f"The controller refused to end the reassignments of {some(refused)}. Run the command again.",
        )
    _await(
        client, whole, "reassigned", lambda state: {*state.replicas} == {*whole[state.topic_partition].wanted}
    )


def _await(
    client: Client, partitions: Collection[TopicPartition], goal: str, is_settled: Callable[[Partition], bool]
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
                f"After {SETTLE_SECONDS} s, {count(len(left), 'partition')} still not {goal}: "
                f"{some(left)}. Check the journals of the brokers.",
            )
        client.sleep(POLL_SECONDS)
