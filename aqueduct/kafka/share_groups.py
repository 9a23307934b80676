"""Share groups (KIP-932): the offset up to which each has completed every record, and how it is set.

A share group acknowledges record by record. Its start offset, as the coordinator describes it, is where its
window begins, and stays behind what is acknowledged until the next write; what became of the records after it
is in the topic `__share_group_state`. No request sets more than the start offset.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafka.errors import (
    GroupIdNotFoundError,
    IncompatibleBrokerVersion,
    KafkaError,
    NonEmptyGroupError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import offsets
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.compacted_topics import keys_and_values
from aqueduct.kafka.fan_out import ask_all, check_mentioned
from aqueduct.kafka.groups import GROUPS_PER_REQUEST, LiveGroup
from aqueduct.kafka.requests import in_lists
from aqueduct.kafka.share_messages import (
    AlterShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareSnapshotValue,
    ShareUpdateValue,
)

TYPE = "share"  # as ListGroups has it
STATE_TOPIC = "__share_group_state"
PARTITIONS_PER_REQUEST = 1_000  # the coordinator writes a record for each

_SNAPSHOT, _UPDATE = 0, 1  # types of the state topic's records, in front of their keys
_COMPLETE = (2, 4)  # delivery states: acknowledged, archived
_SHORT = struct.Struct(">h")
_KEY_END = struct.Struct(">16si")  # a topic's id, a partition


@dataclass(frozen=True)
class SharePartition:
    """A partition as a share group reads it."""

    topic_id: UUID
    start: int  # offset


@dataclass
class _State:
    """The state of a share group in one partition, after the records of the state topic so far."""

    start: int
    complete: list[tuple[int, int]] = field(default_factory=list)  # offsets, both inclusive

    @property
    def position(self) -> int:
        """Return the first offset that is not complete, nor is any after it taken for complete."""
        position = self.start
        for first, last in sorted(self.complete):
            if first > position:
                break
            position = max(position, last + 1)
        return position


NOT_SUPPORTED = IncompatibleBrokerVersion, UnsupportedVersionError  # raised by a cluster without share groups
UPGRADE = "Upgrade Kafka to 4.2 or later, and enable the feature share.version"


class StateUnreadable(Exception):
    """The reason why `__share_group_state` can't be read."""


ShareOffsets = dict[str, dict[TopicPartition, int]]  # by group


def start_offsets(
    client: Client, groups: Iterable[str], unanswered: dict[str, KafkaError] | None = None
) -> dict[str, dict[TopicPartition, SharePartition]]:
    """Return the start offsets of share groups; nothing for a group that does not exist.

    `unanswered` as in `ask_all`.
    """
    kind = DescribeShareGroupOffsetsRequest.Group
    return ask_all(
        client,
        groups,
        responsible=lambda names: client.coordinators(CoordinatorType.GROUP, names),
        request=lambda names: DescribeShareGroupOffsetsRequest(
            groups=[kind(group_id=name, topics=None) for name in names]
        ),
        answers=_described,
        limit=GROUPS_PER_REQUEST,
        fault="did not describe all share groups",
        unanswered=unanswered,
    )


def _described(response: object) -> Iterator[tuple[str, dict[TopicPartition, SharePartition] | KafkaError]]:
    for group in response.groups:  # type: ignore[attr-defined]
        parts = [(topic, part) for topic in group.topics for part in topic.partitions]
        code = group.error_code or next((part.error_code for _, part in parts if part.error_code), 0)
        error = for_code(code)
        if code and error is not GroupIdNotFoundError:
            yield group.group_id, error(f"group {group.group_id}")
        else:
            yield (
                group.group_id,
                {
                    TopicPartition(topic.topic_name, part.partition_index): SharePartition(
                        topic.topic_id, part.start_offset
                    )
                    for topic, part in parts
                    if part.start_offset >= 0  # the group has begun to read it
                },
            )


def positions(
    client: Client, described: Mapping[str, Mapping[TopicPartition, SharePartition]]
) -> ShareOffsets:
    """Return the first offset of each partition that the group has not completed.

    Records after it may be complete, too: those that were acknowledged out of order. StateUnreadable if
    brokers do not let this client read what became of records.
    """
    keys = {
        (group, share_partition.topic_id.bytes, partition.partition): (group, partition)
        for group, partitions in described.items()
        for partition, share_partition in partitions.items()
    }
    states = _states(client, keys)
    positions_by_group: ShareOffsets = {group: {} for group in described}
    for key, (group, partition) in keys.items():
        state = states.get(key)
        positions_by_group[group][partition] = state.position if state else described[group][partition].start
    return positions_by_group


