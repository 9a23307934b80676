"""The arrivals of a bucket of source partitions: what is new, and what the ledger then says."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from uuid import UUID

from aqueduct.common.offset_sets import Span, size
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.link.ledger.entry import LedgerPartition, LedgerRecords, records
from aqueduct.link.ledger.lineage import Lineage
from aqueduct.link.wire.frame import Announcement, Frame, batches_of


def bucket(topic: str, partition: int, buckets: int) -> int:
    """Return the partition of the raw topics and of the gap topic that holds all of a source partition."""
    return zlib.crc32(f"{topic}/{partition}".encode()) % buckets


@dataclass(frozen=True)
class New:
    """The part of a frame that goes to the clean topic now."""

    frame: Frame
    topic_partition: TopicPartition
    batches: list[Batch]


class Unsound(Exception):
    """A frame whose batches can't be read."""

    def __init__(self, frame: Frame, reason: str) -> None:
        super().__init__(reason)
        self.frame = frame


class Bucket:
    """The ledger of some source partitions, and how it changes."""

    def __init__(self, ledger: Mapping[TopicPartition, LedgerPartition]) -> None:
        self._ledger = dict(ledger)
        self._keys = {partition: list(records(lineages, 0)) for partition, lineages in ledger.items()}
        self._changed: set[TopicPartition] = set()
        self.repeated = 0  # offsets that had arrived before

    def arrive(self, frames: Iterable[Frame]) -> Iterator[New]:
        """Take frames in the order of offsets; the ids that a topic had, in the order in which they came.

        Unsound at a frame that can't be read; what was taken before it is half a state then.
        """
        for frame in _in_order(frames):
            partition = TopicPartition(frame.topic, frame.partition)
            new = self._lineage(partition, frame.topic_id, frame.first).arrive(frame.first, frame.last)
            self.repeated += frame.last - frame.first + 1 - size(new)
            if new:
                self._changed.add(partition)
                try:
                    batches = list(within(batches_of(frame), new))
                except Damaged as error:
                    raise Unsound(frame, str(error)) from None
                if batches:
                    yield New(frame, partition, batches)

    def miss(self, frame: Frame) -> None:
        """Enter what a frame covers as missing, as far as it is not known to have arrived."""
        partition = TopicPartition(frame.topic, frame.partition)
        self._lineage(partition, frame.topic_id, frame.first).miss(frame.first, frame.last)
        self._changed.add(partition)

    def announce(self, announcement: Announcement) -> None:
        """Enter an announcement, once what it announced had its time to arrive."""
        partition = TopicPartition(announcement.topic, announcement.partition)
        lineage = self._lineage(partition, announcement.topic_id, announcement.first)
        before = deepcopy(lineage)
        lineage.announce(announcement.first, announcement.end, compacted=announcement.compacted)
        if lineage != before:
            self._changed.add(partition)

    def contradicted(self, announcement: Announcement, before: int) -> int | None:
        """Return up to which offset a partition is known, if its log is announced to end before it.

        None, too, if that was entered later than `before` (milliseconds since 1970): what was sent after an
        announcement may overtake it.
        """
        partition = self._ledger.get(TopicPartition(announcement.topic, announcement.partition))
        if partition is None or partition.updated > before:
            return None
        current = partition.current
        next_offset = current.next if current and current.topic_id == str(announcement.topic_id) else 0
        return next_offset if announcement.end < next_offset else None

    def changes(self, updated: int) -> LedgerRecords:
        """Return the gap topic's new records; `updated` in milliseconds since 1970."""
        new_records: LedgerRecords = {}
        for partition in self._changed:
            self._ledger[partition].updated = updated
            of_partition = records(self._ledger[partition], updated, self._keys.get(partition, ()))
            self._keys[partition] = [key for key, value in of_partition.items() if value is not None]
            new_records |= of_partition
        self._changed.clear()
        return new_records

    @property
    def topics(self) -> frozenset[str]:
        """The source topics that the ledger has an entry of, also of those that were retired."""
        return frozenset(topic for topic, _ in self._ledger)

    def topic_ids(self) -> dict[TopicPartition, set[str]]:
        """Return the topic ids that each source partition had."""
        return {
            partition: {*lineages.retired, *([lineages.current.topic_id] if lineages.current else [])}
            for partition, lineages in self._ledger.items()
        }

    def missing(self) -> tuple[int, int]:
        """Return offsets that may yet be sent again, and those that can't."""
        missing = lost = 0
        for partition in self._ledger.values():
            missing += size(partition.missing)
            lost += sum(size(spans) for spans in partition.lost.values())
        return missing, lost

    def _lineage(self, topic_partition: TopicPartition, topic_id: UUID, first: int) -> Lineage:
        partition = self._ledger.setdefault(
            topic_partition, LedgerPartition(topic=topic_partition.topic, partition=topic_partition.partition)
        )
        if not partition.knows(str(topic_id)):
            self._changed.add(topic_partition)
        return partition.lineage(str(topic_id), first)


def _in_order(frames: Iterable[Frame]) -> list[Frame]:
    came: dict[tuple[str, int, UUID], int] = {}

    def order(frame: Frame) -> tuple[str, int, int, int]:
        number = came.setdefault((frame.topic, frame.partition, frame.topic_id), len(came))
        return frame.topic, frame.partition, number, frame.first

    return sorted(frames, key=order)


def within(batches: Iterable[Batch], new: list[Span]) -> Iterator[Batch]:
    """Return the part of the batches within these offsets, in whole batches where it can be."""
    for batch in batches:
        if any(first <= batch.base_offset and batch.last_offset <= last for first, last in new):
            yield batch
            continue
        for first, last in new:
            if (kept := cut(batch, Window(start=first, stop=last + 1))) and kept.count:
                yield kept
