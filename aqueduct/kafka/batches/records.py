"""The records inside batches, for who must look: the time and the offset of each, and the rest as it is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aqueduct.kafka.batches import codecs, varints
from aqueduct.kafka.batches.batch import (
    CODEC,
    HEADER,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    Batch,
    Damaged,
    damaged,
    seal,
    unpack,
)
from aqueduct.kafka.batches.varints import Numbers

MOST_SHIFT = 28  # of a length's last byte: it is a number of 32 bits
NO_PRODUCER = -1, -1, -1  # its id, its epoch, the batch's first sequence number


class Record(NamedTuple):
    timestamp: int  # milliseconds since 1970, or -1 for none
    offset: int
    body: bytes  # key, value and headers as they stand in the batch


class RecordPlaces(NamedTuple):
    """Where the bodies of records are in unpacked batches, in the order of offsets, as parallel columns."""

    times: Numbers
    offsets: Numbers
    data: bytes
    begins: Numbers
    ends: Numbers

    @classmethod
    def of(cls, batches: Sequence[Batch], payloads: Sequence[bytes] | None = None) -> "RecordPlaces":
        """Read records of one batch or more, with `payloads` if unpacked already; Damaged at wrong bytes."""
        payloads = [unpack(batch) for batch in batches] if payloads is None else payloads
        try:
            return cls._parsed(batches, payloads)
        except (IndexError, ValueError):
            if len(batches) > 1:
                for pair in zip(batches, payloads, strict=True):  # which one?
                    cls.of(pair[:1], pair[1:])
            raise damaged(batches[0], "its records are shorter than the batch") from None

    @classmethod
    def _parsed(cls, batches: Sequence[Batch], payloads: Sequence[bytes]) -> "RecordPlaces":
        starts, edges = _edges(batches, payloads)
        joined, ends = b"".join(payloads), np.array(edges, np.int64)
        array = np.frombuffer(joined, np.uint8)
        # A record is its attributes (one byte, without a meaning so far), two deltas and the body.
        times, after = varints.get(array, np.array(starts, np.int64) + 1)
        offsets, after = varints.get(array, after)
        if (after > ends).any():
            raise ValueError("a record ends before its body")
        _, base_offsets, _, attributes, base_times, max_times, _, counts = zip(*batches, strict=True)
        of_batch = np.repeat(np.arange(len(batches)), counts)
        offsets += np.array(base_offsets)[of_batch]
        by_broker = (np.array(attributes) & LOG_APPEND_TIME > 0)[of_batch]
        times = np.where(by_broker, np.array(max_times)[of_batch], times + np.array(base_times)[of_batch])
        return cls(times, offsets, joined, after, ends)

    def where(self, keep: NDArray[np.bool_]) -> "RecordPlaces":
        return self._replace(
            times=self.times[keep], offsets=self.offsets[keep], begins=self.begins[keep], ends=self.ends[keep]
        )

    @property
    def bodies(self) -> list[bytes]:
        return list(map(self.data.__getitem__, map(slice, self.begins.tolist(), self.ends.tolist())))


@dataclass(frozen=True)
class Records:
    """Records in the order of their offsets, as parallel columns."""

    times: Numbers
    offsets: Numbers
    bodies: list[bytes]

    @classmethod
    def of(cls, batches: Sequence[Batch], payloads: Sequence[bytes] | None = None) -> "Records":
        """Read records of one batch or more, with `payloads` if unpacked already; Damaged at wrong bytes."""
        places = RecordPlaces.of(batches, payloads)
        return cls(places.times, places.offsets, places.bodies)

    @classmethod
    def listed(cls, records: Iterable[Record]) -> "Records":
        rows = list(records)
        times, offsets, bodies = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(np.array(times, np.int64), np.array(offsets, np.int64), list(bodies))

    def __iter__(self) -> Iterator[Record]:
        return map(Record, self.times.tolist(), self.offsets.tolist(), self.bodies)

    def __len__(self) -> int:
        return len(self.bodies)

    def __getitem__(self, part: slice) -> "Records":
        return Records(self.times[part], self.offsets[part], self.bodies[part])

    def where(self, keep: NDArray[np.bool_]) -> "Records":
        return Records(self.times[keep], self.offsets[keep], list(compress(self.bodies, keep.tolist())))


def records(batch: Batch) -> Iterator[Record]:
    return iter(Records.of([batch]))


def readable(batches: Iterable[Batch], set_aside: Callable[[Batch, Exception], None]) -> Iterator[Record]:
    """Yield the records of batches; `set_aside` gets each that can't be read, or unpacks to too much."""
    for batch in batches:
        try:
            batch_records = list(records(batch))
        except (Damaged, IndexError, ValueError) as error:
            set_aside(batch, error)
        else:
            yield from batch_records


