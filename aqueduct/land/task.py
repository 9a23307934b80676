"""One task of a landing: ranges of topics in, files out, which nobody sees before their commit."""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from uuid import UUID

import pyarrow as pa
from kafka.errors import KafkaError

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka import fetch
from aqueduct.kafka.batches.batch import Batch, Unopened, unpack
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import in_lists
from aqueduct.land import registry, table_log
from aqueduct.land.avro_values import no_registry
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import RowBuffer
from aqueduct.land.log import AddedFile, Staging
from aqueduct.land.plan import ReadRange, UnopenedRange
from aqueduct.land.records import RecordArrays
from aqueduct.land.registry import RegistryAway
from aqueduct.land.rows import RowReader, TableRows
from aqueduct.store.backends import open_store

CLIENT = "aqueduct-land"
FETCH_BYTES = 1 << 20  # of batches, as they are compressed
# Records at once, or one batch: they are in memory several times. So many bytes of an unpacked batch count as
# a record, for small batches may unpack to much: 80 MB at once.
RECORDS = 10_000
RECORD_BYTES = 8_000


@dataclass(frozen=True, kw_only=True)
class LandShare:
    """What one task lands, one range after another."""

    end: End
    location: str
    table: LandTable
    staging: Staging
    share: int  # of the round
    ranges: tuple[Range, ...]
    topic_ids: tuple[str, ...]  # of each range's topic

    def __len__(self) -> int:
        return sum(map(len, self.ranges))


@dataclass(kw_only=True)
class LandedShare:
    """What one task did."""

    table: str
    files: list[AddedFile]
    read: list[ReadRange]
    rows: int = 0
    late: int = 0
    bad: int = 0
    filtered: int = 0  # rows that are left out
    tombstones: int = 0
    valued: int = 0  # rows that are not tombstones
    seen: set[str] = field(default_factory=set)  # columns that are not NULL in all of them
    gaps: tuple[Range, ...] = ()  # that retention deleted meanwhile
    unopened: tuple[UnopenedRange, ...] = ()  # of batches that unpack to too much
    failed: str = ""  # why nothing of it may be committed


def land_share(share: LandShare) -> LandedShare:
    """Read the share's ranges, and stage their rows."""
    writer = ShareWriter(share)
    read = LandedShare(table=share.table.full_name, files=[], read=[])
    try:
        for _, rows in read_share(share, read):
            read.tombstones += rows.tombstones
            writer.add(rows)
    except RegistryAway as error:
        read.failed = str(error)
    return writer.end(read)


def read_share(share: LandShare, landed: LandedShare) -> Iterator[tuple[RecordArrays, TableRows]]:
    """Yield the share's records and their rows; note in `landed` what is lost, and how far it was read."""
    of = share.table.registry
    reader = RowReader(share.table, registry.TaskSchemas(of) if of else no_registry)
    with connect(share.end, CLIENT) as client:
        for planned_range, topic_id in zip(share.ranges, share.topic_ids, strict=True):
            for records in _records(client, planned_range, topic_id, landed):
                yield records, reader.read(planned_range.topic_partition, records)


class ShareWriter:
    """The writer of a share's rows into files, staged as there are enough for one."""

    def __init__(self, share: LandShare) -> None:
        self.share = share
        self._objects = open_store(share.location)
        self._buffer = RowBuffer(share.table)
        self._columns = {column.name for column in share.table.columns}
        self._done = LandedShare(table=share.table.full_name, files=[], read=[])

    def add(self, rows: TableRows) -> None:
        landed = self._done
        landed.rows += rows.on_time
        landed.late += rows.table.num_rows - rows.on_time
        landed.valued += rows.valued
        landed.seen.update(_seen(rows.table, self._columns - landed.seen))
        landed.bad += rows.bad.num_rows
        landed.filtered += rows.filtered.num_rows if rows.filtered is not None else 0
        self._buffer.add(rows)
        if self._buffer.full:
            self._stage()

    def end(self, read: LandedShare) -> LandedShare:
        """Stage the rest; return what was done, with what reading told."""
        landed = replace(
            self._done,
            read=read.read,
            gaps=read.gaps,
            unopened=read.unopened,
            tombstones=read.tombstones,
            failed=read.failed,
        )
        if not landed.failed:
            self._stage()
        return landed

    def _stage(self) -> None:
        share, files = self.share, self._done.files
        for file in self._buffer.files():
            name = share.staging.file_name(share.share, len(files))
            files.append(table_log.stage(self._objects, share.table, share.staging, name, file))


def _seen(rows: pa.Table, columns: Set[str]) -> Iterator[str]:
    return (name for name in columns if rows.column(name).null_count < rows.num_rows)


def _records(
    client: Client, planned_range: Range, topic_id: str, landed: LandedShare
) -> Iterator[RecordArrays]:
    """Yield a range's records; note in `landed` what is lost, and how far it was read."""
    reached, reason, id_ = planned_range.start, "", ""
    unopened: list[UnopenedRange] = []
    pieces = fetch.read(
        client, planned_range, max_bytes=FETCH_BYTES, topic_id=UUID(topic_id), whole_batches=True
    )
    try:
        for piece in pieces:
            if piece.lost:
                landed.gaps += (Range(*planned_range.topic_partition, *piece.lost),)
            for records in read_batches(piece.batches, planned_range, unopened.append):
                yield records
                reached = int(records.offsets[-1]) + 1
            reached = piece.next_offset
    except (Failed, KafkaError) as error:
        reason = str(error).rstrip(".")
        id_ = error.id if isinstance(error, Failed) else "cluster-request-failed"
    landed.read.append(ReadRange(range=planned_range, reached=reached, why=reason, id=id_))
    landed.unopened += tuple(skipped for skipped in unopened if skipped.range.stop <= reached)


def read_batches(
    batches: Iterable[Batch], within: Range, leave_out: Callable[[UnopenedRange], None]
) -> Iterator[RecordArrays]:
    """Yield the records of batches that are inside a range, a bounded part of them at once.

    `leave_out` gets the offsets of each batch that unpacks to too much. Damaged at wrong bytes.
    """
    for some in in_lists(_opened(batches, within, leave_out), RECORDS, _weight):
        of, payloads = zip(*some, strict=True)
        records = RecordArrays.of(of, payloads)
        inside = (within.start <= records.offsets) & (records.offsets < within.stop)
        if not inside.all():  # a batch that reaches beyond the range
            records = records.where(inside)
        if len(records):
            yield records


def _opened(
    batches: Iterable[Batch], within: Range, leave_out: Callable[[UnopenedRange], None]
) -> Iterator[tuple[Batch, bytes]]:
    for batch in batches:
        try:
            yield batch, unpack(batch)
        except Unopened as error:
            first, stop = max(batch.base_offset, within.start), min(batch.last_offset + 1, within.stop)
            if first < stop:
                skipped = Range(*within.topic_partition, first, stop)
                leave_out(UnopenedRange(range=skipped, why=str(error).rstrip(".")))


def _weight(opened: tuple[Batch, bytes]) -> int:
    batch, payload = opened
    return max(batch.count, len(payload) // RECORD_BYTES)