_Key = tuple[str, bytes, int]  # group, topic's id, partition


def _states(client: Client, keys: Iterable[_Key]) -> dict[_Key, _State]:
    chosen = frozenset(keys)
    if not chosen:
        return {}
    try:
        topic = client.topics([STATE_TOPIC]).get(STATE_TOPIC)
        partitions = topic.topic_partitions if topic else []
        starts, ends = offsets.log_starts(client, partitions), offsets.ends(client, partitions)
        states: dict[_Key, _State] = {}
        ranges = [Range(*partition, starts[partition], ends[partition]) for partition in partitions]
        for _, records in keys_and_values(client, ranges):
            for key, value in records:
                _apply(states, chosen, key or b"", value)
    except TopicAuthorizationFailedError:
        raise StateUnreadable(f"the client may not read {STATE_TOPIC}") from None
    return states


def _apply(states: dict[_Key, _State], chosen: frozenset[_Key], key: bytes, value: bytes | None) -> None:
    """Bring the states up to a record of the state topic."""
    (kind,) = _SHORT.unpack_from(key)
    (length,) = _SHORT.unpack_from(key, _SHORT.size)
    end = 2 * _SHORT.size + length
    of = (key[2 * _SHORT.size : end].decode(), *_KEY_END.unpack_from(key, end))
    if of not in chosen:
        return
    if value is None:
        if kind == _SNAPSHOT:
            states.pop(of, None)
        return
    (version,) = _SHORT.unpack_from(value)
    if version or kind not in (_SNAPSHOT, _UPDATE):
        raise StateUnreadable(f"this version of Aqueduct does not support the format of {STATE_TOPIC}")
    message = (ShareUpdateValue if kind else ShareSnapshotValue).decode(value[_SHORT.size :], version=0)
    if kind == _SNAPSHOT or of not in states:
        states[of] = _State(message.start_offset)
    state = states[of]
    if message.start_offset >= 0:
        state.start = message.start_offset
    state.complete += (
        (batch.first_offset, batch.last_offset)
        for batch in message.state_batches
        if batch.delivery_state in _COMPLETE
    )


def set_positions(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set start offsets of a share group without members, which need not exist yet; LiveGroup if it has some.

    What the group had acknowledged after them is forgotten. Where it fails, some may be set.
    """
    for some in in_lists(offsets.items(), PARTITIONS_PER_REQUEST):
        patience = Patience(client, f"did not set the offsets of share group {group}")
        try:
            patience.until_done(lambda some=some: _alter(client, group, some))  # type: ignore[misc]
        except NOT_SUPPORTED:
            raise Failed(
                "share-groups-unsupported",
                f"The {client.end} does not support share groups, so the offsets of {group} were not set. "
                f"{UPGRADE}.",
            ) from None


def _alter(client: Client, group: str, some: Sequence[tuple[TopicPartition, int]]) -> None:
    kind = AlterShareGroupOffsetsRequest.Topic
    topics: dict[str, list[object]] = {}
    for (topic, number), offset in some:
        entry = kind.Partition(partition_index=number, start_offset=offset)
        topics.setdefault(topic, []).append(entry)
    request = AlterShareGroupOffsetsRequest(
        group_id=group, topics=[kind(topic_name=name, partitions=entries) for name, entries in topics.items()]
    )
    coordinator = client.coordinator(CoordinatorType.GROUP, group)
    response = client.send(request, coordinator)
    if for_code(response.error_code) is NonEmptyGroupError:
        raise LiveGroup(
            f"Share group {group} of the {client.end} has members, so its offsets cannot be set. Stop the "
            "consumers of the group."
        )
    if response.error_code:
        raise for_code(response.error_code)(response.error_message or f"share group {group}")
    mentioned: set[TopicPartition] = set()
    for topic in response.responses:
        for part in topic.partitions:
            mentioned.add(TopicPartition(topic.topic_name, part.partition_index))
            if part.error_code:
                raise for_code(part.error_code)(
                    f"share group {group}, {topic.topic_name}-{part.partition_index}"
                )
    check_mentioned([partition for partition, _ in some], mentioned)
