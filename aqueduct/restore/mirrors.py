"""Positions of mirrors that read the restored cluster.

MirrorMaker 2 keeps them as Connect does a source connector's, in a topic at its target: a key names a source
partition, its last value the offset that was mirrored last; null: none, begin at the log's start. The
mirror's services must stand still meanwhile.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kafka.errors import UnknownTopicOrPartitionError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from aqueduct.kafka import client as kafka
from aqueduct.kafka import fetch, groups, offsets
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.mirror.status import parse_position
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range
from aqueduct.restore.progress import group


@dataclass(frozen=True)
class Mirror:
    """One flow, by its name, and the cluster where it arrives."""

    name: str
    end: End

    @property
    def topic(self) -> str:
        return f"mm2-offsets.{self.name}.internal"


@dataclass(frozen=True)
class Position:
    """Where a mirror goes on in one partition of its source."""

    key: bytes  # in the topic of positions
    partition: int  # of that topic
    next: int


@dataclass(frozen=True)
class Positions:
    """All positions of one mirror, ready to be moved once for one restore."""

    client: Client
    mirror: Mirror
    restore_id: str

    def read(self) -> dict[TopicPartition, Position]:
        """By partition of the source; nothing if the mirror never ran."""
        found: dict[TopicPartition, Position] = {}
        for key, (value, partition) in self._table().items():
            if value is not None and (parsed := parse_position(key, value)):
                source, next_offset = parsed
                found[source] = Position(key, partition, next_offset)
        return found

    def _table(self) -> dict[bytes, tuple[bytes | None, int]]:
        topic = self.client.topics([self.mirror.topic]).get(self.mirror.topic)
        places = [TopicPartition(topic.name, each.number) for each in topic.partitions] if topic else []
        ends = offsets.ends(self.client, places)
        table: dict[bytes, tuple[bytes | None, int]] = {}
        for place, start in offsets.log_starts(self.client, places).items():
            for piece in fetch.read(self.client, Range(*place, start, ends[place])):
                for batch in piece.batches:
                    for record in DefaultRecordBatch(bytes(batch.data)):
                        table[record.key] = record.value, place.partition
        return table

    @property
    def _mark(self) -> TopicPartition:
        """The place in this restore's group that says that they are moved."""
        return TopicPartition(self.mirror.topic, 0)

    def moved(self) -> str | None:
        """What an earlier run of this restore said of it when it had moved them; None: none has."""
        try:
            found = groups.progress(self.client, group(self.restore_id), [self._mark])
        except UnknownTopicOrPartitionError:
            return None
        return found[self._mark][1] if self._mark in found else None

    def move(self, positions: Mapping[Position, int], said: str) -> None:
        """Set the next offsets, all or none, together with the mark that they are."""
        producer = TransactionalProducer(self.client, f"{group(self.restore_id)}-{self.mirror.name}")

        def attempt(_: Callable[[], None]) -> None:
            producer.begin()
            for partition, ready in _batches(positions):
                producer.send(self.mirror.topic, partition, ready)
            producer.commit_offsets(group(self.restore_id), {self._mark: (1, said)})
            producer.commit()

        until_committed(
            self.client, attempt, f"; the positions of mirror {self.mirror.name} stay as they were"
        )


@contextmanager
def opened(mirror: Mirror, restore_id: str) -> Iterator[Positions]:
    with kafka.connect(mirror.end, "aqueduct-restore") as client:
        yield Positions(client, mirror, restore_id)


def _batches(positions: Mapping[Position, int]) -> Iterator[tuple[int, Ready]]:
    """For each partition of the topic one batch."""
    now = time.time_ns() // 1_000_000
    for partition in sorted({each.partition for each in positions}):
        mine = [each for each in positions if each.partition == partition]
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=0, is_transactional=1, producer_id=-1, producer_epoch=-1,
            base_sequence=-1, batch_size=1 << 30,
        )  # fmt: skip
        for number, each in enumerate(mine):
            next_offset = positions[each]
            value = json.dumps({"offset": next_offset - 1}).encode() if next_offset else None
            builder.append(number, now, each.key, value, [])
        yield partition, Ready(bytearray(builder.build()), len(mine), 0)
