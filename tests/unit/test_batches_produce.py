"""Batches made ready to produce; tests/batches compares their records with another decoder's answer."""

import os
from collections.abc import Iterable

import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import (
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    MOST_UNPACKED,
    Batch,
    Unopened,
    seal,
    walk,
)
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.produce import MERGED_BYTES, SMALL_BYTES, Ready, ready, stamp
from aqueduct.kafka.batches.records import Record, Records, build, records

LARGE = 2 * MERGED_BYTES


def batch(offset: int, count: int, size: int, **more: object) -> Batch:
    """Build a batch of `count` records of `size` bytes that can't be compressed."""
    rows = [Record(1000 + number, offset + number, os.urandom(size)) for number in range(count)]
    (found,) = walk(build(Records.listed(rows), **more))  # type: ignore[arg-type]
    return found


def stamped(found: Iterable[Ready]) -> list[Batch]:
    batches = []
    for each in found:
        stamp(each.data, producer_id=7, epoch=8, sequence=9, transactional=True)
        batches += walk(each.data)
    return batches


def rows(batches: Iterable[Batch]) -> list[tuple[int, bytes]]:
    return [(each.timestamp, each.body) for batch in batches for each in records(batch)]


@pytest.mark.parametrize("codec", CODECS)
def test_batch_that_is_not_small_keeps_payload(codec: str) -> None:
    source = batch(100, 10, 7000, codec=codec, attributes=DELETE_HORIZON, base_time=5, producer=(1, 2, 3))
    assert len(source) >= SMALL_BYTES
    (found,) = ready([source], max_bytes=LARGE)
    assert (found.count, found.next_offset) == (10, 110)
    stamp(found.data, producer_id=7, epoch=8, sequence=9, transactional=False)
    (written,) = walk(found.data)
    assert written.data[61:] == source.data[61:]
    assert (written.base_offset, written.last_offset, written.count) == (0, 9, 10)
    assert (written.codec, written.attributes) == (codec, CODECS.index(codec))  # no delete horizon
    assert (written.base_time, written.max_time) == (source.base_time, source.max_time)
    assert written.data[12:16] == (-1).to_bytes(4, signed=True)  # leader epoch
    assert written.data[43:57] == (7).to_bytes(8) + (8).to_bytes(2) + (9).to_bytes(4)
    assert source.base_offset == 100  # the source is not touched
    assert next(walk(source.data)) == source


def test_small_batch_without_neighbours_keeps_payload() -> None:
    source = batch(5, 3, 10, codec="gzip")
    (found,) = stamped(ready([source], max_bytes=LARGE))
    assert found.data[61:] == source.data[61:]
    assert found.transactional


@pytest.mark.parametrize("codec", CODECS)
def test_small_neighbours_are_merged(codec: str) -> None:
    sources = [batch(2 * number, 1, 900, codec=codec) for number in range(3000)]
    found = list(ready(sources, max_bytes=LARGE))
    assert len(found) == 3
    assert [each.next_offset for each in found][-1] == 5999
    written = stamped(found)
    assert rows(written) == rows(sources)
    assert all(0.9 * MERGED_BYTES < len(each) <= MERGED_BYTES for each in written[:-1])
    assert {each.codec for each in written} == {codec}


def test_what_ends_a_run() -> None:
    small = [batch(number, 1, 100) for number in range(6)]
    other, large = batch(10, 1, 100, codec="lz4"), batch(20, 10, 10_000)
    sources = [*small[:2], other, *small[2:4], large, *small[4:]]
    found = list(ready(sources, max_bytes=LARGE))
    assert [each.count for each in found] == [2, 1, 2, 10, 2]
    assert rows(stamped(found)) == rows(sources)


def test_what_is_unpacked_at_once_is_bounded() -> None:
    row = Records.listed([Record(0, 0, bytes(1 << 20))])
    sources = [next(walk(build(row, codec="zstd"))) for _ in range(30)]
    assert max(map(len, sources)) < 1000
    assert max(each.count for each in ready(sources, max_bytes=LARGE)) <= 8


@pytest.mark.parametrize("codec", CODECS[1:])
def test_dense_decompression_bomb_is_sent_unopened(codec: str) -> None:
    """It is small as it comes, and a neighbour of small ones; one that is not dense must be opened."""
    (bomb,) = walk(build(Records.listed([Record(1, 5, bytes(9 << 20))]), codec=codec))
    found = list(ready([batch(0, 5, 9, codec=codec), bomb, batch(6, 1, 9, codec=codec)], max_bytes=1 << 24))
    assert [each.count for each in found] == [5, 1, 1]
    assert found[1].data[HEADER.size :] == bomb.data[HEADER.size :]


def test_a_bomb_that_must_be_opened_is_named() -> None:
    (bomb,) = walk(build(Records.listed([Record(1, 5, bytes(MOST_UNPACKED))]), codec="zstd"))
    (by_broker,) = walk(retimed(bomb))
    with raises(Unopened, "decompression-limit-exceeded", "offset 5", "104,857,600 bytes"):
        list(ready([by_broker], max_bytes=1 << 24))


def retimed(batch: Batch) -> bytearray:
    """Return a batch with LogAppendTime."""
    data = bytearray(batch.data)
    data[CRC_FROM + 1] |= LOG_APPEND_TIME
    seal(data)
    return data


def test_times_of_the_broker_become_the_records_own() -> None:
    source = batch(0, 10, 8000, attributes=LOG_APPEND_TIME)
    (found,) = stamped(ready([source], max_bytes=LARGE))
    assert {each.timestamp for each in records(found)} == {1009}
    assert not found.log_append_time
    assert rows([found]) == rows([source])


def test_holes_are_closed() -> None:
    source = Records.listed(Record(0, offset, os.urandom(50_000)) for offset in (7, 9, 10, 20))
    (found,) = ready(walk(build(source)), max_bytes=LARGE)
    assert found.next_offset == 21
    (written,) = stamped([found])
    assert [each.offset for each in records(written)] == [0, 1, 2, 3]


def test_trailing_offsets_without_records_are_covered() -> None:
    data = bytearray(batch(0, 2, 10).data)
    data[23:27] = (9).to_bytes(4)
    (found,) = ready(walk(data, check_crc=False), max_bytes=LARGE)
    assert (found.count, found.next_offset) == (2, 10)


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_are_split(codec: str) -> None:
    source = batch(50, 100, 1000, codec=codec)
    found = list(ready([source], max_bytes=10_000))
    assert all(5000 < len(each.data) <= 10_000 for each in found)
    assert [each.next_offset for each in found][-1] == 150
    assert rows(stamped(found)) == rows([source])


def test_a_record_that_is_too_large_is_named() -> None:
    source = batch(50, 3, 1000)
    found = ready([source, batch(60, 1, 5000)], max_bytes=5000)
    assert next(found).count == 3
    with raises(Failed, "record-too-large", "offset 60", "5000", "max.message.bytes"):
        next(found)


def test_batches_emptied_by_compaction_are_skipped() -> None:
    header = bytearray(batch(3, 1, 1).data[:61])
    header[8:12], header[57:61] = (49).to_bytes(4), bytes(4)
    (empty,) = walk(header, check_crc=False)
    assert list(ready([empty], max_bytes=LARGE)) == []
    (found,) = ready([batch(1, 2, 5), empty, batch(5, 2, 5)], max_bytes=LARGE)
    assert found.count == 4
