"""Mirrors that read the restored cluster: they continue at the same records.

MirrorMaker 2 keeps its positions as Connect does a source connector's, in a topic at its target: a key names
a source partition, its last value the offset that was mirrored last; null: none, begin at the log's start.
The mirror's services must stand still meanwhile.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kafka.errors import UnknownTopicOrPartitionError
from kafka.record.default_records import DefaultRecordBatchBuilder

from aqueduct.errors import Failed, Skipped
from aqueduct.kafka import groups
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.kafka.table import newest
from aqueduct.mirror.status import parse_position
from aqueduct.names import TopicPartition
from aqueduct.restore.job import CLIENT, Job
from aqueduct.restore.order import FollowingMirror
from aqueduct.restore.outcome import Written
from aqueduct.restore.positions import Unsure, translate
from aqueduct.restore.progress import group
from aqueduct.wording import some
from aqueduct.work.workers import Workers


@dataclass(frozen=True)
class MirrorPosition:
    """The place where a mirror continues in one partition of its source."""

    key: bytes  # in the topic of positions
    partition: int  # of that topic
    next: int


@dataclass(frozen=True)
class MirrorPositions:
    """All positions of one mirror, ready to be moved once for one restore."""

    client: Client
    mirror: FollowingMirror
    restore_id: str

    def read(self) -> dict[TopicPartition, MirrorPosition]:
        """Read the positions, by partition of the source; nothing if the mirror never ran."""
        topic = self.client.topics([self.mirror.topic]).get(self.mirror.topic)
        partitions = topic.topic_partitions if topic else []
        found: dict[TopicPartition, MirrorPosition] = {}
        for key, row in newest(self.client, partitions).items():
            if parsed := parse_position(key, row.value):
                partition, next_offset = parsed
                found[partition] = MirrorPosition(key, row.partition.partition, next_offset)
        return found

    @property
    def _mark(self) -> TopicPartition:
        """The place in this restore's group that says that they are moved."""
        return TopicPartition(self.mirror.topic, 0)

    def moved(self) -> str | None:
        """Return what an earlier run of this restore reported when it moved them; None: none has."""
        try:
            found = groups.progress(self.client, group(self.restore_id), [self._mark])
        except UnknownTopicOrPartitionError:
            return None
        return found[self._mark][1] if self._mark in found else None

    def move(self, positions: Mapping[MirrorPosition, int], said: str) -> None:
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


def move(job: Job, written: Mapping[TopicPartition, Written], workers: Workers) -> Iterator[Skipped]:
    """Make mirrors that read the restored topics continue at the same records, once; Failed if one can't."""
    for mirror in job.order.mirrors:
        with _opened(mirror, job.id) as at:
            said = at.moved()
            if said is None:
                moved, said = _moved(job, at, written, workers)
                at.move(moved, said)
            if said:
                yield Skipped(f"mirror {mirror.name}", said, "mirror-ahead")


def _moved(
    job: Job, at: MirrorPositions, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[dict[MirrorPosition, int], str]:
    """Return a mirror's positions with their new offsets, and where it was ahead of the snapshot."""
    lanes = {lane.target: lane for lane in job.plan.lanes if lane.topic == lane.stored_partition.topic}
    mine = {partition: each for partition, each in at.read().items() if partition in lanes}
    offsets_ = {partition: {each.next} for partition, each in mine.items()}
    answers = translate(job, offsets_, written, workers)
    moved = {}
    ahead = []
    for partition, each in sorted(mine.items()):
        answer, stop = answers[partition, each.next], lanes[partition].stop
        if isinstance(answer.new, Unsure):
            raise Failed(
                "mirror-position-unknown",
                f"The position of mirror {at.mirror.name} in {partition} cannot be translated: "
                f"{answer.new.why}. None of its positions was changed.",
            )
        moved[each] = answer.new
        if each.next > stop:
            ahead.append(f"{partition} up to {each.next}, and the snapshot ends at {stop}")
    return moved, f"it has read {some(ahead)}" if ahead else ""


@contextmanager
def _opened(mirror: FollowingMirror, restore_id: str) -> Iterator[MirrorPositions]:
    with connect(mirror.end, CLIENT) as client:
        yield MirrorPositions(client, mirror, restore_id)


def _batches(positions: Mapping[MirrorPosition, int]) -> Iterator[tuple[int, Ready]]:
    """Yield one batch for each partition of the topic."""
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
