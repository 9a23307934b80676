"""Segments of more than one frame."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zstandard

from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.manifest import StoredPartition
from aqueduct.store.segments import FRAME_BYTES, Limits, Writer

SIZES = 64 << 10, 3 * FRAME_BYTES, 1, FRAME_BYTES - 200, 300  # of the batches, in turn


def _batches(count: int) -> Iterator[Batch]:
    chance = np.random.default_rng(4)
    for offset in range(count):
        value = chance.integers(0, 16, SIZES[offset % len(SIZES)], np.uint8).tobytes()
        length = bytearray()
        rest = 2 * len(value)
        while rest > 0x7F:
            length.append(rest & 0x7F | 0x80)
            rest >>= 7
        body = b"\x01" + length + bytes([rest]) + value + b"\0"  # no key, no headers
        yield from walk(build(Records.listed([Record(1_700_000_000_000, offset, body)])))


def test_frames_come_back_as_the_batches_that_they_hold(tmp_path: Path) -> None:
    objects = open_store(tmp_path.as_uri())
    writer = Writer(objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=Limits(128 << 20))
    written = list(_batches(12))
    for batch in written:
        assert writer.add([batch], batch.last_offset + 1) is None
    segment = writer.finish()
    assert segment
    assert segment.compressed
    stored = segments.read(objects, segment)
    assert [bytes(each.data) for each in segments.batches(segment, stored)] == [
        bytes(each.data) for each in written
    ]
    first = zstandard.ZstdDecompressor().decompressobj()
    first.decompress(stored)
    assert first.unused_data  # more than one frame, so that this test is of several
