"""Batches that a landing reads: those that unpack to too much are skipped, and others come bounded."""

from aqueduct.common.offset_ranges import Range
from aqueduct.kafka.batches.batch import MOST_UNPACKED, Batch, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land.plan import UnopenedRange, joined
from aqueduct.land.task import read_batches

MEBIBYTE = 1 << 20
WHOLE = Range("t", 0, 0, 1_000)


def batch(first: int, records: int, size: int) -> Batch:
    """Return a batch of a few kilobytes whose records have zeros as values."""
    rows = [Record(1_000, offset, body(None, bytes(size))) for offset in range(first, first + records)]
    [made] = walk(build(Records.listed(rows), codec="zstd"))
    return made


def read(within: Range, *batches: Batch) -> tuple[list[int], list[UnopenedRange]]:
    """Return the offsets of the records, and what is not opened."""
    skipped: list[UnopenedRange] = []
    offsets = [
        int(offset) for records in read_batches(batches, within, skipped.append) for offset in records.offsets
    ]
    return offsets, skipped


def test_batch_beyond_decompression_limit_affects_no_other() -> None:
    large = batch(3, 3, 50 * MEBIBYTE)
    assert len(large) < 100_000
    offsets, [skipped] = read(WHOLE, batch(0, 3, 10), large, batch(6, 2, 10))
    assert offsets == [0, 1, 2, 6, 7]
    assert skipped.range == Range("t", 0, 3, 6)
    assert skipped.id == "decompression-limit-exceeded"


def test_batches_are_cut_at_range_ends() -> None:
    within = Range("t", 0, 4, 8)
    large = batch(7, 3, 50 * MEBIBYTE)
    offsets, [skipped] = read(within, batch(2, 4, 10), batch(6, 1, 10), large)
    assert offsets == [4, 5, 6]
    assert skipped.range == Range("t", 0, 7, 8)
    assert read(within, batch(0, 4, 10), batch(8, 2, 10)) == ([], [])


def test_skipped_parts_of_one_batch_are_joined() -> None:
    large = batch(0, 3, 50 * MEBIBYTE)
    parts = [read(Range("t", 0, start, start + 1), large)[1][0] for start in (2, 0, 1)]
    [whole] = joined(parts)
    assert whole.range == Range("t", 0, 0, 3)
    others = [read(Range(topic, 0, 0, 3), large)[1][0] for topic in "tu"]
    assert joined(others) == others


def test_small_batches_with_large_content_are_read_separately() -> None:
    batches = [batch(number, 1, 60 * MEBIBYTE) for number in range(8)]
    assert sum(map(len, batches)) < MEBIBYTE  # so one answer of a broker has all of them
    sizes = [
        sum(len(value.as_buffer()) for value in records.values)
        for records in read_batches(batches, WHOLE, lambda _: None)
    ]
    assert len(sizes) == len(batches)
    assert max(sizes) <= MOST_UNPACKED


def test_small_records_come_many_at_once() -> None:
    batches = [batch(10 * number, 10, 10) for number in range(100)]
    [records] = read_batches(batches, WHOLE, lambda _: None)
    assert len(records) == 1_000
