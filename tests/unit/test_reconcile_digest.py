import itertools
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aqueduct.mirror.reconcile.digest import BASE, LOG_APPEND_TIME, PRIME, Digest, RangeDigest, RecordColumns

CREATE_TIME = 1

numbers = st.integers(0, 2**64 - 1)
sequences = st.lists(numbers, max_size=60)


def digest(fingerprints: list[int]) -> Digest:
    return Digest.of(np.array(fingerprints, np.uint64))


@given(sequences)
def test_the_digest_is_the_polynomial(fingerprints: list[int]) -> None:
    polynomial = 0
    for each in fingerprints:
        polynomial = (polynomial * BASE + each) % PRIME
    assert digest(fingerprints) == Digest(len(fingerprints), polynomial, sum(fingerprints) % PRIME)


@given(st.integers(0, 70_000), st.integers(0, 2**32 - 1))
def test_large_blocks(length: int, seed: int) -> None:
    """Check blocks long enough to be summed up by themselves, with numbers of all bits."""
    fingerprints = np.random.default_rng(seed).integers(2**64 - 2**20, 2**64, length, np.uint64)
    middle = length // 3
    whole = Digest.of(fingerprints)
    assert whole == Digest.of(fingerprints[:middle]) + Digest.of(fingerprints[middle:])
    assert whole.unordered == sum(fingerprints.tolist()) % PRIME


@given(sequences, st.lists(st.integers(0, 60), max_size=5))
def test_any_split_has_the_same_digest(fingerprints: list[int], cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 60]
    parts = [digest(fingerprints[start:stop]) for start, stop in itertools.pairwise(edges)]
    assert reduce(add, parts) == digest(fingerprints)


@given(sequences, sequences, sequences)
def test_joining_is_associative_with_a_unit(a: list[int], b: list[int], c: list[int]) -> None:
    x, y, z = digest(a), digest(b), digest(c)
    assert (x + y) + z == x + (y + z)
    assert Digest() + x == x + Digest() == x


@given(sequences, st.data())
def test_any_change_changes_it(fingerprints: list[int], data: st.DataObject) -> None:
    assume(fingerprints)
    whole = digest(fingerprints)
    n = data.draw(st.integers(0, len(fingerprints) - 1))
    m = data.draw(st.integers(0, len(fingerprints) - 1))
    other = data.draw(numbers.filter(lambda each: each % PRIME != fingerprints[n] % PRIME))
    assert digest(fingerprints[:n] + fingerprints[n + 1 :]) != whole  # dropped
    assert digest([*fingerprints[: n + 1], *fingerprints[n:]]) != whole  # doubled
    assert digest([*fingerprints[:n], other, *fingerprints[n + 1 :]]) != whole  # changed
    swapped = fingerprints.copy()
    swapped[n], swapped[m] = swapped[m], swapped[n]
    assert (digest(swapped) == whole) == (fingerprints[n] % PRIME == fingerprints[m] % PRIME)
    assert digest(swapped).unordered == whole.unordered


@dataclass(frozen=True)
class FakeMessage:
    fields: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]
    time: int = 0
    time_type: int = CREATE_TIME

    def key(self) -> bytes | None:
        return self.fields[0]

    def value(self) -> bytes | None:
        return self.fields[1]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None if self.fields[2] is None else list(self.fields[2])

    def timestamp(self) -> tuple[int, int]:
        return self.time_type, self.time

    def offset(self) -> int:
        return 7


field = st.none() | st.binary(max_size=3)
fields = st.tuples(
    field,
    field,
    st.none() | st.lists(st.tuples(st.text(max_size=2), field), min_size=1, max_size=3).map(tuple),
)
messages = st.builds(FakeMessage, fields, st.integers(-1, 2**62))


@given(messages, messages)
def test_fingerprints_tell_records_apart(a: FakeMessage, b: FakeMessage) -> None:
    records = RecordColumns.of([a, b])
    first, second = records.fingerprints(with_times=False)
    assert (first == second) == (a.fields == b.fields)
    first, second = records.fingerprints(with_times=True)
    assert (first == second) == (a == b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((None, b"v", None), (b"", b"v", None)),
        ((b"k", None, None), (b"k", b"", None)),
        ((b"ab", b"c", None), (b"a", b"bc", None)),
        ((None, None, (("h", None),)), (None, None, (("h", b""),))),
        ((None, None, (("h", b"1"), ("h", b"2"))), (None, None, (("h", b"2"), ("h", b"1")))),
        ((None, None, (("h", b"1"), ("h", b"1"))), (None, None, (("h", b"1"),))),
        ((None, b"h", None), (None, None, (("h", None),))),
    ],
)
def test_what_other_tools_confuse(a: tuple, b: tuple) -> None:
    first, second = RecordColumns.of([FakeMessage(a), FakeMessage(b)]).contents
    assert first != second


@given(st.binary(), st.binary(), st.integers(0, 2**62), st.integers(1, 1000))
def test_swapped_times_are_not_the_same_records(one: bytes, other: bytes, time: int, later: int) -> None:
    assume(one != other)
    a, b = FakeMessage((one, None, None), time), FakeMessage((other, None, None), time + later)
    swapped = [replace(a, time=b.time), replace(b, time=a.time)]
    reading, changed = RangeDigest.of(RecordColumns.of([a, b])), RangeDigest.of(RecordColumns.of(swapped))
    assert reading.timed.unordered != changed.timed.unordered
    assert reading.untimed == changed.untimed


def test_only_records_with_the_header() -> None:
    wanted = FakeMessage((None, b"1", (("origin", b"JFK"), ("origin", b"EWR"))))
    others = [
        FakeMessage((None, b"2", (("origin", b"JFK"),))),
        FakeMessage((None, b"3", (("origin", None),))),
        FakeMessage((None, b"4", None)),
    ]
    found = RecordColumns.of([others[0], wanted, *others[1:]], ("origin", b"EWR"))
    assert found.contents.tolist() == RecordColumns.of([wanted]).contents.tolist()
    assert RangeDigest.of(RecordColumns.of(others, ("origin", b"EWR"))) == RangeDigest()


def test_times_that_the_broker_set_are_counted() -> None:
    records = RecordColumns.of(
        [FakeMessage((None, None, None), 5, kind) for kind in (CREATE_TIME, LOG_APPEND_TIME)]
    )
    assert (RangeDigest.of(records) + RangeDigest.of(records)).append_times == 2
