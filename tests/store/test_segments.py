"""Segments of more than one frame."""

import os
from collections.abc import Iterator
from pathlib import Path

import made_store
import numpy as np
import pytest
import zstandard
from kit.identifiers import raises

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.mirror.reconcile import store_reader
from aqueduct.store import segments, validation
from aqueduct.store.backends import open_store
from aqueduct.store.manifest import StoredPartition
from aqueduct.store.segments import FRAME_BYTES, SegmentLimits, Writer

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


def test_segment_of_several_frames_returns_written_batches(tmp_path: Path) -> None:
    objects = open_store(tmp_path.as_uri())
    writer = Writer(
        objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=SegmentLimits(128 << 20)
    )
    written = list(_batches(12))
    for batch in written:
        assert writer.add([batch], batch.last_offset + 1) == []
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


def test_batch_above_unpacking_limit_is_stored_uncompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_UNPACKED", 1 << 20)
    monkeypatch.setattr(segments, "BATCH_FACTOR", 1)
    objects = open_store(tmp_path.as_uri())
    writer = Writer(objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=SegmentLimits())
    written = list(_batches(4))  # the second and the fourth one are too large
    made = writer.add(written, 4)
    made += filter(None, [writer.finish()])
    assert [(each.start, each.stop, each.compressed) for each in made] == [
        (0, 1, True),
        (1, 3, False),
        (3, 4, False),
    ]
    found = [batch for each in made for batch in segments.batches(each, segments.read(objects, each))]
    assert [bytes(each.data) for each in found] == [bytes(each.data) for each in written]


@pytest.mark.parametrize("length", [(1 << 31) - 1, 2 << 20])
def test_stored_batch_with_excessive_stated_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(segments, "MOST_UNPACKED", 1 << 20)
    objects = open_store(tmp_path.as_uri())
    writer = Writer(objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=SegmentLimits())
    writer.add(list(_batches(1)), 1)
    segment = writer.finish()
    assert segment
    header = bytearray(next(_batches(1)).data[:61])
    header[8:12] = length.to_bytes(4)
    packed = zstandard.ZstdCompressor().compress(bytes(header) + bytes(9))
    with raises(
        Failed, "decompression-limit-exceeded", segment.path, f"{length + 12:,} bytes", f"{1 << 20:,}"
    ):
        list(segments.batches(segment, memoryview(packed)))


def test_large_upload_does_not_raise_batch_size_limit(tmp_path: Path) -> None:
    """A batch may have 100 times the size of the stored segment, up to a limit that no batch reaches."""
    objects = open_store(tmp_path.as_uri())
    writer = Writer(objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=SegmentLimits())
    writer.add(list(_batches(1)), 1)
    segment = writer.finish()
    assert segment
    header = bytearray(next(_batches(1)).data[:61])
    header[8:12] = (300 << 20).to_bytes(4)
    upload = os.urandom(4 << 20)  # that is nearly as large when it is stored
    packed = zstandard.ZstdCompressor().compress(bytes(header) + upload)
    planted = segment._replace(unpacked_bytes=validation.MOST_OBJECT_BYTES)
    with raises(Failed, "decompression-limit-exceeded", "268,435,456"):
        list(segments.batches(planted, memoryview(packed)))


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("lacking", [1, 100, 61])
def test_segment_that_ends_within_batch_is_damaged(
    lacking: int, compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compressed:
        monkeypatch.setattr(segments, "MOST_UNPACKED", 1)
        monkeypatch.setattr(segments, "BATCH_FACTOR", 1)
    writer = Writer(
        open_store(tmp_path.as_uri()),
        StoredPartition("t", 1, 0),
        "0a",
        0,
        generation=False,
        limits=SegmentLimits(),
    )
    batch = made_store.batch(range(10))
    made = [*writer.add([batch], 10), *filter(None, [writer.finish()])]
    assert [each.compressed for each in made] == [compressed]
    cut = bytes(batch.data)[:-lacking]
    stored = zstandard.ZstdCompressor().compress(cut) if compressed else cut
    with pytest.raises(Failed) as error:
        list(segments.batches(made[0], memoryview(stored)))
    assert error.value.id == "object-damaged"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (SegmentLimits(records=500), [(0, 500), (500, 1000), (1000, 1203)]),
        (SegmentLimits(records=550), [(0, 600), (600, 1203)]),
        (SegmentLimits(unpacked_bytes=1), [*((at, at + 100) for at in range(0, 1100, 100)), (1100, 1203)]),
        (SegmentLimits(), [(0, 1203)]),
    ],
)
def test_segment_ends_with_batch_that_fills_it(
    limits: SegmentLimits, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Twelve batches of 100 records; behind the last one there are three offsets without any."""
    objects = open_store(tmp_path.as_uri())
    written = [made_store.batch(range(at, at + 100)) for at in range(0, 1200, 100)]
    for number, fetched in enumerate((12, 5, 1)):
        place = StoredPartition("t", 1, number)
        writer = Writer(objects, place, "0a", 0, generation=False, limits=limits)
        made = []
        for at in range(0, 12, fetched):
            some = written[at : at + fetched]
            made += writer.add(some, 1203 if at + fetched >= 12 else some[-1].last_offset + 1)
        made += [last] if (last := writer.finish()) else []
        assert [(each.start, each.stop) for each in made] == expected
        stored = [found for each in made for found in segments.batches(each, segments.read(objects, each))]
        assert [bytes(each.data) for each in stored] == [bytes(each.data) for each in written]


def test_comparison_holds_few_highly_compressed_batches_in_memory(tmp_path: Path) -> None:
    rows = [[Record(1_700_000_000_000, offset, body(None, bytes(60 << 20)))] for offset in range(4)]
    large = [next(walk(build(Records.listed(row), codec="zstd"))) for row in rows]
    objects = open_store(tmp_path.as_uri())
    writer = Writer(objects, StoredPartition("t", 1, 0), "0a", 0, generation=False, limits=SegmentLimits())
    writer.add(large, 4)
    segment = writer.finish()
    assert segment
    assert segment.stored_bytes < 1 << 20
    counts = [
        len(records.offsets)
        for records in store_reader._of_segment(objects, segment, Range("t", 0, 0, 4), None)
    ]
    assert counts == [1, 1, 1, 1]
