"""A small description of many batches: which offsets, records and times each has, and where it is.

It finds the batches of a window without reading a segment, and the record that an offset means without
looking at one, unless compaction or a cut has left holes in that very batch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import zstandard

from aqueduct.kafka.batches.batch import HEADER, Batch, Damaged
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.batches.varints import Numbers

_FORMAT = b"AQI1"
LEAST_BYTES = 1 << 16  # that an index may unpack to, however little its segment has


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
        data, base_offset, last_offset, _, _, max_time, _, count = columns
        sizes = list(map(len, data))
        return cls(*(np.array(each, np.int64) for each in (base_offset, last_offset, count, max_time, sizes)))

    @classmethod
    def joined(cls, parts: Iterable["Index"]) -> "Index":
        """Join the indexes of parts that follow each other."""
        columns = zip(*(part._columns() for part in (cls.of([]), *parts)), strict=True)
        return cls(*map(np.concatenate, columns))

    @classmethod
    def from_bytes(cls, data: bytes, unpacked_bytes: int | None = None) -> "Index":
        """Parse an index; Damaged if it is none, or of more batches than so many bytes can be."""
        try:
            if not data.startswith(_FORMAT):
                raise ValueError("it is none, or of a newer version")
            size = zstandard.frame_content_size(data[len(_FORMAT) :])
            most = max(LEAST_BYTES, (unpacked_bytes or 0) // HEADER.size * len(fields(cls)) * 8)
            if unpacked_bytes is not None and size > most:
                raise ValueError(f"it unpacks to {size:,} bytes")
            raw = zstandard.ZstdDecompressor().decompress(data[len(_FORMAT) :])
            planes = np.frombuffer(raw, np.uint8).reshape(len(fields(cls)), 8, -1)
        except (ValueError, zstandard.ZstdError) as error:
            raise Damaged(f"An index can't be read: {error}.") from error
        return cls(*np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<i8")[..., 0].cumsum(axis=1))

    def to_bytes(self) -> bytes:
        """Return a mark, then, compressed, the steps from each number of a column to the next.

        Of a column's steps first all lowest bytes, then all second ones, and so on: most are equal then.
        """
        steps = np.diff(np.array(self._columns(), "<i8"), prepend=0)
        planes = steps.view(np.uint8).reshape(*steps.shape, 8).transpose(0, 2, 1)
        return _FORMAT + zstandard.ZstdCompressor().compress(planes.tobytes())

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
        place = int(np.searchsorted(self.last_offset, offset))
        before = int(self._before[place])
        if place == len(self) or offset <= self.base_offset[place] or not self.count[place]:
            return before
        return before + offset - int(self.base_offset[place]) if self._dense(place) else Inside(place, before)

    def offset(self, rank: int) -> int | Inside:
        """Return the offset of the record that has this many before it; IndexError if there is none."""
        place = int(np.searchsorted(self._before, rank, side="right")) - 1
        if not 0 <= rank < self.records:
            raise IndexError(f"there is no record {rank} among {self.records}")
        before = int(self._before[place])
        return int(self.base_offset[place]) + rank - before if self._dense(place) else Inside(place, before)

    @cached_property
    def _before(self) -> Numbers:
        """Records before each batch, and of all."""
        return np.concatenate([[0], self.count.cumsum()])

    def _dense(self, place: int) -> bool:
        return bool(self.last_offset[place] - self.base_offset[place] + 1 == self.count[place])

    def _columns(self) -> tuple[Numbers, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))
