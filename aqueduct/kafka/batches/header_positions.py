"""Where the headers of records are, found one header of all records after the other."""

from typing import NamedTuple

import numpy as np

from aqueduct.kafka.batches import varints
from aqueduct.kafka.batches.records import RecordPlaces
from aqueduct.kafka.batches.varints import Bytes, Mask, Numbers

# Of a record. Each is a step over all records; and 100 MB, which a batch may have, are 50 million headers.
MOST_HEADERS = 1_000


class HeaderPlaces(NamedTuple):
    """The headers of records, by records and in their order, as parallel columns."""

    rows: Numbers  # the record's
    begins: Numbers  # of names
    ends: Numbers
    value_begins: Numbers
    value_ends: Numbers
    null: Mask  # values
    counts: Numbers  # of headers, by record; 0 where there are too many
    too_many: Mask  # by record

    @classmethod
    def of(cls, places: RecordPlaces) -> "HeaderPlaces":
        """Read the headers of records; IndexError or ValueError if the bytes are not records."""
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
            raise ValueError("the headers of a record do not end at the end of the record")
        columns = np.concatenate(steps, axis=1) if steps else np.zeros((6, 0), np.int64)
        rows, begins, ends, value_begins, value_ends, null = columns[:, np.argsort(columns[0], kind="stable")]
        return cls(
            rows=rows,
            begins=begins,
            ends=ends,
            value_begins=value_begins,
            value_ends=value_ends,
            null=null.astype(np.bool_),
            counts=counts,
            too_many=too_many,
        )


def _length(array: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Return lengths, and where what is so long begins."""
    lengths, begins = varints.get(array, positions)
    if (lengths > len(array)).any():
        raise ValueError("a field is longer than all records")
    return lengths, begins
