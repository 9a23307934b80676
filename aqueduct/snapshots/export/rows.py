"""Conversion of records to rows: with the columns of Spark's Kafka source, or of a declared table.

The default columns have the names and types of Spark's Kafka source, so that a job for the topic can also
read its export. A record that does not match its columns becomes a rejected row, with all its fields and the
reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import Batch, damaged
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Mask
from aqueduct.land import rows as land_rows
from aqueduct.land.avro_values import Find
from aqueduct.land.declaration import LandTable, TableKind
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import NO_TIME, RowReader
from aqueduct.land.text_conversion import are_text
from aqueduct.land.times import epochs
from aqueduct.snapshots.export import headers
from aqueduct.snapshots.export.headers import RAW

INSTANT = pa.timestamp("ms", "UTC")
TEXT_HEADERS = pa.list_(
    pa.field("item", pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())]), False)
)
_required = partial(pa.field, nullable=False)
KAFKA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        _required("topic", pa.string()),
        _required("partition", pa.int32()),
        _required("offset", pa.int64()),
        pa.field("timestamp", INSTANT),
        _required("timestampType", pa.int32()),  # 0: set by the producer, 1: by the broker
        _required("headers", TEXT_HEADERS),
    ]
)
BAD_ROWS = pa.schema(
    [
        _required("topic", pa.string()),
        _required("partition", pa.int32()),
        _required("offset", pa.int64()),
        _required("timestamp", pa.int64()),  # milliseconds since 1970, -1 for none, as in Kafka
        _required("timestampType", pa.int32()),
        _required("error", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        _required("headers", RAW),
    ]
)
WRONG_TIME = "its timestamp is outside the years 1 to 9999"
WRONG_HEADER = "the name of a header is not valid UTF-8"


@dataclass(frozen=True)
class ExportRows:
    """The rows of records, in the order of their offsets."""

    table: pa.Table
    bad: pa.Table  # of BAD_ROWS
    tombstones: int = 0  # number of skipped tombstones


@dataclass(frozen=True, kw_only=True)
class StoredRecords:
    """Records of a store, with their headers."""

    arrays: RecordArrays
    types: Mask  # records with the broker's timestamp (LogAppendTime)
    headers: pa.ListArray  # of RAW
    too_many: Mask  # records with more headers than the limit

    @classmethod
    def of(cls, batches: Sequence[Batch], payloads: Sequence[bytes]) -> "StoredRecords":
        """Read the records of decompressed batches; Damaged if the bytes are invalid."""
        places = RecordPlaces.of(batches, payloads)
        arrays = RecordArrays.at(places, batches)
        try:
            read = headers.read(places)
        except (IndexError, ValueError) as error:
            raise damaged(batches[0], f"in it, or in one of the next, {error}") from None
        types = np.repeat([batch.log_append_time for batch in batches], [batch.count for batch in batches])
        return cls(arrays=arrays, types=types, headers=read.lists, too_many=read.too_many)

    def __len__(self) -> int:
        return len(self.arrays)

    def where(self, keep: Mask) -> "StoredRecords":
        if keep.all():
            return self
        chosen = self.headers.filter(pa.array(keep))
        return StoredRecords(
            arrays=self.arrays.where(keep),
            types=self.types[keep],
            headers=chosen,
            too_many=self.too_many[keep],
        )


def schema(table: LandTable | None) -> pa.Schema:
    """Return the columns of a topic's files: those of its table, or of Spark's Kafka source."""
    if table is None:
        return KAFKA
    return pa.schema([field.with_type(_instants(field.type)) for field in land_rows.schema(table)])


def plain(table: LandTable) -> LandTable:
    """Return a table without the parts that only a landing uses: days, late rows, the metastore."""
    return replace(table, partitioned_by=None, late=None, kind=TableKind.HIVE)


def _instants(type_: pa.DataType) -> pa.DataType:
    """Return timestamp types with a time zone, which all readers treat alike; other types unchanged."""
    if pa.types.is_list(type_):
        return pa.list_(_instants(type_.value_type))
    return pa.timestamp(type_.unit, "UTC") if pa.types.is_timestamp(type_) else type_


class KafkaRows:
    """The conversion of records to the columns of Spark's Kafka source."""

    schema = KAFKA

    def read(self, partition: TopicPartition, records: StoredRecords) -> ExportRows:
        arrays = records.arrays
        _, timely = epochs(arrays.times, "ms")
        timely |= arrays.times == NO_TIME
        named = _named(records.headers)
        if not (timely & named).all():
            reason_by_row = {int(row): WRONG_TIME for row in np.flatnonzero(~timely)}
            reason_by_row |= {int(row): WRONG_HEADER for row in np.flatnonzero(~named)}
            return ExportRows(
                self._table(partition, records.where(timely & named)), _bad(partition, records, reason_by_row)
            )
        return ExportRows(self._table(partition, records), BAD_ROWS.empty_table())

    def _table(self, partition: TopicPartition, records: StoredRecords) -> pa.Table:
        arrays = records.arrays
        times = pa.array(arrays.times, pa.int64(), mask=arrays.times == NO_TIME).cast(INSTANT)
        content = [arrays.keys, arrays.values, *_place(partition, records), times, _types(records)]
        return pa.table([*content, records.headers.cast(TEXT_HEADERS)], schema=KAFKA)


class DeclaredRows:
    """The conversion of records to the columns of a declared table."""

    def __init__(self, table: LandTable, find: Find) -> None:
        """Prepare the reader. `find` returns schemas for a table with a schema registry."""
        self.schema = schema(table)
        self._reader = RowReader(plain(table), find, orc=False)

    def read(self, partition: TopicPartition, records: StoredRecords) -> ExportRows:
        table_rows = self._reader.read(partition, records.arrays)
        places = np.searchsorted(records.arrays.offsets, table_rows.bad.column("k_offset").to_numpy())
        reason_by_row = dict(zip(places.tolist(), table_rows.bad.column("error").to_pylist(), strict=True))
        return ExportRows(
            table_rows.table.cast(self.schema), _bad(partition, records, reason_by_row), table_rows.tombstones
        )


def _named(lists: pa.ListArray) -> Mask:
    """Return which records have only header names in valid UTF-8."""
    names = lists.flatten().field("key")
    named = np.ones(len(lists), np.bool_)
    if not (text := are_text(names)).all():
        named[pc.list_parent_indices(lists).to_numpy()[~text]] = False
    return named


def _place(partition: TopicPartition, records: StoredRecords) -> list[pa.Array]:
    return [
        pa.repeat(pa.scalar(partition.topic), len(records)),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), len(records)),
        pa.array(records.arrays.offsets),
    ]


def _types(records: StoredRecords) -> pa.Array:
    return pa.array(records.types.astype(np.int32))


def _bad(partition: TopicPartition, records: StoredRecords, reason_by_row: dict[int, str]) -> pa.Table:
    if not reason_by_row:
        return BAD_ROWS.empty_table()
    keep = np.zeros(len(records), np.bool_)
    keep[list(reason_by_row)] = True
    bad = records.where(keep)
    arrays = bad.arrays
    errors = pa.array([reason_by_row[row] for row in sorted(reason_by_row)])
    content = [*_place(partition, bad), pa.array(arrays.times), _types(bad), errors]
    return pa.table([*content, arrays.keys, arrays.values, bad.headers], schema=BAD_ROWS)
