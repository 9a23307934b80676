"""Records of byte strings that lie somewhere in a file, all at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aqueduct.kafka.batches import records, varints
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.batches.varints import Bytes, Numbers

NULL = -1  # a length
BATCH_BYTES = 512 << 10  # of bodies, about: half of what Kafka takes by default
BATCH_RECORDS = 10_000
MOST_SPAN = 1 << 31  # of a batch's offsets, whose deltas have 32 bits


@dataclass(frozen=True)
class Fields:
    """Where byte strings lie, and how long they are."""

    begins: Numbers
    lengths: Numbers

    @property
    def ends(self) -> Numbers:
        ends: Numbers = self.begins + np.maximum(self.lengths, 0)
        return ends

    def put(self, data: bytes) -> Iterator[bytes]:
        """Yield them as Kafka has them in a record: a varint of the length, and the bytes."""
        found = map(data.__getitem__, map(slice, self.begins.tolist(), self.ends.tolist()))
        return map(bytes.__add__, _varints(self.lengths), found)


@dataclass(frozen=True)
class HeaderFields:
    """Names and values of headers, and how many each record has; all in the order of records."""

    counts: Numbers
    names: Fields
    values: Fields

    def put(self, data: bytes) -> Iterator[bytes]:
        """Yield each record's headers as Kafka has them."""
        pieces = list(map(bytes.__add__, self.names.put(data), self.values.put(data)))
        edges = np.concatenate([[0], np.cumsum(self.counts)]).tolist()
        of_record = map(b"".join, map(pieces.__getitem__, map(slice, edges, edges[1:])))
        return map(bytes.__add__, _varints(self.counts), of_record)


def bodies(data: bytes, keys: Fields, values: Fields, headers: HeaderFields | None = None) -> list[bytes]:
    """Return the bodies of records, as Kafka has them."""
    ends = headers.put(data) if headers else [b"\0"] * len(keys.begins)
    return list(map(b"".join, zip(keys.put(data), values.put(data), ends, strict=True)))


def number(array: Bytes, at: Numbers, size: int) -> Numbers:
    """Return the little-endian number of so many bytes at each position, signed if it has 4 or 8.

    IndexError beyond the array.
    """
    found = np.zeros(len(at), np.uint64)
    for place in range(size):
        found |= array[at + place].astype(np.uint64) << np.uint64(8 * place)
    signed: Numbers = found.view(np.int64)
    return signed.astype(np.int32).astype(np.int64) if size == 4 else signed


def batches(found: Records) -> Iterator[Batch]:
    """Yield whole batches of these records, uncompressed: a segment compresses them together."""
    sizes = np.cumsum(np.fromiter(map(len, found.bodies), np.int64, len(found)))
    at = 0
    while at < len(found):
        before = int(sizes[at - 1]) if at else 0
        stop = int(np.searchsorted(sizes, before + BATCH_BYTES, side="right"))
        near = int(np.searchsorted(found.offsets, found.offsets[at] + MOST_SPAN))
        stop = max(at + 1, min(stop, at + BATCH_RECORDS, near))
        yield from walk(records.build(found[at:stop]), check_crc=False)
        at = stop


def _varints(numbers: Numbers) -> Iterator[bytes]:
    zigzags = varints.zigzag(numbers)
    edges = np.concatenate([[0], np.cumsum(varints.sizes(zigzags))])
    out = np.zeros(edges[-1], np.uint8)
    varints.put(out, edges[:-1], zigzags)
    return map(out.tobytes().__getitem__, (slice(*pair) for pair in pairwise(edges.tolist())))
