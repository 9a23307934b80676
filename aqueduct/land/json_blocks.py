"""Reads JSON records block by block, without a step of Python for each: what can't be read is named exactly.

Arrow's reader takes a block for one text, fails it as a whole, and numbers the objects that it found, not
the records. So between two records stands an object that only this process can write, with a number: a block
is taken only if its objects are a record, 0, a record, 1, ... Whatever a record holds, it can't pass for two,
join the next one, or stand in another's place.
"""

import codecs
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from aqueduct.kafka.batches.varints import Numbers
from aqueduct.land.text_conversion import are_text

BYTE_ORDER_MARK = "it begins with a byte order mark; to remove it, declare strip: [bom]"
ZERO_BYTE = "it ends with a zero byte; to remove it, declare strip: [nul]"
BLOCK = 1000  # records: little is read again where one of them is wrong
OBJECT = r"^[\t\n\r ]*\{"
_BROKEN = "JSON parse error: "
# A message of Arrow can hold the whole text of a record. What is left of it, and its row, stand at its ends.
_HEAD, _TAIL = 3000, 100
_ROW = re.compile(r" in row ([0-9]{1,9})\Z")
_CHANGED = re.compile(r"Column\(/?(.*)\) changed from (\w+) to (\w+)", re.DOTALL)
_TWICE = re.compile(r"Column\(/?(.*)\) was specified twice", re.DOTALL)
_NUMBER = re.compile(r"Failed to convert JSON to ([^:,]+)(?:, couldn't parse)?: ?(.*)", re.DOTALL)
_DECIMAL = re.compile(
    r"Failed to convert JSON to decimal\d+\(\d+, -?\d+\): (.*) requires [a-z]+ \d+", re.DOTALL
)
_NO_DECIMAL = re.compile(
    r"(?:The string '(.*)' is not a valid|Empty string cannot be converted to) decimal\w*(?: number)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class WrongRecord:
    """A record that can't be read."""

    index: int  # in the batch that was read
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReadRecords:
    """What was read of a batch: `rows` of the table are its records `records`; other rows are nobody's."""

    table: pa.Table
    rows: Numbers
    records: Numbers
    faults: tuple[WrongRecord, ...]


class JsonReader:
    """A reader of JSON objects into the fields of a schema; other fields are passed over."""

    def __init__(self, schema: pa.Schema) -> None:
        """Prepare to read this schema's fields, whose types are those that JSON has."""
        self.wanted = schema
        self._key = f"~{secrets.token_hex(8)}"
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([*schema, (self._key, pa.int64())]),
            unexpected_field_behavior="ignore",
        )
        self._marks = pa.array([b'\n{"%s":%d}\n' % (self._key.encode(), n) for n in range(BLOCK)])

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Read a batch of records, none of them null."""
        objects = _begins_as_object(values)
        faults = [
            WrongRecord(int(index), _no_object(values[int(index)].as_py()))
            for index in np.flatnonzero(~objects)
        ]
        right = np.flatnonzero(objects)
        tables: list[pa.Table] = []
        records: list[Numbers] = []
        for first in range(0, len(right), BLOCK):
            indices = right[first : first + BLOCK]
            some = values if len(indices) == len(values) else values.take(pa.array(indices))
            block = _JsonBlock(pc.binary_join_element_wise(some, self._marks[: len(some)], b""))
            for part in self._parts(block, 0, len(some)):
                if isinstance(part, WrongRecord):
                    faults.append(WrongRecord(int(indices[part.index]), part.reason))
                else:
                    table, begin, end = part
                    tables.append(table)
                    records.append(indices[begin:end])
        count = sum(map(len, records))
        return ReadRecords(
            table=pa.concat_tables(tables).select(self.wanted.names) if tables else self.wanted.empty_table(),
            rows=np.arange(0, 2 * count, 2),
            records=np.concatenate(records) if records else np.empty(0, np.int64),
            faults=tuple(sorted(faults, key=lambda fault: fault.index)),
        )

    def _parts(
        self, block: "_JsonBlock", begin: int, end: int
    ) -> Iterator[tuple[pa.Table, int, int] | WrongRecord]:
        """Yield what was read of a part, in order, and faults; it is divided where it fails."""
        while begin < end:
            broken, reason = block.first_broken(begin, end), "it is not valid UTF-8"
            if broken is None:
                reason = "it contains more than one value"
                try:
                    table = self._table(block.text(begin, end))
                    if self._whole(table, begin, end):
                        yield table, begin, end
                        return
                except pa.ArrowInvalid as error:
                    message = _cut(str(error))
                    reason = _reason(message)
                    if (row := _row(message)) is not None:
                        broken = begin + row // 2
            if broken == begin or end - begin == 1:
                yield WrongRecord(begin, ZERO_BYTE if block.ends_with_zero(begin) else reason)
                begin += 1
                continue
            # The reader counts objects: this is the record that it means, if each before it was one.
            middle = (begin + end) // 2 if broken is None or broken >= end else broken
            yield from self._parts(block, begin, middle)
            begin = middle

    def _table(self, text: memoryview) -> pa.Table:
        options = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        return pj.read_json(pa.BufferReader(text), read_options=options, parse_options=self._options)

    def _whole(self, table: pa.Table, begin: int, end: int) -> bool:
        """Return whether there is one object before each mark, and nothing else."""
        marks = table.column(self._key).combine_chunks()
        if len(marks) != 2 * (end - begin) or marks.null_count != end - begin:
            return False
        numbers = marks.take(np.arange(1, len(marks), 2))
        return numbers.null_count == 0 and np.array_equal(numbers.to_numpy(), np.arange(begin, end))


class _JsonBlock:
    """Records with a mark behind each, as one text."""

    def __init__(self, marked: pa.BinaryArray) -> None:
        self._offsets, self._data = _buffers(marked)
        self._broken: list[int] = np.flatnonzero(~are_text(marked)).tolist()

    def text(self, begin: int, end: int) -> memoryview:
        return self._data[self._offsets[begin] : self._offsets[end]]

    def ends_with_zero(self, record: int) -> bool:
        """Return whether a byte of zero stands before the record's mark."""
        return bytes(self.text(record, record + 1)).rpartition(b"\n{")[0].endswith(b"\0")

    def first_broken(self, begin: int, end: int) -> int | None:
        """Return the first of these records that isn't UTF-8."""
        return next((record for record in self._broken if begin <= record < end), None)


