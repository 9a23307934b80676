"""Reads Avro values into a table's columns: each by the schema of its writer, declared or in a registry."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from aqueduct.kafka.batches.varints import Bytes, Mask, Numbers
from aqueduct.land import avro_schema, columns
from aqueduct.land.avro_data import PADDING, AvroData, WantedFields
from aqueduct.land.avro_schema import RecordType, Unasked, WrongSchema
from aqueduct.land.declaration import Column
from aqueduct.land.json_blocks import ReadRecords, WrongRecord

BLOCK = 10_000  # records: their bytes stay near while field after field is read
HEADER = struct.Struct(">BI")  # of Confluent's wire format: 0, and the schema's id
MAGIC = 0

Find = Callable[[int], RecordType]  # of a schema by its id; WrongSchema if there is none that can be used


def no_registry(_: int) -> RecordType:
    """Find none: the schemas of tables without a registry, and of commands that read no records."""
    raise WrongSchema("no schema registry is used")


def landed(of: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns as they are taken of what AvroReader has read: by their own names."""
    return tuple(replace(column, path=(column.name,)) if column.of_value else column for column in of)


class AvroReader:
    """A reader of Avro's values into columns, which have their types already."""

    def __init__(
        self, of: Sequence[Column], schema: RecordType | None = None, find: Find = no_registry
    ) -> None:
        """Read by one schema; or, without one, by that which `find` has for the id before each value."""
        self._columns = tuple(column for column in of if column.of_value)
        self._find = find
        self._one = _Writer.of(schema, self._columns) if schema else None
        self._known: dict[int, _Writer | str] = {}
        self.wanted = pa.schema([(column.name, column.type) for column in self._columns])

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Read a batch of records, none of them null."""
        reasons: dict[int, str] = {}
        tables, records = [self.wanted.empty_table()], [np.empty(0, np.int64)]
        for first in range(0, len(values), BLOCK):
            buffer, begins, ends = _bytes(values.slice(first, BLOCK))
            for writer, rows in self._by_writer(buffer, begins, ends):
                if isinstance(writer, str):
                    reasons |= dict.fromkeys((first + rows).tolist(), writer)
                    continue
                header = 0 if self._one else HEADER.size
                part = AvroData(bytes=buffer, at=begins[rows] + header, ends=ends[rows])
                arrays, right = writer.read(part)
                reasons |= {first + int(rows[row]): reason for row, reason in part.why.items()}
                if self._columns:
                    tables.append(pa.table(arrays, schema=self.wanted).filter(pa.array(right)))
                records.append(first + rows[right])
        of = np.concatenate(records)
        faults = tuple(WrongRecord(index, reasons[index]) for index in sorted(reasons))
        return ReadRecords(table=pa.concat_tables(tables), rows=np.arange(len(of)), records=of, faults=faults)

    def _by_writer(
        self, buffer: Bytes, begins: Numbers, ends: Numbers
    ) -> Iterator[tuple["_Writer | str", Numbers]]:
        """Yield rows of the same writer, or why they can't be read."""
        rows = np.arange(len(begins))
        if self._one:
            yield self._one, rows
            return
        headed = (ends - begins >= HEADER.size) & (buffer[begins] == MAGIC)
        yield (
            ("it does not begin with the byte 0 and a schema id, as records with a schema registry do"),
            rows[~headed],
        )
        rows = rows[headed]
        ids = buffer[begins[rows][:, None] + np.arange(1, HEADER.size)].view(">u4").reshape(len(rows))
        # Those of most records first, so that invented ids do not use up what may be asked for.
        unique_ids, counts = np.unique(ids, return_counts=True)
        unasked, reason = [], ""
        for id_ in unique_ids[np.argsort(-counts, kind="stable")].tolist():
            try:
                yield self._writer(id_), rows[ids == id_]
            except Unasked as error:
                unasked.append(id_)
                reason = str(error)
        if unasked:
            yield reason, rows[np.isin(ids, unasked)]

    def _writer(self, id_: int) -> "_Writer | str":
        if id_ not in self._known:
            try:
                self._known[id_] = _Writer.of(self._find(id_), self._columns)
            except Unasked:
                raise
            except WrongSchema as error:
                self._known[id_] = f"schema {id_}: {error}"
        return self._known[id_]


@dataclass(frozen=True)
class _Writer:
    """A writer's schema, whose fields fit the columns."""

    schema: RecordType
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, schema: RecordType, table_columns: tuple[Column, ...]) -> "_Writer":
        """Judge a schema; WrongSchema if one of its fields does not fit its column."""
        fields = [avro_schema.at(schema, column.path) for column in table_columns]
        if table_columns and not any(fields):
            raise WrongSchema("it has no field of the columns")
        for column, field_schema in zip(table_columns, fields, strict=True):
            if field_schema and (reason := avro_schema.unfit(field_schema, column.type, column.unit)):
                raise WrongSchema(f"{column.origin}: {reason}")
        return cls(schema, table_columns)

    def read(self, records: AvroData) -> tuple[list[pa.Array], Mask]:
        """Read a row each; return the columns, and which rows are right; `records.why` is of the others."""
        rows = len(records.at)
        fields_by_name = records.read(self.schema, WantedFields.of(self.columns))
        arrays, fits = [], records.right
        for column in self.columns:
            values = (
                fields_by_name[column.name] if column.name in fields_by_name else pa.nulls(rows, column.type)
            )
            array, right, reasons = columns.fit(values, column)
            for row, reason in reasons.items():
                records.why.setdefault(row, reason)
            arrays.append(array)
            fits = fits & right
        return arrays, fits


def _bytes(values: pa.BinaryArray) -> tuple[Bytes, Numbers, Numbers]:
    """Return the bytes of values, with PADDING behind, and where each begins and ends."""
    _, offsets, buffer = values.buffers()
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    places = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first, last = int(places[0]), int(places[-1])
    text = np.zeros(last - first + PADDING, np.uint8)
    if buffer:
        text[: last - first] = np.frombuffer(buffer, np.uint8)[first:last]
    return text, places[:-1] - first, places[1:] - first
