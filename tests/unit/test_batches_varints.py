import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.batches.varints import get, put, sizes, zigzag

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200), max_size=30)


def scalar(number: int) -> bytes:
    left = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


@given(numbers)
def test_many_at_once_are_as_one_by_one(expected: list[int]) -> None:
    parts = [scalar(each) for each in expected]
    zigzags = zigzag(np.array(expected, np.int64))
    assert sizes(zigzags).tolist() == [len(part) for part in parts]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = ends - sizes(zigzags)
    out = np.zeros(len(b"".join(parts)), np.uint8)
    put(out, starts, zigzags)
    assert out.tobytes() == b"".join(parts)
    found, after = get(out, starts)
    assert found.tolist() == expected
    assert after.tolist() == ends.tolist()


def test_beyond_the_data() -> None:
    with pytest.raises(IndexError):
        get(np.array([0x80], np.uint8), np.array([0]))


def test_too_many_bits() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        get(np.full(11, 0x80, np.uint8), np.array([0]))