def _buffers(values: pa.BinaryArray) -> tuple[Numbers, memoryview]:
    """Return where each value begins, and the last one ends, in the bytes of all."""
    _, offsets, buffer = values.buffers()
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    edges = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
    return edges.astype(np.int64), memoryview(buffer or b"")


def _begins_as_object(values: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return of each value whether its first byte that isn't white is a brace."""
    if not len(values):
        return np.empty(0, np.bool_)
    offsets, buffer = _buffers(values)
    text = np.frombuffer(buffer, np.uint8)
    are_objects = np.zeros(len(values), np.bool_)
    some = offsets[:-1] < offsets[1:]
    are_objects[some] = text[offsets[:-1][some]] == ord("{")
    others = np.flatnonzero(~are_objects)
    if len(others):
        begins = pc.match_substring_regex(values.take(pa.array(others)), OBJECT)
        are_objects[others] = begins.to_numpy(zero_copy_only=False)
    return are_objects


def _no_object(value: bytes) -> str:
    if value.startswith(codecs.BOM_UTF8):
        return BYTE_ORDER_MARK
    return "it is not a JSON object"


def _cut(message: str) -> str:
    """Cut a message of Arrow in its middle, where the text of a record stands if it is long."""
    return message if len(message) <= _HEAD + _TAIL else message[:_HEAD] + message[-_TAIL:]


def _row(message: str) -> int | None:
    """Return the number of the object that isn't JSON; no other message of Arrow has one."""
    row = _ROW.search(message[-_TAIL:]) if message.startswith(_BROKEN) else None
    return int(row[1]) if row else None


def _reason(message: str) -> str:
    """Return a reason for people, by what Arrow says in a message that is cut.

    The patterns match whole messages, so that none of them looks for its begin in the text of a record.
    """
    broken = message.startswith(_BROKEN)
    if broken:
        message = _ROW.sub("", message.removeprefix(_BROKEN))
    if match := _CHANGED.fullmatch(message):
        return f"{_path(match[1])} is of type {match[3]}, not {match[2]}"
    if match := _TWICE.fullmatch(message):
        return f"{_path(match[1])} exists twice"
    if match := _DECIMAL.fullmatch(message):
        return f"{match[1][:100]} has too many digits for the decimal column"
    if match := _NO_DECIMAL.fullmatch(message):
        return f"{(match[1] or 'empty text')[:100]} is not a value of type decimal"
    if match := _NUMBER.fullmatch(message):
        return f"{match[2][:100]} is not a value of type {match[1]}"
    summary = "it is not JSON" if broken else "a value cannot be read"
    return f"{summary}: {message[:200].rstrip('.')}"


def _path(path: str) -> str:
    return path.replace("/[]", "[]").replace("/", ".") or "the record"
