"""Reads data of Avro without a step of Python for each record: one field of all records after the other.

Where few records are left, each is read by itself (avro_walk): a step of numpy costs as much for one record
as for hundreds.

Nothing is believed of what the bytes say of themselves. A length is compared with what is left of the record
before anything is read or kept for it; who is wrong is left out from there on, and named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from functools import cached_property, partial
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.kafka.batches.varints import Bytes, Mask, Numbers
from aqueduct.land import columns, times, types
from aqueduct.land.avro_schema import NULL, Items, RecordType, Scalar, Schema, Union
from aqueduct.land.avro_walk import (
    DEEP,
    DEPTH,
    EARLY,
    FREE_STEPS,
    LARGE_INT,
    LARGE_NUMBER,
    MANY_STEPS,
    NO_BRANCH,
    NO_SYMBOL,
    NOT_FREE,
    STEPS,
    WIDTHS,
    RecordWalk,
    UnreadableRecord,
)
from aqueduct.land.declaration import Column
from aqueduct.land.text_conversion import are_text

PADDING = 16  # bytes behind the last record, so that a number that ends too late is read, and refused
FEW = 16  # records, up to which each is read by itself
MOST_COST = 20_000_000  # of all steps of a `read`: one in a single record costs 1, about a microsecond
ROWS_OF_COST = 8  # whose part in a step of numpy costs 1
WIDE = 76  # digits of a decimal256
DECIMAL_BYTES = 16  # of 38 digits
DIGITS = f"a decimal has more than {types.DIGITS} digits"


@dataclass
class WantedFields:
    """The columns that take a field, or the fields of a record that are wanted."""

    columns: list[Column] = field(default_factory=list)
    below: dict[str, "WantedFields"] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Sequence[Column]) -> "WantedFields":
        root = cls()
        for column in columns:
            node = root
            for step in column.path:
                node = node.below.setdefault(step, cls())
            node.columns.append(column)
        return root


@dataclass(kw_only=True)
class AvroData:
    """Values of one schema in a text of bytes, as far as they were read; each has its row."""

    bytes: Bytes  # with PADDING behind
    at: Numbers
    ends: Numbers
    why: dict[int, str] = field(default_factory=dict)  # of rows that can't be read

    def __post_init__(self) -> None:
        self.right: Mask = np.ones(len(self.at), np.bool_)
        self._steps = np.zeros(len(self.at), np.int64)
        self._cost = 0  # of all rows

    @cached_property
    def _last_bytes(self) -> Numbers:
        """Where numbers end: bytes after which none of theirs follows."""
        return np.flatnonzero(self.bytes < 0x80)

    @cached_property
    def _text(self) -> memoryview:
        return self.bytes.data

    def read(self, schema: RecordType, fields: WantedFields) -> Mapping[str, pa.Array]:
        """Read records, one a row; return columns' fields, by the columns' names, null where a row has none.

        A field that the schema has not is not returned. What is returned of rows that are not right means
        nothing.
        """
        array_by_column: dict[str, pa.Array] = {}
        rows = np.arange(len(self.at))
        self._record(schema, rows, fields, array_by_column)
        self._wrong(rows, self.at < self.ends, "more bytes follow after the end of the record")
        return array_by_column

    # Records

    def _record(
        self, schema: RecordType, rows: Numbers, fields: WantedFields, array_by_column: dict[str, pa.Array]
    ) -> None:
        for name, below in schema.fields:
            want = fields.below.get(name)
            if want is None:
                self._skip(below, rows, 0)
            elif want.below:
                present_rows, inner = self._branch(below, rows)
                if isinstance(inner, RecordType):
                    self._record(inner, present_rows, want, array_by_column)
                else:
                    self._skip(inner, present_rows, 0)
            else:
                begins = self.at[rows]
                for column in want.columns:
                    self._go(rows, begins)
                    array_by_column[column.name] = self._spread(*self._value(below, rows, column))

    def _branch(self, schema: Schema, rows: Numbers) -> tuple[Numbers, Schema]:
        """Read which branch of a nullable type is there; return the rows that aren't null, and their type."""
        if not isinstance(schema, Union):
            return rows, schema
        numbers = self._choice(len(schema.branches), rows, NO_BRANCH)
        other = next((index for index, branch in enumerate(schema.branches) if branch != NULL), 0)
        return rows[numbers == other], schema.branches[other]

    def _choice(self, choices: int, rows: Numbers, otherwise: str) -> Numbers:
        """Read a number below the number of choices; -1 where it isn't one."""
        numbers = self._number(rows)
        wrong = (numbers < 0) | (numbers >= choices)
        self._wrong(rows, wrong, otherwise)
        return np.where(wrong, -1, numbers)

    def _skip(self, schema: Schema, rows: Numbers, depth: int) -> None:
        """Pass over values, whose lengths are checked, and of a union its branch."""
        rows = rows[self.right[rows]]
        if not len(rows):
            return
        if depth > DEPTH:
            self._wrong(rows, np.ones(len(rows), np.bool_), DEEP)
        elif len(rows) <= FEW and not isinstance(schema, Scalar):
            for row in rows.tolist():
                self._walk(row, lambda walk, _: walk.skip(schema, depth))
        elif isinstance(schema, RecordType):
            self._step(rows)
            self._cost += len(schema.fields)
            for _, inner_schema in schema.fields:
                self._skip(inner_schema, rows, depth + 1)
        elif isinstance(schema, Union):
            branches = schema.branches
            numbers = self._choice(len(branches), rows, NO_BRANCH)
            self._step(rows)
            few = len(branches) <= FEW
            for number in range(len(branches)) if few else np.unique(numbers[numbers >= 0]).tolist():
                self._skip(branches[number], rows[numbers == number], depth + 1)
        elif isinstance(schema, Items):
            self._items(schema.items, rows, depth + 1)
        elif schema.kind in ("int", "long", "enum"):
            self._whole(schema, rows)
        elif schema.kind != "null":
            self._places(schema, rows)

    # Values

    def _value(self, schema: Schema, rows: Numbers, column: Column) -> tuple[Numbers, pa.Array]:
        """Read values that a column takes; return the rows that have one, and it."""
        present_rows, inner = self._branch(schema, rows)
        if isinstance(inner, Items):
            return present_rows, self._list(inner, present_rows, column)
        if isinstance(inner, Scalar):
            return present_rows, self._scalar(inner, present_rows, column)
        raise TypeError(f"{inner} does not fit any column")

    def _scalar(self, schema: Scalar, rows: Numbers, column: Column) -> pa.Array:
        """Read values as `columns.fitted` takes them for the column."""
        if schema.kind == "null":
            return pa.nulls(len(rows), column.type)
        if schema.kind in ("int", "long", "enum"):
            return self._of_number(schema, self._whole(schema, rows), rows, column)
        begins, ends = self._places(schema, rows)
        if schema.kind == "boolean":
            bits = self.bytes[begins]
            self._wrong(rows, bits > 1, "a boolean is neither 0 nor 1")
            return pa.array(bits == 1)
        if schema.kind in WIDTHS:
            width = WIDTHS[schema.kind]
            gathered = self.bytes[begins[:, None] + np.arange(width)]
            return pa.array(gathered.view(f"<f{width}").reshape(len(rows)))
        if schema.logical == "decimal":
            exact = self._decimals(schema, begins, ends, rows)
            return exact.cast(pa.decimal256(WIDE, types.scalar_of(column.type).scale))
        values = self._slices(begins, ends)
        if schema.kind == "string":
            right = are_text(values)
            self._wrong(rows, ~right, "a string is not valid UTF-8")
            return _where(right, values).cast(pa.string())
        if schema.logical == "uuid":
            return pa.array(
                [str(UUID(bytes=encoded or bytes(16))) for encoded in values.to_pylist()], pa.string()
            )
        return values

    def _whole(self, schema: Scalar, rows: Numbers) -> Numbers:
        """Read whole numbers, each within its type; 0 where it is not."""
        if schema.kind == "enum":
            return np.maximum(self._choice(len(schema.symbols), rows, NO_SYMBOL), 0)
        numbers = self._number(rows)
        if schema.kind == "int":
            wrong = numbers != numbers.astype(np.int32)
            self._wrong(rows, wrong, LARGE_INT)
            return np.where(wrong, 0, numbers)
        return numbers

    def _of_number(self, schema: Scalar, numbers: Numbers, rows: Numbers, column: Column) -> pa.Array:
        if schema.kind == "enum":
            return pa.array(schema.symbols or [""], pa.string()).take(pa.array(numbers))
        if schema.logical == "date":
            first, last = times.whole_days()
            self._wrong(rows, (numbers < first) | (numbers > last), "a date is not in the years 1 to 9999")
            return pa.array(numbers.astype(np.int32)).view(pa.date32())
        if "timestamp" in schema.logical:
            unit = times.UNIT_OF_AVRO[schema.logical.rpartition("-")[2]]
            instants, right = times.epochs(numbers, unit)
            if unit == "ns" and not column.cuts_nanoseconds:
                fraction = times.has_nanoseconds(numbers) & right
                self._wrong(rows, fraction, f"a timestamp {columns.NANOSECONDS}")
                right |= fraction
            if schema.logical.startswith("local"):
                instants, again = times.epochs(times.to_instants(instants, column.zone), "us")
                right &= again
            self._wrong(rows, ~right, "a timestamp is not in the years 1 to 9999")
            return pa.array(instants).view(types.TIMESTAMP)
        return pa.array(numbers)

    def _decimals(self, schema: Scalar, begins: Numbers, ends: Numbers, rows: Numbers) -> pa.Array:
        """Return decimals of big-endian bytes; with more of them than 38 digits need it is wrong."""
        lengths = ends - begins
        self._wrong(rows, lengths == 0, "a decimal has no bytes")
        negative = (lengths > 0) & (self.bytes[begins] >= 0x80)
        out = np.repeat(np.where(negative, 0xFF, 0).astype(np.uint8)[:, None], 32, axis=1)
        for number in range(min(DECIMAL_BYTES, int(lengths.max(initial=0)))):
            some = lengths > number
            out[some, number] = self.bytes[ends[some] - 1 - number]
        for row in np.flatnonzero(lengths > DECIMAL_BYTES).tolist():
            more = self.bytes[begins[row] : ends[row] - DECIMAL_BYTES]
            sign = out[row, DECIMAL_BYTES - 1] & 0x80
            fits = (more == (0xFF if sign else 0)).all()
            self._wrong(rows[row : row + 1], np.array([not fits]), DIGITS)
        type_ = pa.decimal256(WIDE, schema.scale)
        values = pa.Array.from_buffers(type_, len(rows), [None, pa.py_buffer(out.tobytes())])
        most = pa.scalar(Decimal(10**types.DIGITS - 1).scaleb(-schema.scale, Context(prec=WIDE)), type_)
        right = pc.less_equal(pc.abs(values), most).to_numpy(zero_copy_only=False)
        self._wrong(rows, ~right, DIGITS)
        return _where(right, values)

    def _list(self, schema: Items, rows: Numbers, column: Column) -> pa.Array:
        parents, begins = self._items(schema.items, rows, 0, keep=True)
        order = np.argsort(parents, kind="stable")
        parents, begins = parents[order], begins[order]
        inner = AvroData(bytes=self.bytes, at=begins, ends=self.ends[parents])
        of_items = replace(column, type=types.scalar_of(column.type))
        values = inner._spread(*inner._value(schema.items, np.arange(len(begins)), of_items))
        for index, reason in inner.why.items():
            self._wrong(parents[index : index + 1], np.ones(1, np.bool_), reason)
        counts = np.bincount(parents, minlength=len(self.at))[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

    def _items(
        self, schema: Schema, rows: Numbers, depth: int, *, keep: bool = False
    ) -> tuple[Numbers, Numbers]:
        """Pass over the blocks of arrays; return each item's row and where it begins, if kept."""
        kept: list[tuple[Numbers, Numbers]] = []
        open_ = rows[self.right[rows]]
        while len(open_) > FEW:
            counts = self._number(open_)
            sized = open_[counts < 0]
            if len(sized):
                self._number(sized)  # how many bytes the block has, which its items say, too
                counts = np.abs(counts)  # of the least number it stays negative
            wrong = (counts < 0) | (counts > self.ends[open_] - self.at[open_])
            self._wrong(open_, wrong, EARLY)
            more = (counts > 0) & self.right[open_]
            open_, counts = open_[more], counts[more]
            width = WIDTHS.get(schema.kind, 0) or schema.size if isinstance(schema, Scalar) else 0
            if width:
                kept.append(self._fixed(width, open_, counts))
            elif isinstance(schema, Scalar) and schema.kind in ("int", "long", "enum"):
                kept.append(self._numbers(open_, counts))
            else:
                kept += self._one_by_one(schema, open_, counts, depth, keep=keep)
            self._step(open_)
            open_ = open_[self.right[open_]]
        for row in open_.tolist():
            kept += self._walk(row, lambda walk, begins: walk.blocks(schema, depth, begins), keep=keep)
        if not keep or not kept:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        parents, begins = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return parents, begins

    def _fixed(self, width: int, rows: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
        begins = self.at[rows]
        self._go(rows, begins + counts * width)
        counts = np.where(self.right[rows], counts, 0)
        return np.repeat(rows, counts), np.repeat(begins, counts) + _within(counts) * width

    def _numbers(self, rows: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
        """Find numbers that follow one another by their last bytes."""
        first = np.searchsorted(self._last_bytes, self.at[rows])
        last = np.minimum(first + counts, len(self._last_bytes)) - 1
        begins = self.at[rows]
        self._go(rows, self._last_bytes[last] + 1)
        counts = np.where(self.right[rows], counts, 0)
        within = _within(counts)
        before = self._last_bytes[np.maximum(np.repeat(first, counts) + within - 1, 0)]
        return np.repeat(rows, counts), np.where(within == 0, np.repeat(begins, counts), before + 1)

    def _one_by_one(
        self, schema: Schema, rows: Numbers, counts: Numbers, depth: int, *, keep: bool
    ) -> list[tuple[Numbers, Numbers]]:
        kept = []
        number = 0
        while len(rows) > FEW:
            if keep:
                kept.append((rows, self.at[rows]))
            self._skip(schema, rows, depth)
            self._step(rows)
            number += 1
            more = (counts > number) & self.right[rows]
            rows, counts = rows[more], counts[more]
        for row, count in zip(rows.tolist(), (counts - number).tolist(), strict=True):
            items = partial(_items_of, schema, count, depth)
            kept += self._walk(row, items, keep=keep)
        return kept

    def _step(self, rows: Numbers) -> None:
        """Count a step that can't be made for all items of a row at once."""
        self._steps[rows] += 1
        self._cost += FEW + len(rows) // ROWS_OF_COST
        steps = self._steps[rows]
        self._wrong(rows, steps > STEPS, MANY_STEPS)
        if self._cost > MOST_COST:
            self._wrong(rows, steps > FREE_STEPS, NOT_FREE)

    def _walk(
        self, row: int, read: Callable[[RecordWalk, list[Numbers] | None], None], *, keep: bool = False
    ) -> list[tuple[Numbers, Numbers]]:
        """Read on in one row; return its items' row and where they begin, if kept."""
        walk = RecordWalk(
            self._text,
            lambda: self._last_bytes,
            position=int(self.at[row]),
            end=int(self.ends[row]),
            steps=int(self._steps[row]),
            cost=MOST_COST - self._cost,
        )
        begins: list[Numbers] | None = [] if keep else None
        try:
            read(walk, begins)
        except UnreadableRecord as error:
            self._wrong(np.array([row]), np.ones(1, np.bool_), str(error))
        else:
            self.at[row] = walk.position
        self._steps[row] = walk.steps
        self._cost = MOST_COST - walk.cost
        return [(np.full(len(some), row), some) for some in begins or ()]

    # Bytes

    def _number(self, rows: Numbers) -> Numbers:
        """Read a number of at most 64 bits of each row."""
        positions = self.at[rows]
        byte = self.bytes[positions]
        zigzags = (byte & 0x7F).astype(np.uint64)
        after = positions + 1
        unended = np.flatnonzero(byte >= 0x80)
        shift = 0
        while len(unended):
            shift += 7
            byte = self.bytes[after[unended]]
            if shift == 63:
                wrong = byte > 1
                within = after[unended] < self.ends[rows[unended]]  # beyond, it is another record's byte
                self._wrong(rows[unended], wrong & within, LARGE_NUMBER)
                byte = np.where(wrong, 0, byte).astype(np.uint8)
            zigzags[unended] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[unended] += 1
            unended = unended[byte >= 0x80]
        self._go(rows, after)
        numbers: Numbers = ((zigzags >> np.uint64(1)) ^ -(zigzags & np.uint64(1))).view(np.int64)
        return numbers

    def _places(self, schema: Scalar, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Pass over bytes; return where they begin and end, which is the same where they are wrong."""
        width = WIDTHS.get(schema.kind, schema.size)
        lengths: Numbers | int = self._number(rows) if schema.kind in ("bytes", "string") else width
        begins = self.at[rows]
        wrong = (lengths < 0) | (lengths > self.ends[rows] - begins)
        self._wrong(rows, wrong, EARLY)
        ends = np.where(wrong, begins, begins + lengths)
        self.at[rows] = np.where(self.right[rows], ends, self.ends[rows])
        return begins, ends

    def _go(self, rows: Numbers, to: Numbers) -> None:
        self.at[rows] = to
        self._wrong(rows, to > self.ends[rows], EARLY)

    def _wrong(self, rows: Numbers, wrong: npt.NDArray[np.bool_], reason: str) -> None:
        """Give up these of the rows: nothing is left of them to be read."""
        if wrong.any():
            some = rows[wrong]
            for row in some[self.right[some]].tolist():
                self.why[row] = reason
            self.right[some] = False
        gone = rows[~self.right[rows]] if self.why else rows[:0]
        self.at[gone] = self.ends[gone]

    def _slices(self, begins: Numbers, ends: Numbers) -> pa.BinaryArray:
        """Return the bytes between, which lie in the order of the rows: every second of neighbours."""
        offsets = np.stack([begins, ends], axis=1).reshape(-1)
        wide = len(self.bytes) > np.iinfo(np.int32).max
        type_ = pa.large_binary() if wide else pa.binary()
        buffers = [
            None,
            pa.py_buffer(offsets.astype(np.int64 if wide else np.int32)),
            pa.py_buffer(self.bytes),
        ]
        parts = pa.Array.from_buffers(type_, max(len(offsets) - 1, 0), buffers)
        return parts.take(pa.array(np.arange(0, len(offsets), 2))).cast(pa.binary())

    def _spread(self, rows: Numbers, values: pa.Array) -> pa.Array:
        """Return the values of all rows, null where there is none."""
        if len(rows) == len(self.at):
            return values
        places = np.full(len(self.at), -1)
        places[rows] = np.arange(len(rows))
        return values.take(pa.array(places, mask=places < 0))


def _where(right: Mask, values: pa.Array) -> pa.Array:
    """Return values, null where they are not right."""
    return values if right.all() else pc.if_else(pa.array(right), values, pa.scalar(None, values.type))


def _items_of(schema: Schema, count: int, depth: int, walk: RecordWalk, begins: list[Numbers] | None) -> None:
    walk.one_by_one(schema, count, depth, begins)


def _within(counts: Numbers) -> Numbers:
    """Return 0, 1, 2, ... below each count, one after the other."""
    starts = np.cumsum(counts) - counts
    within: Numbers = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    return within
