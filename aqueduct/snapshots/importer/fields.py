"""Builds records from byte strings at many positions of a file, with vectorized operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aqueduct.kafka.batches import records, varints
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.batches.varints import Bytes, Numbers

NULL = -1  # as a length
BATCH_BYTES = 512 << 10  # of record bodies, approximately: half of Kafka's default limit
BATCH_RECORDS = 10_000
MOST_SPAN = 1 << 31  # of the offsets in a batch, whose deltas have 32 bits


@dataclass(frozen=True)
class Fields:
    """The positions and lengths of byte strings."""

    begins: Numbers
    lengths: Numbers

    @property
    def ends(self) -> Numbers:
        ends: Numbers = self.begins + np.maximum(self.lengths, 0)
        return ends

    def put(self, content: bytes) -> Iterator[bytes]:
        """Yield the byte strings in the format of a Kafka record: a varint of the length, then the bytes."""
        pieces = map(content.__getitem__, map(slice, self.begins.tolist(), self.ends.tolist()))
        return map(bytes.__add__, _varints(self.lengths), pieces)


@dataclass(frozen=True)
class HeaderFields:
    """Names and values of headers, and their number for each record, all in the order of records."""

    counts: Numbers
    names: Fields
    values: Fields

    def put(self, content: bytes) -> Iterator[bytes]:
        """Yield each record's headers in the format of a Kafka record."""
        pieces = list(map(bytes.__add__, self.names.put(content), self.values.put(content)))
        edges = np.concatenate([[0], np.cumsum(self.counts)]).tolist()
        of_record = map(b"".join, map(pieces.__getitem__, map(slice, edges, edges[1:])))
        return map(bytes.__add__, _varints(self.counts), of_record)


def bodies(content: bytes, keys: Fields, values: Fields, headers: HeaderFields | None = None) -> list[bytes]:
    """Return the bodies of records, in Kafka's format."""
    ends = headers.put(content) if headers else [b"\0"] * len(keys.begins)
    return list(map(b"".join, zip(keys.put(content), values.put(content), ends, strict=True)))


def number(array: Bytes, positions: Numbers, size: int) -> Numbers:
    """Return the little-endian integer of `size` bytes at each position. Sizes 4 and 8 are signed.

    IndexError beyond the end of the array.
    """
    unsigned = np.zeros(len(positions), np.uint64)
    for byte_index in range(size):
        unsigned |= array[positions + byte_index].astype(np.uint64) << np.uint64(8 * byte_index)
    signed: Numbers = unsigned.view(np.int64)
    return signed.astype(np.int32).astype(np.int64) if size == 4 else signed


def batches(their_records: Records) -> Iterator[Batch]:
    """Yield complete batches of these records, uncompressed: a segment compresses them together."""
    sizes = np.cumsum(np.fromiter(map(len, their_records.bodies), np.int64, len(their_records)))
    start = 0
    while start < len(their_records):
        before = int(sizes[start - 1]) if start else 0
        stop = int(np.searchsorted(sizes, before + BATCH_BYTES, side="right"))
        near = int(np.searchsorted(their_records.offsets, their_records.offsets[start] + MOST_SPAN))
        stop = max(start + 1, min(stop, start + BATCH_RECORDS, near))
        yield from walk(records.build(their_records[start:stop]), check_crc=False)
        start = stop


def _varints(numbers: Numbers) -> Iterator[bytes]:
    zigzags = varints.zigzag(numbers)
    edges = np.concatenate([[0], np.cumsum(varints.sizes(zigzags))])
    out = np.zeros(edges[-1], np.uint8)
    varints.put(out, edges[:-1], zigzags)
    return map(out.tobytes().__getitem__, (slice(*pair) for pair in pairwise(edges.tolist())))