def build(
    records: Records,
    *,
    codec: str = "none",
    attributes: int = 0,
    base_time: int | None = None,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> bytearray:
    """Return a whole batch of one record or more, from the first one's offset to the last one's.

    `attributes`: the bits beside the codec's. `base_time`: from which the records' times are counted, by
    default the first one's.
    """
    start = int(records.times[0]) if base_time is None else base_time
    parts = _parts(records, start)
    if codec != "none":
        parts = iter([codecs.compress(codec, b"".join(parts))])
    encoded = bytearray().join(chain([bytes(HEADER.size)], parts))
    first, last = records.offsets[[0, -1]].tolist()
    HEADER.pack_into(
        encoded,
        0,
        first,
        len(encoded) - LENGTH_FROM,
        -1,  # leader epoch
        MAGIC,
        0,  # the CRC comes last
        attributes & ~CODEC | codecs.CODECS.index(codec),
        last - first,
        start,
        int(records.times.max()),
        *producer,
        len(records),
    )
    seal(encoded)
    return encoded


def _edges(batches: Sequence[Batch], payloads: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """Find where each record starts (after its length, a varint) and ends in the joined payloads.

    A loop, and a tight one: only a record's length says where the next one is.
    """
    starts: list[int] = []
    ends: list[int] = []
    base = 0
    for batch, payload in zip(batches, payloads, strict=True):
        position = 0
        for _ in range(batch.count):
            byte = size = payload[position]
            position += 1
            shift = 0
            while byte >= 0x80:
                shift += 7
                if shift > MOST_SHIFT:
                    raise ValueError("a length has more than 32 bits")
                byte = payload[position]
                size += (byte - 1) << shift  # less the bit that said that this byte follows
                position += 1
            starts.append(base + position)
            position += size >> 1
            ends.append(base + position)
        if position != len(payload):
            raise ValueError("the records are shorter than the batch")
        base += position
    return starts, ends


def _parts(records: Records, base_time: int) -> Iterator[bytes]:
    """Encode the records one after the other, uncompressed."""
    times = varints.zigzag(records.times - base_time)
    offsets = varints.zigzag(records.offsets - records.offsets[0])
    bodies = np.fromiter(map(len, records.bodies), np.int64, len(records))
    time_sizes, offset_sizes = varints.sizes(times), varints.sizes(offsets)
    lengths = varints.zigzag(1 + time_sizes + offset_sizes + bodies)
    length_sizes = varints.sizes(lengths)

    # What comes before the bodies is made all at once, one after the other, and then cut.
    edges = np.zeros(len(records) + 1, np.int64)
    np.cumsum(length_sizes + 1 + time_sizes + offset_sizes, out=edges[1:])
    fronts = np.zeros(edges[-1], np.uint8)
    varints.put(fronts, edges[:-1], lengths)
    varints.put(fronts, edges[:-1] + length_sizes + 1, times)
    varints.put(fronts, edges[1:] - offset_sizes, offsets)
    cuts = map(fronts.tobytes().__getitem__, starmap(slice, pairwise(edges.tolist())))
    return chain.from_iterable(zip(cuts, records.bodies, strict=True))
