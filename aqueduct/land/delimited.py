"""Reads delimited text (RFC 4180) block by block: a record is one row of so many fields, or it is named.

Arrow's reader knows rows, not records: one that isn't closed would take in the next. So each record stands
between two marks that only this process can write, and is taken only where both are its own. And it is lax
with quotes: so who has some is compared with the grammar first. A quote inside of an unquoted field is text.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from aqueduct.kafka.batches.varints import Numbers
from aqueduct.land.json_blocks import ReadRecords, WrongRecord
from aqueduct.land.text_conversion import are_text, mask, typed

BLOCK = 10_000  # records
NUMBER = "~number"


class DelimitedReader:
    """A reader of rows into the fields that are wanted; other fields are passed over."""

    def __init__(self, fields: Sequence[str], schema: pa.Schema, delimiter: str, quote: str) -> None:
        """Keep the names of all fields in their order, and the types of those that are wanted.

        A wanted field's metadata says whether empty text is null there (`texts.EMPTY_IS_NULL`).
        """
        self._fields = len(fields)
        self.wanted = schema
        self._strings = pa.schema([(name, pa.string()) for name in schema.names])
        self._mark = secrets.token_hex(8)
        self._delimiter, self._quote = delimiter, quote
        # Arrow takes a quote that isn't closed, and text behind one that is, for what it can.
        d, q = (f"\\x{{{ord(sign):x}}}" for sign in (delimiter, quote))
        field = f"(?:{q}(?:[^{q}]|{q}{q})*{q}|[^{q}{d}\\r\\n][^{d}\\r\\n]*|)"
        self._row = f"^{field}(?:{d}{field})*(?:\\r?\\n)?$"
        first, last = f"{NUMBER} before", f"{NUMBER} after"
        self._names = [first, *fields, last]
        self._parse = csv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote,
            newlines_in_values=True,
            ignore_empty_lines=False,
        )
        self._convert = csv.ConvertOptions(
            column_types=dict.fromkeys(self._names, pa.string()),
            include_columns=[first, last, *schema.names],
            strings_can_be_null=False,
        )

    def read(self, values: pa.BinaryArray) -> ReadRecords:
        """Read a batch of records, none of them null."""
        text = are_text(values)
        reasons = dict.fromkeys(np.flatnonzero(~text).tolist(), "it is not valid UTF-8")
        quoted = text & mask(pc.match_substring(values, self._quote))
        some = np.flatnonzero(quoted)
        right = pc.match_substring_regex(values.take(pa.array(some)).cast(pa.string()), self._row)
        strange = some[~mask(right)]
        reasons |= dict.fromkeys(strange.tolist(), "its quotes do not match the format of a row")
        others = np.setdiff1d(np.flatnonzero(text), strange)
        todo = [others[first : first + BLOCK] for first in range(0, len(others), BLOCK)]
        parts = []
        while todo:
            records = todo.pop()
            part, wrong = self._block(values, records)
            parts.append(part)
            left = np.setdiff1d(records, [*part.records, *wrong])
            if len(records) > 1:  # another record may have kept them from being read
                todo += [half for half in np.array_split(left, 2) if len(half)]
            else:
                wrong += left.tolist()
            reasons |= dict.fromkeys(wrong, f"it is not one row with {self._fields} fields")
        rows = pa.concat_tables([part.rows for part in parts]) if parts else self.wanted.empty_table()
        records = np.concatenate([part.records for part in parts]) if parts else np.empty(0, np.int64)
        arrays, fits = [], np.ones(len(records), np.bool_)
        for field in self.wanted:
            value, fit = typed(rows.column(field.name).combine_chunks(), field)
            for row in np.flatnonzero(fits & ~fit).tolist():
                excerpt = rows.column(field.name)[row].as_py()[:100]
                reasons[int(records[row])] = f"{excerpt} is not a valid value for {field.name}"
            fits &= fit
            arrays.append(value)
        kept = np.flatnonzero(fits)
        faults = tuple(WrongRecord(index, reasons[index]) for index in sorted(reasons))
        return ReadRecords(
            table=pa.table(arrays, schema=self.wanted), rows=kept, records=records[kept], faults=faults
        )

    def _block(self, values: pa.BinaryArray, records: Numbers) -> tuple["_Part", list[int]]:
        """Read these records; return those that are one row each, and those that are none by themselves."""
        marks = pa.array([f"{self._mark}{number}" for number in records.tolist()])
        text = pc.replace_substring_regex(values.take(pa.array(records)).cast(pa.string()), r"\r?\n$", "")
        lines = pc.binary_join_element_wise(marks, text, marks, self._delimiter)
        content = "\n".join(lines.to_pylist()).encode()
        wrong: list[int] = []

        def skip(row: csv.InvalidRow) -> str:
            first, last = row.text.split(self._delimiter, 1)[0], row.text.rpartition(self._delimiter)[2]
            if first == last and first.startswith(self._mark) and row.text.count(self._mark) == 2:
                wrong.append(int(first.removeprefix(self._mark)))
            return "skip"

        self._parse.invalid_row_handler = skip
        try:
            table = csv.read_csv(
                pa.BufferReader(content),
                csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(content) + 1),
                self._parse,
                self._convert,
            )
        except pa.ArrowInvalid:
            return _Part(self._strings.empty_table(), np.empty(0, np.int64)), []
        before, after = (table.column(index).combine_chunks() for index in (0, 1))
        rows = table.filter(pc.and_(pc.equal(before, after), pc.starts_with(before, self._mark)))
        numbers = pc.utf8_slice_codeunits(rows.column(0).combine_chunks(), len(self._mark))
        row_records: Numbers = numbers.cast(pa.int64()).to_numpy()
        return _Part(rows.select(self.wanted.names), row_records), wrong


@dataclass(frozen=True)
class _Part:
    """Rows of text, and which records they are."""

    rows: pa.Table
    records: Numbers
