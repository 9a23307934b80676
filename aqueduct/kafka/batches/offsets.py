"""A small description of many batches: which offsets, records and times each has, and where it is.

It finds the batches of a window without reading a segment, and the record that an offset means without
looking at one, unless compaction or a cut has left holes in that very batch.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import zstandard

from aqueduct.kafka.batches.batch import HEADER, Batch, Damaged
from aqueduct.kafka.batches.codecs import decompress_frame
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.batches.varints import Numbers

_FORMAT = b"AQI1"
# Bytes that an index may unpack to, at least: those of a segment of 64 MiB have fewer.
LEAST_BYTES = 44 << 20
UNPACKED_FACTOR = 200  # a larger index may unpack to this many times its stored size
_SKIPPABLE = struct.Struct("<II")  # a frame that decoders of Zstandard pass over (RFC 8878, 3.1.2)
_SKIPPABLE_MAGIC = 0x184D2A5B
_LENGTH = struct.Struct("<I")


class Inside(NamedTuple):
    """The place of an answer that only the batch itself can give."""

    place: int  # of the batch in the index
    before: int  # records before the batch

    def rank(self, batch: Batch, offset: int) -> int:
        return self.before + int(np.searchsorted(Records.of([batch]).offsets, offset))

    def offset(self, batch: Batch, rank: int) -> int:
        return int(Records.of([batch]).offsets[rank - self.before])


@dataclass(frozen=True, eq=False)
class Index:
    """Batches in the order of their offsets, as parallel columns."""

    base_offset: Numbers
    last_offset: Numbers
    count: Numbers  # of records
    max_time: Numbers  # milliseconds since 1970
    size: Numbers  # in bytes

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> "Index":
        columns = zip(*batches, strict=True) if batches else [()] * len(Batch._fields)
        encoded, base_offset, last_offset, _, _, max_time, _, count = columns
        sizes = list(map(len, encoded))
        return cls(
            *(np.array(column, np.int64) for column in (base_offset, last_offset, count, max_time, sizes))
        )

    @classmethod
    def joined(cls, parts: Iterable["Index"]) -> "Index":
        """Join the indexes of parts that follow each other."""
        columns = zip(*(part._columns() for part in (cls.of([]), *parts)), strict=True)
        return cls(*map(np.concatenate, columns))

    @classmethod
    def from_bytes(cls, stored: bytes, unpacked_bytes: int | None = None) -> "Index":
        """Parse an index; Damaged if it is not one, or of more batches than it can describe.

        The limits are the size of the segment that the index describes, as its manifest states it, and the
        size of the stored index itself, which does not depend on what the index or the manifest states.
        """
        try:
            if not stored.startswith(_FORMAT):
                raise ValueError("it is not an index, or a newer version of Aqueduct wrote it")
            most = max(LEAST_BYTES, UNPACKED_FACTOR * len(stored))
            if unpacked_bytes is not None:
                most = min(most, max(1 << 16, unpacked_bytes // HEADER.size * len(fields(cls)) * 8))
            raw = decompress_frame(_without_padding(stored[len(_FORMAT) :]), most)
            planes = np.frombuffer(raw, np.uint8).reshape(len(fields(cls)), 8, -1)
        except ValueError as error:
            raise Damaged(f"An index cannot be read: {error}.") from error
        # One column at a time, for two more copies of a large index are as large.
        return cls(*(np.ascontiguousarray(plane.T).view("<i8")[..., 0].cumsum() for plane in planes))

    def to_bytes(self) -> bytes:
        """Return a mark, then, compressed, the steps from each number of a column to the next.

        Of a column's steps first all lowest bytes, then all second ones, and so on: most are equal then.
        """
        steps = np.diff(np.array(self._columns(), "<i8"), prepend=0)
        planes = steps.view(np.uint8).reshape(*steps.shape, 8).transpose(0, 2, 1)
        raw = planes.tobytes()
        packed = _FORMAT + zstandard.ZstdCompressor().compress(raw)
        # A reader would take a large index of very regular batches for a decompression bomb.
        lacking = -(-len(raw) // UNPACKED_FACTOR) - len(packed) if len(raw) > LEAST_BYTES else 0
        return packed + _padding(lacking) if lacking > 0 else packed

    def __len__(self) -> int:
        return len(self.count)

    @property
    def position(self) -> Numbers:
        """Return the position of each batch's first byte, where batches follow each other from 0."""
        return self.size.cumsum() - self.size

    @property
    def records(self) -> int:
        return int(self._before[-1])

    def rank(self, offset: int) -> int | Inside:
        """Count the records before an offset."""
        row = int(np.searchsorted(self.last_offset, offset))
        before = int(self._before[row])
        if row == len(self) or offset <= self.base_offset[row] or not self.count[row]:
            return before
        return before + offset - int(self.base_offset[row]) if self._dense(row) else Inside(row, before)

    def offset(self, rank: int) -> int | Inside:
        """Return the offset of the record that has this many before it; IndexError if there is none."""
        row = int(np.searchsorted(self._before, rank, side="right")) - 1
        if not 0 <= rank < self.records:
            raise IndexError(f"there is no record {rank} among {self.records}")
        before = int(self._before[row])
        return int(self.base_offset[row]) + rank - before if self._dense(row) else Inside(row, before)

    @cached_property
    def _before(self) -> Numbers:
        """Records before each batch, and of all."""
        return np.concatenate([[0], self.count.cumsum()])

    def _dense(self, row: int) -> bool:
        # In Python's numbers: those of a hostile index may be over numpy's.
        return int(self.last_offset[row]) - int(self.base_offset[row]) + 1 == int(self.count[row])

    def _columns(self) -> tuple[Numbers, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def _padding(size: int) -> bytes:
    """Return a frame without content, which is larger than `size` and ends with its own length."""
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, size + _LENGTH.size) + bytes(size) + _LENGTH.pack(size)


def _without_padding(stored: bytes) -> bytes:
    """Return an index without the frame that `_padding` made, if it has one."""
    if len(stored) < _LENGTH.size:
        return stored
    (size,) = _LENGTH.unpack_from(stored, len(stored) - _LENGTH.size)
    start = len(stored) - size - _LENGTH.size - _SKIPPABLE.size
    if start > 0 and _SKIPPABLE.unpack_from(stored, start) == (_SKIPPABLE_MAGIC, size + _LENGTH.size):
        return stored[:start]
    return stored
