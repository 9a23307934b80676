"""A snapshot of a store as an end of a comparison: its ranges, and the records in its segments."""

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from xxhash import xxh3_64_intdigest

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches import bodies, varints
from aqueduct.kafka.batches.batch import Batch, damaged
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile.digest import RecordColumns, RecordHeader
from aqueduct.store.manifest import InstanceState, Segment, StoredPartition
from aqueduct.store.snapshots import Snapshot

Partitions = Mapping[TopicPartition, tuple[Range, tuple[Segment, ...]]]


@dataclass(frozen=True, kw_only=True)
class StoredEnd:
    """A snapshot's ACTIVATE instances: of each partition the offsets it covers and the segments with records.

    Its keys, where it is encrypted, are lent before it is read.
    """

    role: str  # what sentences call it
    url: str
    snapshot: int
    partitions: Partitions

    def __str__(self) -> str:
        return f"{self.role} {self.url}, snapshot {self.snapshot}"

    @classmethod
    def of(cls, role: str, url: str, snapshot: Snapshot) -> "StoredEnd":
        partitions: dict[TopicPartition, tuple[Range, tuple[Segment, ...]]] = {}
        manifest = snapshot.manifest
        for topic in snapshot.topics.values():
            active = [
                instance.number for instance in topic.instances if instance.state is InstanceState.ACTIVATE
            ]
            for number in active[-1:]:
                lineage = topic.name, number
                for partition in snapshot.partitions(*lineage):
                    topic_partition = TopicPartition(topic.name, partition.partition)
                    start = max(manifest.starts[lineage][partition.partition], 0)
                    stop = max(manifest.positions[lineage][partition.partition], start)
                    segments = tuple(segment for segment in _segments(snapshot, partition) if segment.records)
                    partitions[topic_partition] = Range(*topic_partition, start, stop), segments
        return cls(role=role, url=url, snapshot=manifest.number, partitions=partitions)

    def counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        count_by_topic: dict[str, int] = {}
        for topic, _ in self.partitions:
            count_by_topic[topic] = count_by_topic.get(topic, 0) + 1
        return count_by_topic

    def ranges(self, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Range]:
        return {partition: self.partitions[partition][0] for partition in asked}

    def split(self, whole: Range, offsets: int) -> Iterator[Range]:
        """Yield neighbouring ranges of at least so many offsets but for the last one.

        They end where segments do, so that none is read twice.
        """
        start = whole.start
        for segment in self.partitions[whole.topic_partition][1]:
            if start < segment.stop < whole.stop and segment.stop - start >= offsets:
                yield replace(whole, start=start, stop=segment.stop)
                start = segment.stop
        if start < whole.stop:
            yield replace(whole, start=start)

    def unpacked_bytes(self, whole: Range) -> int:
        """Return the bytes of a partition's segments that have records of the range."""
        segments = self.partitions[whole.topic_partition][1]
        return sum(
            segment.unpacked_bytes
            for segment in segments
            if whole.start < segment.stop and segment.start < whole.stop
        )

    def only(self, ranges: Iterable[Range]) -> "StoredEnd":
        """Return the end with no more than the segments of these ranges, for a task."""
        kept = {}
        for task_range in ranges:
            covered, segments = self.partitions[task_range.topic_partition]
            within = (one for one in segments if one.stop > task_range.start and one.start < task_range.stop)
            kept[task_range.topic_partition] = covered, tuple(within)
        return replace(self, partitions=kept)


def _segments(snapshot: Snapshot, partition: StoredPartition) -> Sequence[Segment]:
    return snapshot.segments.get(partition, ())


ComparedEnd = End | StoredEnd


def address(end: ComparedEnd) -> str:
    """Return what a report calls an end."""
    return end.bootstrap_servers if isinstance(end, End) else f"{end.url}#{end.snapshot}"


def narrowed(end: ComparedEnd, ranges: Iterable[Range]) -> ComparedEnd:
    """Return what a task that reads these ranges must know of an end."""
    return end.only(ranges) if isinstance(end, StoredEnd) else end


def columns(
    batches: Sequence[Batch], payloads: Sequence[bytes], whole: Range, header: RecordHeader | None
) -> RecordColumns:
    """Return the records of batches that are in the range, as a client of Kafka would be given them.

    `payloads`: the batches' content, unpacked. Damaged where they are no records.
    """
    places = RecordPlaces.of(batches, payloads)
    array = np.frombuffer(places.data, np.uint8)
    try:
        fields = []
        field_starts = places.begins
        for _ in ("key", "value"):
            begins, ends, null = varints.fields(array, field_starts)
            field: list[bytes | None] = list(
                map(places.data.__getitem__, map(slice, begins.tolist(), ends.tolist()))
            )
            for record in np.flatnonzero(null).tolist():
                field[record] = None
            fields.append(field)
            field_starts = ends
        headers: list[list[tuple[str, bytes | None]] | None] = [None] * len(field_starts)
        for record in np.flatnonzero(array[field_starts] != 0).tolist():  # the number of headers, as a varint
            body = places.data[places.begins[record] : places.ends[record]]
            headers[record] = [(name.decode(errors="replace"), value) for name, value in bodies.headers(body)]
    except (IndexError, ValueError):
        raise damaged(batches[0], "a record in it, or in one of the next, ends before its value") from None
    if (field_starts > places.ends).any():
        raise damaged(batches[0], "a record in it, or in one of the next, ends before its headers")
    kept = (places.offsets >= whole.start) & (places.offsets < whole.stop)
    if header:
        kept &= np.fromiter(
            (header in (record_headers or ()) for record_headers in headers), np.bool_, len(headers)
        )
    dumped = map(marshal.dumps, zip(*fields, headers, strict=True), repeat(2))  # as RecordColumns.of
    contents = np.fromiter(map(xxh3_64_intdigest, dumped), np.uint64, len(headers))
    return RecordColumns(
        contents=contents[kept], times=places.times[kept], offsets=places.offsets[kept], append_times=0
    )
