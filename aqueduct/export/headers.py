"""Headers of records as an Arrow list of each, read one header of all records after the other."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aqueduct.kafka.batches import varints
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Numbers
from aqueduct.land.records import cut_out
from aqueduct.land.times import Mask

# Of a record. Each is a step over all records; and 100 MB, which a batch may have, are 50 million headers.
MOST_HEADERS = 1_000
RAW = pa.list_(
    pa.field("item", pa.struct([pa.field("key", pa.binary(), False), ("value", pa.binary())]), False)
)


@dataclass(frozen=True)
class ReadHeaders:
    lists: pa.ListArray  # of RAW; empty where there are too many
    too_many: Mask


def read(places: RecordPlaces) -> ReadHeaders:
    """Read the headers of records; IndexError or ValueError where these are no records."""
    array = np.frombuffer(places.data, np.uint8)
    positions = places.begins
    for _ in ("key", "value"):
        lengths, positions = varints.get(array, positions)
        positions = positions + np.maximum(lengths, 0)
    counts, positions = varints.get(array, positions)
    if (counts < 0).any():
        raise ValueError("a number of headers is below 0")
    too_many = counts > MOST_HEADERS
    counts = np.where(too_many, 0, counts)
    steps = []
    rows = np.flatnonzero(counts)
    while len(rows):
        lengths, begins = _length(array, positions[rows])
        if (lengths < 0).any():
            raise ValueError("a header has no name")
        value_lengths, value_begins = _length(array, begins + lengths)
        ends = value_begins + np.maximum(value_lengths, 0)
        steps.append(np.array([rows, begins, begins + lengths, value_begins, ends, value_lengths < 0]))
        positions[rows] = ends
        rows = rows[counts[rows] > len(steps)]
    if (positions != places.ends)[~too_many].any():
        raise ValueError("the headers do not end with their record")
    return ReadHeaders(_lists(places.data, counts, steps), too_many)


def _length(array: varints.Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Return lengths, and where what is so long begins."""
    lengths, begins = varints.get(array, positions)
    if (lengths > len(array)).any():
        raise ValueError("a field is longer than all records")
    return lengths, begins


def _lists(content: bytes, counts: Numbers, steps: list[Numbers]) -> pa.ListArray:
    spans = np.concatenate(steps, axis=1) if steps else np.zeros((6, 0), np.int64)
    # By records, and of one in their order.
    _, begins, ends, value_begins, value_ends, null = spans[:, np.argsort(spans[0], kind="stable")]
    keys = cut_out(content, begins, ends)
    values = cut_out(content, value_begins, value_ends, null.astype(np.bool_))
    items = pa.StructArray.from_arrays([keys, values], fields=list(RAW.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, type=RAW)
