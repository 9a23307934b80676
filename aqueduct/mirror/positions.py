"""Read and write the positions of a MirrorMaker 2 flow, and their bindings, in the cluster where it arrives.

Only with what every host has: kafka-python's own producer writes.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.partitioner.default import murmur2

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import LEGAL_NAME, TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import addresses, offsets
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_errors import RECONNECT, answering
from aqueduct.kafka.compacted_topics import MOST_STATE_BYTES, Table, keys_and_values
from aqueduct.mirror import binding
from aqueduct.mirror.binding import NO_EPOCH, Binding, Evidence, SourceLog, UnreadableBinding
from aqueduct.mirror.status import SOURCE_CONNECTOR

TRANSACTION_SECONDS = 10
SEND_SECONDS = 30
FLOW_UNREADABLE = "mirror-maker-position-unreadable"

PositionRecord = tuple[bytes, bytes | None]  # key and value of a record
Suspects = Mapping[TopicPartition, Binding]


@dataclass(frozen=True)
class StoredPosition:
    """The position of a source partition: the next offset to mirror."""

    key: bytes  # of its record
    partition: int  # of the offsets topic
    next: int


class OffsetSync(NamedTuple):
    """An offset sync (MirrorMaker's OffsetSync): a source offset, and that of its record at the target."""

    source: int
    target: int

    def follows(self, earlier: "OffsetSync | None") -> bool:
        """Return whether it is of the same run of records as an earlier one, without a jump between them.

        MirrorMaker sends the sync of a jump at once, and may send that of the last record before a check of
        the position only after it (KAFKA-14797). A record that it mirrors again is farther from the earlier
        one at the target than at the source.
        """
        return earlier is not None and 0 < self.source - earlier.source == self.target - earlier.target


class FlowPositions:
    """The positions and bindings of one flow. `refresh` reads on from where it was."""

    def __init__(self, flow: str, target: Client) -> None:
        self.flow = flow
        self.topic = f"mm2-offsets.{flow}.internal"
        self._syncs = TopicPartition(f"mm2-offset-syncs.{flow}.internal", 0)
        self._target = target
        self._table = Table(target, self._note, most_bytes=MOST_STATE_BYTES)
        self._parsed: dict[bytes, tuple[str, TopicPartition] | None] = {}
        self._last: dict[TopicPartition, int] = {}
        self._fell_from: dict[TopicPartition, int] = {}

    def refresh(self) -> None:
        if topics := self._target.topics([self.topic]):
            self._table.refresh(topics[self.topic].topic_partitions)

    @property
    def exists(self) -> bool:
        """Whether the target has the topic of positions, which the mirror's first start creates."""
        return bool(self._target.topics([self.topic]))

    @property
    def is_empty(self) -> bool:
        return not self._table.rows

    @property
    def stored(self) -> dict[TopicPartition, StoredPosition]:
        """The positions, by source partition; nothing if the mirror never ran.

        Failed if one is unreadable.
        """
        positions = {}
        for key, row in self._table.rows.items():
            parsed = self._of(key)
            if parsed and parsed[0] == SOURCE_CONNECTOR:
                if (next_offset := _next(row.value)) is None:
                    raise self._unreadable(parsed[1])
                positions[parsed[1]] = StoredPosition(key, row.partition.partition, next_offset)
        return positions

    @property
    def bindings(self) -> dict[TopicPartition, Binding]:
        rows = {key: row.value for key, row in self._table.rows.items()}
        try:
            return binding.parse_bindings(rows)
        except UnreadableBinding as error:
            raise self._unreadable(error.partition) from error

    def _unreadable(self, partition: TopicPartition) -> Failed:
        return Failed(
            FLOW_UNREADABLE,
            f"The stored position of {partition} in {self.topic} at the target cannot be read. Do not start "
            "MirrorMaker: it would mirror the partition from its beginning again. Write the record again "
            'with the offset of the last mirrored record: {"offset": N}. If the partition may be mirrored '
            "again, write a tombstone instead.",
        )

    def check(self) -> None:
        """Failed if a position or a binding is unreadable."""
        for _ in (self.stored, self.bindings):
            pass

    def sync_end(self) -> int:
        """Return the end of the topic of offset syncs; 0 without one."""
        topics = self._target.topics([self._syncs.topic])
        return offsets.ends(self._target, [self._syncs])[self._syncs] if topics else 0

    def evidence(self, suspects: Suspects) -> dict[TopicPartition, Evidence]:
        """Return what MirrorMaker's topics show about these partitions since they were bound."""
        began = self._began(suspects)
        return {
            partition: Evidence(self._fell_from.get(partition), began.get(partition))
            for partition in suspects
        }

    def _began(self, suspects: Suspects) -> dict[TopicPartition, int]:
        began: dict[TopicPartition, int] = {}
        if not suspects or not self._target.topics([self._syncs.topic]):
            return began
        start = offsets.log_starts(self._target, [self._syncs])[self._syncs]
        end = offsets.ends(self._target, [self._syncs])[self._syncs]
        # Partitions that were bound at the same time share one pass.
        in_order = sorted(suspects.items(), key=lambda suspect: suspect[1].syncs)
        for since, some in groupby(in_order, key=lambda suspect: suspect[1].syncs):
            mine = dict(some)
            first = min(max(start, since), end)
            later = [
                (partition, sync)
                for partition, sync in self._syncs_in(first, end)
                if partition in mine and sync.source < mine[partition].next
            ]
            if not later:
                continue
            last = {partition: sync for partition, sync in self._syncs_in(start, first) if partition in mine}
            for partition, sync in later:
                if not sync.follows(last.get(partition)):
                    began[partition] = min(sync.source, began.get(partition, sync.source))
                last[partition] = sync
        return began

    def _syncs_in(self, start: int, stop: int) -> Iterator[tuple[TopicPartition, OffsetSync]]:
        for _, records in keys_and_values(self._target, [Range(*self._syncs, start, stop)]):
            yield from filter(None, (parse_sync(*record) for record in records))

    def records(
        self, moves: Mapping[TopicPartition, int], bindings: Mapping[TopicPartition, Binding]
    ) -> dict[int, list[PositionRecord]]:
        """Return the records that set positions and bindings, by partition of the offsets topic.

        A binding is written to the partition of its position, so that their order is known.
        """
        stored = self.stored
        by_partition: dict[int, list[PositionRecord]] = {}
        for partition in sorted(moves.keys() | bindings.keys()):
            key, position = binding.key(partition), stored.get(partition)
            mine = by_partition.setdefault(self._partition(partition, position, key), [])
            if partition in moves and (position or moves[partition]):
                value = {"offset": moves[partition] - 1}
                position_key = position.key if position else self._position_key(partition)
                mine.append((position_key, json.dumps(value).encode() if moves[partition] else None))
            if partition in bindings:
                mine.append((key, binding.dumps(bindings[partition])))
        return by_partition

    def write(
        self,
        moves: Mapping[TopicPartition, int],
        bindings: Mapping[TopicPartition, Binding],
        is_still_right: Callable[[], bool] | None = None,
    ) -> bool:
        """Set positions, all or none, and bindings; return whether that was done.

        The mirror's workers must stand still for a move. `is_still_right` is asked when no other run can move
        any more.
        """
        records = self.records(moves, bindings)
        if not records:
            return True
        end = self._target.end
        settings: dict[str, Any] = {
            "bootstrap_servers": end.bootstrap_servers.split(","),
            "acks": "all",
            "enable_idempotence": True,
            "metrics_enabled": False,
            "kafka_client": addresses.client,
            "max_block_ms": SEND_SECONDS * 1000,
            **({"transactional_id": f"{self.flow}-mm2-aqueduct"} if moves else {}),
            **({"transaction_timeout_ms": TRANSACTION_SECONDS * 1000} if moves else {}),
            **RECONNECT,
            **end.client_config.kafka_python(),
        }
        with answering(end.bootstrap_servers), closing(KafkaProducer(**settings)) as producer:
            if moves:
                producer.init_transactions()
                if is_still_right and not is_still_right():
                    return False
                producer.begin_transaction()
            sent = [
                producer.send(self.topic, key=key, value=value, partition=partition)
                for partition, some in records.items()
                for key, value in some
            ]
            producer.flush(SEND_SECONDS)
            for future in sent:
                future.get(SEND_SECONDS)
            if moves:
                producer.commit_transaction()
        return True

    def _partition(self, partition: TopicPartition, position: StoredPosition | None, key: bytes) -> int:
        """Return the partition of the offsets topic for a position and its binding.

        A new position gets the one that Connect's producer chooses, so that no key is in two partitions.
        """
        if position:
            return position.partition
        if key in self._table.rows:
            return self._table.rows[key].partition.partition
        count = len(self._target.topics([self.topic])[self.topic].partitions)
        return int(murmur2(self._position_key(partition)) & 0x7FFFFFFF) % count

    def _position_key(self, partition: TopicPartition) -> bytes:
        """Return the record key of a position that the mirror does not have, for example after a tombstone.

        Connect compares keys by their bytes, and MirrorMaker's (MirrorUtils.wrapPartition) have this order.
        """
        source = {"cluster": self.flow, "partition": partition.partition, "topic": partition.topic}
        return json.dumps([SOURCE_CONNECTOR, source], separators=(",", ":")).encode()

    def _of(self, key: bytes) -> tuple[str, TopicPartition] | None:
        """Return connector and source partition of a record's key; None: it has no source partition."""
        if key not in self._parsed:
            parsed = binding.parse_key(key)
            is_known = parsed and parsed[0] in (SOURCE_CONNECTOR, binding.CONNECTOR)
            if not is_known:  # not remembered: another program may write ever new keys
                return None
            self._parsed[key] = parsed
        return self._parsed[key]

    def _note(self, key: bytes, value: bytes | None) -> None:
        """Note where a position becomes smaller; a binding that follows it has taken that into account."""
        parsed = self._of(key)
        if parsed is None:
            return
        connector, partition = parsed
        if connector == binding.CONNECTOR:
            self._fell_from.pop(partition, None)
            return
        position = _next(value) if value is not None else 0
        if position is None:
            return  # `stored` refuses it, if it is the last one
        if position < self._last.get(partition, 0):
            self._fell_from[partition] = self._last[partition]
        self._last[partition] = position


def source_logs(
    source: Client, partitions: Mapping[TopicPartition, Binding | None]
) -> dict[TopicPartition, SourceLog]:
    """Read the logs of these source partitions, without hidden ones and those without a leader."""
    topics = source.topics({partition.topic for partition in partitions})
    ids = {name: str(topic.id or binding.UNKNOWN_TOPIC) for name, topic in topics.items()}
    led = {partition for topic in topics.values() for partition in topic.led_partitions}
    asked = led.intersection(partitions)
    starts = offsets.log_starts(source, asked)
    stable = offsets.stable_ends(source, asked)
    # Not the last stable offset: a flow that reads uncommitted records passes it.
    ends = offsets.ends(source, asked, "read_uncommitted")
    bound = {partition: partitions[partition] for partition in asked}
    epochs = {
        partition: of.epoch
        for partition, of in bound.items()
        if of and of.epoch != NO_EPOCH and of.topic_id == ids[partition.topic]
    }
    epoch_ends = offsets.ends_of_epochs(source, epochs)
    return {
        partition: SourceLog(
            topic_id=ids[partition.topic],
            start=starts[partition],
            end=ends[partition],
            stable_end=stable[partition].offset,
            epoch=stable[partition].epoch,
            bound_epoch_end=epoch_ends.get(partition),
        )
        for partition in asked
    }


def _next(value: bytes) -> int | None:
    """Return the next offset of a position; None: MirrorMaker cannot read it either."""
    try:
        offset = json.loads(value)["offset"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_offset = isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset < 1 << 63
    return offset + 1 if is_offset else None


def parse_sync(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, OffsetSync] | None:
    """Return the source partition and the offsets of an offset sync; None if the record is none."""
    if not key or not value or len(key) < 2 or len(value) < 16:
        return None
    (length,) = struct.unpack_from(">h", key)
    if len(key) != 2 + length + 4:
        return None
    if length < 0:
        return None
    name, (number,) = key[2 : 2 + length], struct.unpack_from(">i", key, 2 + length)
    if not LEGAL_NAME.fullmatch(topic := name.decode("ascii", "replace")):
        return None
    return TopicPartition(topic, number), OffsetSync(*struct.unpack_from(">qq", value))


def suspects(
    cases: Mapping[TopicPartition, tuple[int | None, Binding | None, SourceLog]],
) -> Iterator[tuple[TopicPartition, Binding]]:
    """Yield the partitions whose positions need evidence: the topic or its log is not what it was."""
    for partition, (next_, bound, log) in cases.items():
        if bound and (
            bound.topic_id != log.topic_id
            or (next_ or 0) < bound.next
            or (log.bound_epoch_end is not None and log.bound_epoch_end < bound.next)
        ):
            yield partition, bound
