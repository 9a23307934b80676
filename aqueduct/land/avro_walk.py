"""Passes over values of Avro in one record, byte by byte.

AvroData reads many records at once, where a step costs as much for one record as for hundreds. So the last
few of them are read here. Both give the same result for the same bytes.
"""

from collections.abc import Callable

import numpy as np

from aqueduct.kafka.batches.varints import Numbers
from aqueduct.land.avro_schema import RecordType, Scalar, Schema, Union

WIDTHS = {"boolean": 1, "float": 4, "double": 8}
DEPTH = 64  # records in records
STEPS = 100_000  # in a record, of what can only be read one after the other
FREE_STEPS = 1000  # of them, that a record may take whatever the records beside it cost
EARLY = "it ends too early"
NO_BRANCH = "it uses a branch that the union does not have"
NO_SYMBOL = "it uses a symbol that the enum does not have"
LARGE_INT = "an int has more than 32 bits"
LARGE_NUMBER = "a number has more than 64 bits"
DEEP = f"it has more than {DEPTH} nested levels"
MANY_STEPS = f"its arrays, maps, unions and records need more than {STEPS:,} steps to read"
NOT_FREE = (
    f"its arrays, maps, unions and records need more than {FREE_STEPS:,} steps to read, and the other "
    "records of the same batch also need too many steps"
)
MANY_NUMBERS = 64  # of an array, from which on they are counted by numpy


class UnreadableRecord(Exception):
    """A record that can't be read, and the reason."""


class RecordWalk:
    """A position in a record. UnreadableRecord where the bytes are none of the schema's."""

    def __init__(
        self,
        text: memoryview,
        last_bytes: Callable[[], Numbers],
        *,
        position: int,
        end: int,
        steps: int,
        cost: int,
    ) -> None:
        """Begin somewhere in a record, after `steps` in it.

        `last_bytes`: where numbers of the text end. `cost`: how much of the cost of all records is left.
        """
        self.position, self.steps, self.cost = position, steps, cost
        self._text, self._last_bytes, self._end = text, last_bytes, end

    def skip(self, schema: Schema, depth: int) -> None:
        """Pass over a value."""
        if depth > DEPTH:
            raise UnreadableRecord(DEEP)
        if isinstance(schema, Scalar):
            self._scalar(schema)
        elif isinstance(schema, RecordType):
            self.step()
            self.cost -= len(schema.fields)
            for _, inner_schema in schema.fields:
                self.skip(inner_schema, depth + 1)
        elif isinstance(schema, Union):
            branch = self._choice(len(schema.branches), NO_BRANCH)
            self.step()
            self.skip(schema.branches[branch], depth + 1)
        else:
            self.blocks(schema.items, depth + 1, None)

    def blocks(self, schema: Schema, depth: int, begins: list[Numbers] | None) -> None:
        """Pass over the blocks of an array; add to `begins` where its items begin, if they are kept."""
        while count := self._number():
            if count < 0:
                self._number()  # how many bytes the block has, which its items say, too
                count = -count
            if count > self._end - self.position:
                raise UnreadableRecord(EARLY)
            width = WIDTHS.get(schema.kind, 0) or schema.size if isinstance(schema, Scalar) else 0
            if width:
                first = self.position
                self._go(first + count * width)
                if begins is not None:
                    begins.append(np.arange(first, self.position, width))
            elif isinstance(schema, Scalar) and schema.kind in ("int", "long", "enum"):
                self._numbers(count, begins)
            else:
                self.one_by_one(schema, count, depth, begins)
            self.step()

    def one_by_one(self, schema: Schema, count: int, depth: int, begins: list[Numbers] | None) -> None:
        """Pass over items of a block."""
        positions = []
        skip = self._scalar if isinstance(schema, Scalar) and depth <= DEPTH else None
        for _ in range(count):
            if begins is not None:
                positions.append(self.position)
            if skip:
                skip(schema)  # type: ignore[arg-type]
            else:
                self.skip(schema, depth)
            self.step()
        if begins is not None:
            begins.append(np.array(positions, np.int64))

    def step(self) -> None:
        self.steps += 1
        self.cost -= 1
        if self.steps > STEPS:
            raise UnreadableRecord(MANY_STEPS)
        if self.cost < 0 and self.steps > FREE_STEPS:
            raise UnreadableRecord(NOT_FREE)

    def _numbers(self, count: int, begins: list[Numbers] | None) -> None:
        """Pass over numbers by their last bytes."""
        first = self.position
        if count < MANY_NUMBERS:
            positions = []
            position, text = first, self._text
            for _ in range(count):
                positions.append(position)
                while text[position] >= 0x80:
                    position += 1
                position += 1
                if position > self._end:
                    raise UnreadableRecord(EARLY)
            self.position = position
            if begins is not None:
                begins.append(np.array(positions, np.int64))
            return
        last_bytes = self._last_bytes()
        index = int(last_bytes.searchsorted(first))
        last = last_bytes[index : index + count]
        if len(last) < count:
            raise UnreadableRecord(EARLY)
        self._go(int(last[-1]) + 1)
        if begins is not None:
            begins.append(np.concatenate([[first], last[:-1] + 1]))

    def _scalar(self, schema: Scalar) -> None:
        kind = schema.kind
        if kind in ("bytes", "string"):
            length = self._number()
            if not 0 <= length <= self._end - self.position:
                raise UnreadableRecord(EARLY)
            self.position += length
        elif kind == "long":
            self._number()
        elif kind == "int":
            if not -(2**31) <= self._number() < 2**31:
                raise UnreadableRecord(LARGE_INT)
        elif kind == "enum":
            self._choice(len(schema.symbols), NO_SYMBOL)
        elif kind != "null":
            self._go(self.position + WIDTHS.get(kind, schema.size))

    def _choice(self, choices: int, otherwise: str) -> int:
        number = self._number()
        if not 0 <= number < choices:
            raise UnreadableRecord(otherwise)
        return number

    def _number(self) -> int:
        """Read a number of at most 64 bits."""
        text, position = self._text, self.position
        byte = text[position]
        zigzag, shift = byte & 0x7F, 0
        while byte >= 0x80:
            position += 1
            shift += 7
            byte = text[position]
            if shift == 63 and byte > 1:
                raise UnreadableRecord(LARGE_NUMBER if position < self._end else EARLY)
            zigzag |= (byte & 0x7F) << shift
        self._go(position + 1)
        return zigzag >> 1 ^ -(zigzag & 1)

    def _go(self, to: int) -> None:
        if to > self._end:
            raise UnreadableRecord(EARLY)
        self.position = to
