"""Origins of many dead-letter records at once are those that each letter has alone."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.offset_sets import has, spans_of
from aqueduct.connect import dead_letters, letter_origins
from aqueduct.connect.letter_origins import LetterCounts, are_replayed, read_letters
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.bodies import Header, body
from aqueduct.kafka.batches.header_positions import MOST_HEADERS
from aqueduct.kafka.batches.records import Record, Records, build

NAMES = [
    f"{dead_letters.CONTEXT}{name}".encode()
    for name in ("topic", "partition", "offset", "connector.name", "exception.class.name")
]
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, b"", b"h", NAMES[0][:-1] + b"x"]),
        st.sampled_from([None, b"", b"1", b"a", b"\xff"]),
    ),
    max_size=8,
)


def batches(*records: list[tuple[int, list[Header]]]) -> list[Batch]:
    found: list[Batch] = []
    offset = 0
    for some in records:
        rows = []
        for timestamp, headers in some:
            rows.append(Record(timestamp, offset, body(b"k", b"v" * 200, headers)))
            offset += 1
        if rows:
            found += walk(bytes(build(Records.listed(rows), codec="zstd")))
    return found


def no_batch(batch: Batch, error: Exception) -> None:
    raise AssertionError(error)


@given(st.lists(st.lists(st.tuples(st.integers(0, 99), HEADERS), max_size=5), max_size=4))
def test_counts_are_those_of_single_letters(records: list[list[tuple[int, list[Header]]]]) -> None:
    expected: Counter[tuple[str, str, str]] = Counter()
    times: dict[tuple[str, str, str], list[int]] = {}
    for some in records:
        for timestamp, headers in some:
            value_by_name = {name: value for name, value in headers if value is not None}
            origin = tuple(
                value_by_name.get(name, b"").decode(errors="replace")
                for name in (NAMES[3], NAMES[0], NAMES[4])
            )
            expected[origin] += 1  # type: ignore[index]
            times.setdefault(origin, []).append(timestamp)  # type: ignore[arg-type]
            if alone := dead_letters.origin(headers):
                assert origin[:2] == (alone.connector, alone.topic)
    counts = LetterCounts()
    for letters in read_letters(batches(*records), no_batch):
        times_ = letters.places.times
        counts.add(counts.codes(letters), times_, np.ones(len(times_), np.bool_))
    listed = {tuple(each.origin): each for each in counts.listed("dlq", with_replayed=True)}
    assert {origin: each.records for origin, each in listed.items()} == dict(expected)
    for origin, each in listed.items():
        assert (each.replayed, each.oldest, each.newest) == (
            each.records,
            min(times[origin]),  # type: ignore[index]
            max(times[origin]),  # type: ignore[index]
        )


def test_unreadable_batch_does_not_affect_other_batches() -> None:
    good = batches([(1, [(NAMES[0], b"a")])], [(2, [(NAMES[0], b"b")])])
    cut = bytearray(good[0].data)
    cut[-3:] = b"\0\0\0"
    [bad] = walk(cut, check_crc=False)
    set_aside: list[Batch] = []
    found = list(read_letters([bad, good[1]], lambda batch, _: set_aside.append(batch)))
    assert (len(set_aside), [len(letters.places.times) for letters in found]) == (1, [1])


def test_too_many_origins_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_origins, "MOST_ORIGINS", 3)
    rows: list[tuple[int, list[Header]]] = [(1, [(NAMES[0], b"%d" % number)]) for number in range(10)]
    counts = LetterCounts()
    for letters in read_letters(batches(rows), no_batch):
        counts.add(counts.codes(letters), letters.places.times, np.zeros(10, np.bool_))
    listed = list(counts.listed("dlq", with_replayed=False))
    assert [each.records for each in listed] == [1, 1, 1, 7]
    assert listed[-1].origin == letter_origins.OTHERS


def test_letter_with_too_many_headers_has_no_origin() -> None:
    rows: list[tuple[int, list[Header]]] = [(1, [(NAMES[0], b"a")] * (MOST_HEADERS + 1))]
    counts = LetterCounts()
    for letters in read_letters(batches(rows), no_batch):
        counts.add(counts.codes(letters), letters.places.times, np.zeros(1, np.bool_))
    assert [each.origin for each in counts.listed("dlq", with_replayed=False)] == [("", "", "")]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))), st.lists(st.integers(0, 60)))
def test_replayed_offsets_are_those_of_the_spans(pieces: list[tuple[int, int]], offsets: list[int]) -> None:
    spans = spans_of((first, last) for first, last in pieces if first <= last)
    found = are_replayed(spans, np.array(offsets, np.int64))
    assert found.tolist() == [has(spans, offset) for offset in offsets]
