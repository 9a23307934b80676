"""Rows of a table, and of its bad table, out of records."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.varints import Mask, Numbers
from aqueduct.land import avro_schema, columns, orc_times, times, types
from aqueduct.land.avro_values import AvroReader, Find, landed, no_registry
from aqueduct.land.declaration import HEADER, KEY, TIMESTAMP, VALUE, Column, Format, LandTable, TableKind
from aqueduct.land.delimited import DelimitedReader
from aqueduct.land.json_blocks import JsonReader, ReadRecords
from aqueduct.land.records import RecordArrays
from aqueduct.land.text_conversion import mask, stripped

# What every table begins with: where in Kafka a row comes from.
OWN = (
    pa.field("k_topic", pa.string()),
    pa.field("k_partition", pa.int32()),
    pa.field("k_offset", pa.int64()),
    pa.field("k_timestamp", types.TIMESTAMP),
)
BAD = pa.schema([*OWN, ("error", pa.string()), ("value", pa.binary()), ("key", pa.binary())])
TOMBSTONE = pa.field("k_tombstone", pa.bool_())

NO_TIME = -1  # Kafka's word for none


def schema(table: LandTable) -> pa.Schema:
    """Return the columns of a table's files."""
    tombstone = [TOMBSTONE] if table.keeps_tombstones else []
    return pa.schema([*OWN, *(pa.field(column.name, column.type) for column in table.columns), *tombstone])


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """The rows of some records, in the order of their offsets."""

    table: pa.Table
    days: pa.Array | None  # date32, of each row; null: it has no time. None: the table has no partitions
    bad: pa.Table
    tombstones: int  # that are left out
    late: Mask | None = None  # rows for the table of late records; None: there is no such table
    filtered: pa.Table | None = None  # where what does not land comes from; None: all does

    @property
    def valued(self) -> int:
        """How many rows are not tombstones."""
        if TOMBSTONE.name not in self.table.column_names:
            return int(self.table.num_rows)
        return int(self.table.num_rows) - (pc.sum(self.table.column(TOMBSTONE.name)).as_py() or 0)

    @property
    def on_time(self) -> int:
        """How many rows are not late."""
        return int(self.table.num_rows) - (0 if self.late is None else int(self.late.sum()))


class RowReader:
    """The reader of records into one table's rows."""

    def __init__(self, table: LandTable, find: Find = no_registry, *, orc: bool = True) -> None:
        """Prepare to read; `find` has the schemas of a table with a registry.

        A row with a time that a file of ORC can't have is a bad one, unless no such file comes of it.
        """
        self._table = table
        self._kind = table.kind if orc else None
        self._schema = schema(table)
        self._reader = _reader(table, find)
        self._columns = landed(table.columns) if isinstance(self._reader, AvroReader) else table.columns
        self._fields: list[str] = self._reader.wanted.names

    def read(self, partition: TopicPartition, records: RecordArrays) -> TableRows:
        """Read records of a partition: each is a row, a bad row, or a tombstone that is left out."""
        has_value = records.values.is_valid().to_numpy(zero_copy_only=False)
        valued, tombstones = np.flatnonzero(has_value), np.flatnonzero(~has_value)
        values = records.values.take(valued) if len(tombstones) else records.values
        read = self._reader.read(stripped(values, self._table.strips))
        reason_by_record = {int(valued[fault.index]): fault.reason for fault in read.faults}
        # Of each record its row in what was read, -1 where it has none.
        row_of = np.full(len(records), -1)
        row_of[valued[read.records]] = read.rows
        readable = row_of >= 0
        if self._table.keeps_tombstones:
            readable |= ~has_value
        chosen = np.flatnonzero(readable)
        picked = pa.array(row_of[chosen], mask=row_of[chosen] < 0)
        fields = {name: read.table.column(name).combine_chunks().take(picked) for name in self._fields}
        fields |= {name: values.take(chosen) for name, values in self._of_records(records).items()}
        arrays, fits, misfits = columns.fitted(fields, self._columns, len(chosen))
        if self._kind:
            for column, values in zip(self._columns, arrays, strict=True):
                _note_unwritable(column, values, self._kind, fits, misfits)
        own = _own(partition, records, chosen, self._kind)
        if self._table.keeps_tombstones:
            arrays.append(pa.array(~has_value[chosen]))
        rows = pa.table([*own, *arrays], schema=self._schema)
        days = days_of(self._table, rows, fits, misfits)
        reason_by_record |= {int(chosen[row]): reason for row, reason in misfits.items()}
        if misfits:
            kept = pa.array(fits)
            rows, days = rows.filter(kept), days.filter(kept) if days is not None else None
        left_out = 0 if self._table.keeps_tombstones else len(tombstones)
        return TableRows(
            table=rows,
            days=days,
            bad=_bad(partition, records, reason_by_record, self._kind),
            tombstones=left_out,
            late=late_of(self._table, rows, days),
        )

    def _of_records(self, records: RecordArrays) -> dict[str, pa.Array]:
        """Return what columns take from elsewhere than the value, by its name in the declaration."""
        array_by_name: dict[str, pa.Array] = {}
        for column in self._table.columns:
            name = column.path[0]
            if name == KEY:
                array_by_name[name] = records.keys
            elif name == VALUE:
                array_by_name[name] = records.values
            elif name == TIMESTAMP:
                array_by_name[name] = pa.array(records.times, pa.int64(), mask=records.times == NO_TIME)
            elif name.startswith(HEADER):
                array_by_name[name] = records.header(name.removeprefix(HEADER).encode())
        return array_by_name


