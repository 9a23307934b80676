"""Records of batches as Arrow's columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aqueduct.kafka.batches import bodies, varints
from aqueduct.kafka.batches.batch import Batch, damaged
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Mask, Numbers


@dataclass(frozen=True, kw_only=True)
class RecordArrays:
    """Records in the order of their offsets, as parallel arrays."""

    offsets: Numbers
    times: Numbers  # milliseconds since 1970, or -1 for none
    keys: pa.BinaryArray
    values: pa.BinaryArray  # null: a tombstone
    places: RecordPlaces | None  # None: nobody knows their headers

    @classmethod
    def of(cls, batches: Sequence[Batch], payloads: Sequence[bytes] | None = None) -> "RecordArrays":
        """Read records of one batch or more, with `payloads` if unpacked already; Damaged at wrong bytes."""
        return cls.at(RecordPlaces.of(batches, payloads), batches)

    @classmethod
    def at(cls, read: RecordPlaces, batches: Sequence[Batch]) -> "RecordArrays":
        """Read the records of these batches whose places are known; Damaged at wrong bytes."""
        array = np.frombuffer(read.data, np.uint8)
        try:
            keys, after = _fields(read.data, array, read.begins)
            values, after = _fields(read.data, array, after)
        except (IndexError, ValueError):
            after = read.ends + 1
        if (after > read.ends).any():
            raise damaged(batches[0], "a record in it, or in one of the next, ends before its value")
        return cls(offsets=read.offsets, times=read.times, keys=keys, values=values, places=read)

    def __len__(self) -> int:
        return len(self.offsets)

    def where(self, keep: Mask) -> "RecordArrays":
        chosen = pa.array(keep)
        places = self.places.where(keep) if self.places else None
        keys, values = self.keys.filter(chosen), self.values.filter(chosen)
        return RecordArrays(
            offsets=self.offsets[keep], times=self.times[keep], keys=keys, values=values, places=places
        )

    def header(self, name: bytes) -> pa.BinaryArray:
        """Return a header's value of each record, its last one if there are several; null without one."""
        if self.places is None:
            return pa.nulls(len(self), pa.binary())
        return pa.array([dict(bodies.headers(body)).get(name) for body in self.places.bodies], pa.binary())


def _fields(buffer: bytes, array: varints.Bytes, starts: Numbers) -> tuple[pa.BinaryArray, Numbers]:
    """Return the fields that begin there, length first, and where they end.

    IndexError or ValueError beyond the data.
    """
    begins, ends, null = varints.fields(array, starts)
    return cut_out(buffer, begins, ends, null), ends


def cut_out(buffer: bytes, begins: Numbers, ends: Numbers, null: Mask | None = None) -> pa.BinaryArray:
    """Return what is between these places; null where it says so."""
    pieces = map(buffer.__getitem__, map(slice, begins.tolist(), ends.tolist()))
    return pa.array(pieces, pa.binary(), mask=null, size=len(begins))
