"""Batches that are cut; tests/batches compares the records that stay with another decoder's answer."""

from dataclasses import replace

import pytest

from aqueduct.kafka.batches.batch import DELETE_HORIZON, LOG_APPEND_TIME, Batch, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.records import Record, Records, build, records

ROWS = [Record(2000, 10, b"a"), Record(1000, 12, b"b"), Record(3000, 15, b"c")]
ALL = Window(start=10, stop=16, first_time=1000, last_time=3000)


def batch(**more: object) -> Batch:
    (found,) = walk(build(Records.listed(ROWS), **more))  # type: ignore[arg-type]
    return found


def left(batch: Batch, window: Window) -> list[bytes]:
    found = cut(batch, window)
    return [each.body for each in records(found)] if found else []


@pytest.mark.parametrize("window", [Window(), ALL, replace(ALL, first_time=-1), Window(first_time=0)])
def test_the_whole_batch_stays_itself(window: Window) -> None:
    whole = batch()
    assert cut(whole, window) is whole


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(start=11), [b"b", b"c"]),
        (Window(start=15), [b"c"]),
        (Window(start=16), []),
        (Window(stop=10), []),
        (Window(stop=11), [b"a"]),
        (Window(stop=15), [b"a", b"b"]),
        (Window(start=13, stop=15), []),  # a hole
        (Window(first_time=1001), [b"a", b"c"]),
        (Window(first_time=3000), [b"c"]),
        (Window(first_time=3001), []),
        (Window(last_time=2999), [b"a", b"b"]),
        (Window(last_time=1000), [b"b"]),
        (Window(last_time=999), []),
        (Window(start=11, first_time=1001, last_time=2999), []),
    ],
)
def test_edges(window: Window, expected: list[bytes]) -> None:
    assert left(batch(), window) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_kept(codec: str) -> None:
    whole = batch(codec=codec, attributes=DELETE_HORIZON, base_time=9000, producer=(4, 5, 6))
    found = cut(whole, Window(start=12))
    assert found
    assert list(records(found)) == ROWS[1:]
    assert (found.attributes, found.base_time, found.producer_id) == (whole.attributes, 9000, 4)
    assert found.data[51:57] == whole.data[51:57]  # the producer's epoch and sequence
    assert (found.base_offset, found.last_offset, found.max_time) == (12, 15, 3000)
    assert next(walk(found.data)) == found


def test_times_of_the_broker() -> None:
    whole = batch(attributes=LOG_APPEND_TIME)  # so all of them are 3000
    assert cut(whole, Window(first_time=3000)) is whole
    assert cut(whole, Window(last_time=2999)) is None
    found = cut(whole, Window(stop=15, first_time=3000))
    assert found
    assert [each.timestamp for each in records(found)] == [3000, 3000]


def test_cut_removes_offsets_of_compacted_records_beyond_window() -> None:
    data = bytearray(batch().data)
    data[23:27] = (9).to_bytes(4)  # the last offset's record, 19, was compacted
    (whole,) = walk(data, check_crc=False)
    assert whole.last_offset == 19
    assert cut(whole, Window(stop=20)) is whole
    found = cut(whole, Window(stop=16))
    assert found
    assert found.last_offset == 15
    assert list(records(found)) == ROWS


def test_the_header_decides_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct.kafka.batches.cutting.Records", None)
    whole = batch()
    assert cut(whole, Window(start=10, stop=16, last_time=3000)) is whole
    assert cut(whole, Window(first_time=3001)) is None
    (single,) = walk(build(Records.listed(ROWS[:1])))
    assert cut(single, Window(first_time=2000)) is single
    assert cut(single, Window(last_time=1999)) is None
