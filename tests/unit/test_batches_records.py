from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.kafka.batches import plain_records
from aqueduct.kafka.batches.batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MOST_RECORDS,
    Batch,
    Damaged,
    Unopened,
    seal,
    unpack,
    walk,
)
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.records import Record, Records, build, records

ROWS = [Record(2000, 5, b"one"), Record(1000, 7, b""), Record(-1, 8, b"three" * 4000)]
bodies = st.binary(max_size=10) | st.sampled_from([bytes(60), bytes(200), bytes(20_000)])


def batch(rows: list[Record] = ROWS, **more: object) -> Batch:
    (found,) = walk(build(Records.listed(rows), **more))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("base_time", [None, 0, 2**62])
def test_what_is_built_is_read(codec: str, base_time: int | None) -> None:
    found = batch(codec=codec, base_time=base_time)
    assert list(records(found)) == ROWS
    assert (found.base_offset, found.last_offset, found.count, found.codec) == (5, 8, 3, codec)
    assert (found.base_time, found.max_time) == (2000 if base_time is None else base_time, 2000)


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), bodies), min_size=1, max_size=20))
def test_any_times_and_bodies(parts: list[tuple[int, bytes]]) -> None:
    rows = [Record(time, offset, body) for offset, (time, body) in enumerate(parts)]
    assert list(records(batch(rows))) == rows


def test_records_of_many_batches() -> None:
    """Check times and offsets: each batch counts from its own, or has the broker's."""
    more = [Record(70, 90, b"x"), Record(60, 91, b"y")]
    batches = [batch(), batch(more, codec="zstd", attributes=LOG_APPEND_TIME), batch(more, codec="lz4")]
    expected = [*ROWS, *(row._replace(timestamp=70) for row in more), *more]
    assert list(Records.of(batches)) == expected
    assert list(Records.of(batches, [unpack(each) for each in batches])) == expected
    assert Records.of(batches[1:])[1:3].offsets.tolist() == [91, 90]
    assert list(Records.of(batches).where(np.arange(7) == 2)) == [ROWS[2]]


def test_a_delete_horizon_is_what_times_count_from() -> None:
    found = batch(base_time=5000, attributes=DELETE_HORIZON)
    assert found.base_time == 5000
    assert list(records(found)) == ROWS


def test_a_batch_whose_records_were_all_compacted() -> None:
    header = bytearray(batch().data[:61])
    header[8:12], header[57:61] = (49).to_bytes(4), bytes(4)
    seal(header)
    (empty,) = walk(header)
    assert list(records(empty)) == []
    assert list(Records.of([batch(), empty, batch()])) == [*ROWS, *ROWS]


def test_no_rows() -> None:
    assert len(Records.listed([])) == 0


@pytest.mark.parametrize("codec", CODECS[1:])
def test_damage_that_the_crc_covers_up_is_named(codec: str) -> None:
    data = bytearray(build(Records.listed(ROWS), codec=codec)[:-3])
    data[8:12] = (len(data) - 12).to_bytes(4)
    seal(data)
    (found,) = walk(data)
    with raises(Damaged, "batch-damaged", "offset 5", codec):
        unpack(found)


def test_record_count_beyond_limit_is_named() -> None:
    data = bytearray(batch().data)
    data[57:61] = (2**31 - 1).to_bytes(4)
    (wrong,) = walk(data, check_crc=False)
    for read in (lambda: Records.of([wrong]), lambda: [*plain_records.bodies(wrong)]):
        with raises(Unopened, "decompression-limit-exceeded", "offset 5", "2,147,483,647 records"):
            read()


@pytest.mark.parametrize("count", [1, 2, 4, MOST_RECORDS])
def test_a_wrong_count_is_named(count: int) -> None:
    data = bytearray(batch().data)
    data[57:61] = count.to_bytes(4)
    (wrong,) = walk(data, check_crc=False)
    with raises(Damaged, "batch-damaged", "offset 5"):
        Records.of([batch([Record(1, 1, b"right")]), wrong])


def test_record_too_short_for_its_deltas_is_named() -> None:
    found = batch()
    payload = bytes([2, 0]) + unpack(found)
    with raises(Damaged, "batch-damaged", "offset 5"):
        Records.of([Batch(*found[:-1], count=4)], [payload])


@given(st.binary(max_size=60), st.integers(0, 4))
def test_no_bytes_break_it(payload: bytes, count: int) -> None:
    data = bytearray(batch().data[:61]) + payload
    data[8:12], data[57:61] = (len(data) - 12).to_bytes(4), count.to_bytes(4)
    (found,) = walk(data, check_crc=False)
    with suppress(Damaged):
        assert len(list(records(found))) == count
