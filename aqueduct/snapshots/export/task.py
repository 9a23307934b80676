"""One task of an export: it reads segments, writes files, and finally writes a list of them."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from aqueduct.common import strict_json
from aqueduct.common.wording import count
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, Unopened, unpack
from aqueduct.kafka.batches.header_positions import MOST_HEADERS
from aqueduct.kafka.requests import in_lists
from aqueduct.land import registry
from aqueduct.land.avro_values import no_registry
from aqueduct.snapshots.export import state
from aqueduct.snapshots.export.files import FileMaker, MadeFile
from aqueduct.snapshots.export.plan import ExportPart, ExportShare
from aqueduct.snapshots.export.rows import BAD_ROWS, DeclaredRows, KafkaRows, StoredRecords
from aqueduct.snapshots.export.state import Counts, ExportedFile, ShareDone, Unread
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.objects import Objects
from aqueduct.work.progress import MEGABYTE, Size

READ_BYTES = 10 << 20  # of records or of one batch at a time: they are in memory several times
RECORD_BYTES = 1_000  # the minimum that a record counts
NAMED = 20  # skipped batches and records of a part that are listed; the others are only counted

BYTES: Size[ExportShare] = Size("MB, unpacked", lambda share: share.unpacked_bytes, MEGABYTE)


def export_share(share: ExportShare) -> ShareDone:
    """Write the files of a share and a list of them. A repeated task writes the same files again."""
    source, target = open_store(share.store), open_store(share.to)
    done_parts = [_PartExport(share, part, source, target).run() for part in share.parts]
    whole = ShareDone(
        tuple(file for part in done_parts for file in part.files),
        tuple(counts for part in done_parts for counts in part.counts),
        tuple(unread for part in done_parts for unread in part.left_out),
    )
    target.create(state.share_path(share.number), strict_json.dumps(whole))
    return whole


def _weight(unpacked: tuple[Batch, bytes]) -> int:
    batch, payload = unpacked
    return max(len(payload), RECORD_BYTES * batch.count)


class _PartExport:
    """The export of one part to files."""

    def __init__(self, share: ExportShare, part: ExportPart, source: Objects, target: Objects) -> None:
        self._share = share
        self._part = part
        self._source = source
        self._target = target
        table = share.tables.get(part.partition.topic)
        of = table.registry if table else None
        find = partial(registry.schema, of) if of else no_registry
        self._reader = DeclaredRows(table, find) if table else KafkaRows()
        self._counts = Counts(*part.partition)
        self._files: list[ExportedFile] = []
        self._left_out: list[Unread] = []
        self._named = 0  # records that left_out lists

    def run(self) -> ShareDone:
        rows, bad = self._maker(self._reader.schema, bad=False), self._maker(BAD_ROWS, bad=True)
        try:
            for records in self._records():
                converted = self._reader.read(self._part.partition, records)
                self._count(converted.table.num_rows, converted.bad.num_rows, converted.tombstones)
                self._write(rows.add(converted.table), bad=False)
                self._write(bad.add(converted.bad), bad=True)
        except Failed as error:
            raise error.concerning(self._part.partition) from error
        self._write(rows.end(), bad=False)
        self._write(bad.end(), bad=True)
        if more := self._counts.unread - self._named:
            subject = f"{count(more, 'more record')} of {self._part.partition}"
            self._left_out.append(Unread(subject, "for the same reasons"))
        return ShareDone(tuple(self._files), (self._counts,), tuple(self._left_out))

    def _maker(self, schema: pa.Schema, *, bad: bool) -> FileMaker:
        offset = "offset" if "offset" in schema.names else "k_offset"
        name = f"{self._part.partition} {bad}".encode()
        return FileMaker(self._share.format, schema, offset, hashlib.sha256(name).digest())

    def _write(self, files: Iterable[MadeFile], *, bad: bool) -> None:
        topic, partition = self._part.partition
        for file in files:
            path = state.file_path(topic, partition, file.first, self._share.format, bad=bad)
            self._target.create(path, file.data)
            digest = hashlib.sha256(file.data).hexdigest()
            size = len(file.data)
            made = ExportedFile(
                path, topic, partition, file.first, file.last, file.records, size, digest, bad
            )
            self._files.append(made)

    def _records(self) -> Iterator[StoredRecords]:
        """Yield the records inside the time window."""
        for some in in_lists(self._batches(), READ_BYTES, _weight):
            batches, payloads = zip(*some, strict=True)
            records = StoredRecords.of(batches, payloads)
            window = self._share.window
            times = records.arrays.times
            inside = (window.first_time <= times) & (times <= window.last_time)
            self._count(outside=int((~inside).sum()))
            records = records.where(inside)
            if records.too_many.any():
                self._leave_out_records(records)
                records = records.where(~records.too_many)
            if len(records):
                yield records

    def _batches(self) -> Iterator[tuple[Batch, bytes]]:
        """Yield decompressed batches that may have records inside the time window."""
        for segment in self._part.segments:
            stored = segments.read(self._source, segment)
            for batch in segments.batches(segment, stored, check_crc=False):  # its SHA-256 was checked
                if not batch.count or batch.control:
                    continue
                if batch.max_time < self._share.window.first_time:
                    self._count(outside=batch.count)
                    continue
                try:
                    yield batch, unpack(batch)
                except Unopened as error:
                    self._leave_out(batch.base_offset, batch.last_offset, batch.count, str(error))

    def _leave_out_records(self, records: StoredRecords) -> None:
        reason = f"it has more than {MOST_HEADERS:,} headers"
        offsets = records.arrays.offsets[np.flatnonzero(records.too_many)].tolist()
        for offset in offsets:
            self._leave_out(offset, offset, 1, reason)

    def _leave_out(self, first: int, last: int, records: int, reason: str) -> None:
        self._count(unread=records)
        if len(self._left_out) == NAMED:
            return
        self._named += records
        subject = (
            f"offsets {first} to {last} of {self._part.partition}"
            if last > first
            else (f"offset {first} of {self._part.partition}")
        )
        self._left_out.append(Unread(subject, f"{count(records, 'record')}: {reason.rstrip('.')}"))

    def _count(
        self, rows: int = 0, bad: int = 0, tombstones: int = 0, outside: int = 0, unread: int = 0
    ) -> None:
        more = Counts(*self._part.partition, rows, bad, tombstones, outside, unread)
        self._counts = self._counts.plus(more)
