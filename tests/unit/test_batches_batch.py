import struct
from contextlib import suppress

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.kafka.batches.batch import DELETE_HORIZON, Damaged, seal, walk
from aqueduct.kafka.batches.records import Record, Records, build


def batch(offset: int = 0, count: int = 1, size: int = 20, **more: int) -> bytes:
    rows = [Record(1000 + number, offset + number, bytes(size)) for number in range(count)]
    return bytes(build(Records.listed(rows), **more))


DATA = batch(0, 3) + batch(5, 1) + batch(6, 2, 70_000)  # the last one's CRC is computed in another way


def test_a_batch_is_told_by_its_header() -> None:
    assert google_crc32c.implementation == "c"
    first, second, third = walk(DATA)
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 3)
    assert (second.base_offset, second.last_offset, second.count) == (5, 5, 1)
    assert (third.base_time, third.max_time) == (1000, 1001)
    assert (third.codec, third.producer_id, third.dense) == ("none", -1, True)
    assert [len(each) for each in (first, second)] == [len(batch(0, 3)), len(batch(5, 1))]
    assert len(third) > 140_000
    assert b"".join(each.data for each in (first, second, third)) == DATA


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_walked(kind: type) -> None:
    assert list(walk(kind(DATA))) == list(walk(DATA))


@given(st.integers(0, len(DATA)))
def test_a_cut_batch_is_left_out(length: int) -> None:
    edges = [0, *np.cumsum([len(each) for each in walk(DATA)]).tolist()]
    assert sum(len(each) for each in walk(DATA[:length])) == max(edge for edge in edges if edge <= length)


@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_flipped_bit_outside_broker_fields_is_found(position: int, bit: int) -> None:
    flipped = bytearray(DATA)
    flipped[position] ^= 1 << bit
    whole = list(walk(DATA))
    start = max(start for start in (0, len(whole[0]), len(whole[0]) + len(whole[1])) if start <= position)
    if position - start < 8 or 12 <= position - start < 16:  # base offset, leader epoch
        assert [each.count for each in walk(flipped)] == [each.count for each in whole]
        return
    try:
        found = sum(len(each) for each in walk(flipped))
    except Damaged:
        return
    assert found < len(DATA)  # a length beyond the end: a batch that seems to be cut


@pytest.mark.parametrize(
    ("at", "form", "value", "facts"),
    [
        (8, ">i", 48, ("offset 7", "length 48")),
        (8, ">i", -1, ("offset 7", "length -1")),
        (16, ">b", 1, ("offset 7", "format 1", "format 2")),
        (17, ">I", 0, ("offset 7", "CRC")),
    ],
)
def test_damage_is_named(at: int, form: str, value: int, facts: tuple[str, ...]) -> None:
    data = bytearray(batch(6) + batch(7))
    struct.pack_into(form, data, len(data) // 2 + at, value)
    found = []
    with raises(Damaged, "batch-damaged", *facts):
        found.extend(walk(data))
    if at == 17:
        assert [each.base_offset for each in walk(data, check_crc=False)] == [6, 7]


@pytest.mark.parametrize(("offset", "is_whole"), [((1 << 63) - 2, True), ((1 << 63) - 1, False)])
def test_no_offset_is_larger_than_the_largest(offset: int, is_whole: bool) -> None:
    """No CRC covers the first offset: whoever writes to a store or a line sets it."""
    encoded = bytearray(batch(0, count=2))
    struct.pack_into(">q", encoded, 0, offset)
    if is_whole:
        assert [each.last_offset for each in walk(encoded)] == [(1 << 63) - 1]
        return
    with raises(Damaged, "batch-damaged", offset, offset + 1):
        list(walk(encoded))


def test_an_unknown_codec_is_named() -> None:
    data = bytearray(batch(7))
    data[22] = 5
    seal(data)
    (found,) = walk(data)
    with raises(Damaged, "batch-damaged", "offset 7", "compression type 5"):
        _ = found.codec


def test_attributes() -> None:
    (plain,) = walk(batch())
    assert [plain.control, plain.transactional, plain.log_append_time] == [False] * 3
    (found,) = walk(batch(attributes=0x08 | 0x10 | 0x20 | DELETE_HORIZON))
    assert found.control
    assert found.transactional
    assert found.log_append_time


def test_offsets_with_holes_are_not_dense() -> None:
    rows = Records.listed([Record(0, 4, b""), Record(0, 6, b"")])
    (found,) = walk(build(rows))
    assert not found.dense


@given(st.binary(max_size=300))
def test_no_bytes_break_it(data: bytes) -> None:
    with suppress(Damaged):
        assert sum(len(each) for each in walk(data, check_crc=False)) <= len(data)


def test_the_crc_of_any_length() -> None:
    """Check also around the length from which it is computed without a copy."""
    for size in (1, 1000, *range(65_440, 65_540, 7), 200_000):
        (found,) = walk(batch(size=size))
        assert found.data[17:21] == google_crc32c.value(found.data[21:].tobytes()).to_bytes(4)
