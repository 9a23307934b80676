"""Spans against plain sets of integers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.offset_sets import Span, add, size, spans_of, take

pieces = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda each: (each[0], each[0] + each[1]))


def offsets(spans: list[Span]) -> set[int]:
    return {offset for first, last in spans for offset in range(first, last + 1)}


def is_normal(spans: list[Span]) -> bool:
    edges = [edge for span in spans for edge in span]
    return edges == sorted(edges) and all(a[1] + 1 < b[0] for a, b in pairwise(spans))


@given(st.lists(pieces), pieces)
def test_add(start: list[Span], piece: Span) -> None:
    spans = spans_of(start)
    assert is_normal(spans)
    assert offsets(spans) == offsets(start)
    add(spans, *piece)
    assert is_normal(spans)
    assert offsets(spans) == offsets([*start, piece])
    assert size(spans) == len(offsets(spans))


@given(st.lists(pieces), pieces)
def test_take(start: list[Span], piece: Span) -> None:
    spans = spans_of(start)
    taken = take(spans, *piece)
    assert is_normal(spans)
    assert is_normal(taken)
    assert offsets(taken) == offsets(start) & offsets([piece])
    assert offsets(spans) == offsets(start) - offsets([piece])


@given(st.lists(pieces), st.integers(0, 70))
def test_nothing_changes_nothing(start: list[Span], at: int) -> None:
    spans = spans_of(start)
    add(spans, at, at - 1)
    assert take(spans, at, at - 1) == []
    assert spans == spans_of(start)
