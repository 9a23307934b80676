"""Values in chunks, chunks in blocks; and back, from blocks in any order.

A block is chunks one after the other, then zeros up to its last shard's end. A chunk is a header and a part
of one value: small values share a block, a large one continues in the next.
"""

import struct
from dataclasses import dataclass, field
from itertools import accumulate

from aqueduct.kafka.batches.batch import Buffer
from aqueduct.link.wire.counters import Counters

# Number of the value, its length, where in it the chunk starts, the chunk's length.
CHUNK = struct.Struct(">QIII")
LARGEST = (1 << 32) - 1  # bytes of a value
# Of memory beside the bytes themselves: of a value that is not whole, and of each of its parts.
VALUE_BYTES, PART_BYTES = 500, 150


class Packer:
    """The packer of values into blocks of at most `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._number = 0
        self._parts: list[Buffer] = []
        self._used = 0

    @property
    def empty(self) -> bool:
        return not self._used

    def add(self, value: Buffer) -> list[bytes]:
        """Add a value; return the blocks that it filled."""
        length = len(value)
        if not 0 < length <= LARGEST:
            raise ValueError(f"a value of {length} bytes is too large for the link")
        full: list[bytes] = []
        view = memoryview(value)
        offset = 0
        while offset < length:
            room = self._capacity - self._used - CHUNK.size
            if room <= 0:
                full.append(self.close())
                continue
            part = view[offset : offset + room]
            self._parts += CHUNK.pack(self._number, length, offset, len(part)), part
            self._used += CHUNK.size + len(part)
            offset += len(part)
        self._number += 1
        return full

    def close(self) -> bytes:
        """Return the last block, as far as it is filled."""
        block = b"".join(self._parts)
        self._parts, self._used = [], 0
        return block


@dataclass(kw_only=True)
class _Partial:
    length: int
    touched: float
    parts: dict[int, bytes] = field(default_factory=dict)  # by where they start
    held: int = 0  # of its bytes

    @property
    def memory(self) -> int:
        return VALUE_BYTES + self.held + PART_BYTES * len(self.parts)


class Assembler:
    """The assembler of values from blocks; each comes out complete or never."""

    def __init__(self, largest: int, limit: int, counters: Counters) -> None:
        """Take at most `largest` bytes of a value, and at most `limit` of memory for those not whole."""
        self._largest = largest
        self._limit = limit
        self._counters = counters
        self._partial: dict[int, _Partial] = {}  # by number; the first to begin is the first to go
        self._held = 0  # bytes of memory

    def add(self, block: bytes, now: float) -> list[bytes]:
        """Add a block; return the values that are complete now."""
        whole: list[bytes] = []
        offset = 0
        while len(block) - offset >= CHUNK.size:
            number, length, start, size = CHUNK.unpack_from(block, offset)
            if not length:  # padding
                break
            offset += CHUNK.size
            stop = offset + size
            if not size or start + size > length or stop > len(block):
                self._counters.blocks_malformed += 1
                break
            if length > self._largest:
                self._counters.values_oversized += not start
            elif size == length:
                whole.append(block[offset:stop])
            elif value := self._put(number, length, start, block[offset:stop], now):
                whole.append(value)
            offset = stop
        return whole

    def expire(self, before: float) -> None:
        """Drop values that received no chunk since `before`."""
        for number in [number for number, value in self._partial.items() if value.touched < before]:
            self._give_up(number)

    def close(self) -> None:
        """Drop all incomplete values."""
        for number in list(self._partial):
            self._give_up(number)

    def unfinished(self) -> bytes:
        """Return the chunks of incomplete values, as a block has them."""
        return b"".join(
            CHUNK.pack(number, value.length, start, len(part)) + part
            for number, value in self._partial.items()
            for start, part in value.parts.items()
        )

    def _put(self, number: int, length: int, start: int, part: bytes, now: float) -> bytes | None:
        value = self._partial.get(number)
        if value is None:
            value = self._partial[number] = _Partial(length=length, touched=now)
            self._held += VALUE_BYTES
        if length != value.length or start in value.parts:
            self._counters.blocks_malformed += 1
            return None
        value.parts[start] = part
        value.touched = now
        value.held += len(part)
        self._held += len(part) + PART_BYTES
        if value.held >= length:
            del self._partial[number]
            self._held -= value.memory
            return self._joined(value)
        while self._held > self._limit:
            self._give_up(next(iter(self._partial)))
        return None

    def _joined(self, value: _Partial) -> bytes | None:
        parts = [value.parts[start] for start in sorted(value.parts)]
        starts = accumulate((len(part) for part in parts[:-1]), initial=0)
        if value.held == value.length and sorted(value.parts) == list(starts):
            return b"".join(parts)
        self._counters.blocks_malformed += 1
        return None

    def _give_up(self, number: int) -> None:
        self._held -= self._partial.pop(number).memory
        self._counters.values_incomplete += 1