def _note_unwritable(
    column: Column, values: pa.Array, kind: TableKind, fits: Mask, misfits: dict[int, str]
) -> None:
    """Note which rows have a time that a file of ORC can't have; they fit no more."""
    for reason, wrong in orc_times.unwritable_rows(values, iceberg=kind is TableKind.ICEBERG).items():
        for row in np.flatnonzero(fits & wrong).tolist():
            misfits[row] = f"{column.origin} {reason}"
            fits[row] = False


def days_of(table: LandTable, rows: pa.Table, fits: Mask, misfits: dict[int, str]) -> pa.Array | None:
    """Return the day of each row; None: the table has no partitions.

    A row that fitted till now, and whose day can't be, is no fit any more, and why is noted.
    """
    by = table.partitioned_by
    if by is None:
        return None
    instants, has_time = _instants(rows.column(by.of.name))
    day_numbers = times.to_days(instants, by.of.zone)
    days = pa.array(day_numbers.astype(np.int32), pa.int32(), mask=~has_time).view(pa.date32())
    for row in np.flatnonzero(fits & times.beyond_years(days)).tolist():
        misfits[row] = f"{by.of.origin} is on a day outside of the years 1 to 9999 in its zone"
        fits[row] = False
    return days


def late_of(table: LandTable, rows: pa.Table, days: pa.Array | None) -> Mask | None:
    """Return which rows came when their days took none any more; None: there is no table of such rows.

    Nothing but Kafka's time of the record tells it, so a record that lands again goes where it was.
    """
    if table.late is None or table.partitioned_by is None or days is None:
        return None
    came, has_time = _instants(rows.column("k_timestamp"))
    # The first day that took it.
    taken = times.to_days(came - table.late.after * times.SECOND, table.partitioned_by.of.zone)
    own = days.view(pa.int32())
    late: Mask = has_time & mask(own.is_valid()) & (taken > own.fill_null(0).to_numpy())
    return late


class ValueReader(Protocol):
    """A reader of values into the fields that a table's columns need."""

    @property
    def wanted(self) -> pa.Schema: ...

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Read a batch of records, none of them null."""


class _RawReader:
    """The reader of values that nobody looks into."""

    wanted = pa.schema([])

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        every = np.arange(len(values))
        return ReadRecords(table=self.wanted.empty_table(), rows=every, records=every, faults=())


def _reader(table: LandTable, find: Find) -> ValueReader:
    if table.format is Format.RAW:
        return _RawReader()
    if table.delimited:
        of = table.delimited
        return DelimitedReader(of.fields, columns.text_schema(table.columns), of.delimiter, of.quote)
    if table.avro:
        return AvroReader(table.columns, avro_schema.parse(table.avro))
    if table.registry:
        return AvroReader(table.columns, find=find)
    return JsonReader(columns.json_schema(table.columns))


def _instants(moments: pa.ChunkedArray) -> tuple[Numbers, Mask]:
    """Return timestamps in microseconds since 1970, and which are there."""
    whole = moments.combine_chunks()
    return whole.view(pa.int64()).fill_null(0).to_numpy(), mask(whole.is_valid())


def _own(
    partition: TopicPartition, records: RecordArrays, chosen: Numbers, kind: TableKind | None
) -> list[pa.Array]:
    return [
        pa.repeat(pa.scalar(partition.topic), len(chosen)),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), len(chosen)),
        pa.array(records.offsets[chosen]),
        _timestamps(records, kind).take(chosen),
    ]


def _timestamps(records: RecordArrays, kind: TableKind | None) -> pa.Array:
    """Return Kafka's times; null where it has none, or one that a timestamp can't have."""
    instants, right = times.epochs(records.times, "ms")
    right &= records.times != NO_TIME
    if kind:
        moments = pa.array(instants).view(types.TIMESTAMP)
        for wrong in orc_times.unwritable(moments, iceberg=kind is TableKind.ICEBERG).values():
            right &= ~wrong
    return pa.array(instants, pa.int64(), mask=~right).view(types.TIMESTAMP)


def _bad(
    partition: TopicPartition, records: RecordArrays, reason_by_record: dict[int, str], kind: TableKind | None
) -> pa.Table:
    chosen = np.array(sorted(reason_by_record), np.int64)
    errors = pa.array([reason_by_record[record] for record in chosen.tolist()], pa.string())
    rest = [errors, records.values.take(chosen), records.keys.take(chosen)]
    return pa.table([*_own(partition, records, chosen, kind), *rest], schema=BAD)
