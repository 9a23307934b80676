"""Updates of accumulators: two whole numbers are one, and nothing else is."""

import io
import os
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.work import updates


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


def received(*pickled: bytes) -> list[Any]:
    """Return what the server of PySpark gets."""
    stream = io.BytesIO(b"".join(struct.pack("!i", len(each)) + each for each in pickled))
    return [updates.Updates()._read_with_length(stream) for _ in pickled]


@given(st.integers(0, 2**31), st.integers(-(2**63), 2**63 - 1))
def test_two_numbers_are_an_update(id_: int, number: int) -> None:
    assert updates.parse(pickle.dumps((id_, number), 5)) == (id_, number)


@pytest.mark.parametrize(
    "value", [(1, Runs()), (1, 1.0), (1, True), (1, "1"), (1,), (1, 1, 1), [1, 1], Runs(), (1, 2**80)]
)
def test_anything_else_is_reported_and_not_run(value: Any) -> None:
    assert updates.parse(pickle.dumps(value, 5)) is None
    assert received(pickle.dumps(value, 5)) == [updates.NOBODY]
    assert updates.take_invalid()
    assert not updates.take_invalid()


def test_what_follows_a_large_one_is_read() -> None:
    assert received(b"x" * 1_000_000, pickle.dumps((3, 5), 5)) == [updates.NOBODY, (3, 5)]
    assert updates.take_invalid()


@given(st.binary(max_size=40))
def test_any_bytes_are_an_update_or_none(data: bytes) -> None:
    found = updates.parse(data)
    assert found is None or pickle.loads(data) == found  # noqa: S301  two numbers
