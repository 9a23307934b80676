"""Sets of offsets as sorted lists of inclusive spans that neither touch nor overlap: few gaps, few spans.

Everywhere, `first` and `last` are inclusive. `start` is inclusive and `stop` is exclusive (offset_ranges.py).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

Span = tuple[int, int]  # the first and the last offset, both inclusive
Spans = list[Span]

_FIRST, _LAST = itemgetter(0), itemgetter(1)


def spans_of(pieces: Iterable[Span]) -> Spans:
    """Return the union of pieces, which may be in any order and overlap."""
    spans: Spans = []
    for first, last in sorted(pieces):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    return spans


def add(spans: Spans, first: int, last: int) -> None:
    """Add the offsets from first to last; none if last is less than first."""
    if last < first:
        return
    start = bisect_left(spans, first - 1, key=_LAST)
    stop = bisect_right(spans, last + 1, key=_FIRST)
    if start < stop:
        first, last = min(first, spans[start][0]), max(last, spans[stop - 1][1])
    spans[start:stop] = [(first, last)]


def take(spans: Spans, first: int, last: int) -> Spans:
    """Remove the offsets from first to last, and return those that the set contained."""
    start = bisect_left(spans, first, key=_LAST)
    stop = bisect_right(spans, last, key=_FIRST)
    if last < first or start >= stop:
        return []
    touched = spans[start:stop]
    below, above = (touched[0][0], first - 1), (last + 1, touched[-1][1])
    spans[start:stop] = [span for span in (below, above) if span[0] <= span[1]]
    return [(max(first, low), min(last, high)) for low, high in touched]


def has(spans: Spans, offset: int) -> bool:
    index = bisect_left(spans, offset, key=_LAST)
    return index < len(spans) and spans[index][0] <= offset


def size(spans: Iterable[Span]) -> int:
    """Count the offsets in the spans."""
    return sum(last - first + 1 for first, last in spans)


def without(spans: Spans, others: Iterable[Span]) -> Spans:
    """Return the offsets of the spans that none of the others contains."""
    left = list(spans)
    for first, last in others:
        take(left, first, last)
    return left


def overlaps(pieces: Iterable[Span]) -> Spans:
    """Return the offsets that two or more pieces contain."""
    shared = []
    reached = -1
    for first, last in sorted(pieces):
        if first <= reached:
            shared.append((first, min(last, reached)))
        reached = max(reached, last)
    return spans_of(shared)
