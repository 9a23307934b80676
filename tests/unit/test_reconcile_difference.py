from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.mirror.reconcile import difference
from aqueduct.mirror.reconcile.difference import NAMED_SPANS, Stream, Unmatched, out_of_order, unmatched

sequences = st.lists(st.integers(0, 8), max_size=30)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a small STEP, so that records wait from one step to the next."""
    monkeypatch.setattr(difference, "STEP", 4)


def stream(fingerprints: list[int], size: int = 3) -> Stream:
    """Yield fingerprints in blocks, with offsets that start at 100."""
    for start in range(0, len(fingerprints), size):
        block = fingerprints[start : start + size]
        yield np.array(block, np.uint64), np.arange(100 + start, 100 + start + len(block))


@given(sequences, st.lists(sequences, min_size=1, max_size=3), st.integers(1, 7))
def test_unmatched_records_are_multiset_difference_of_both_ends(
    target: list[int], sources: list[list[int]], size: int
) -> None:
    found = unmatched([stream(target, size), *(stream(source) for source in sources)])
    at_sources = Counter(each for source in sources for each in source)
    assert found[0].records == (Counter(target) - at_sources).total()
    assert sum(each.records for each in found[1:]) == (at_sources - Counter(target)).total()


@given(sequences, st.data())
def test_offsets_of_what_is_left(target: list[int], data: st.DataObject) -> None:
    """Check that of distinct records exactly those that were taken away are left."""
    source = list(range(50))
    kept = data.draw(st.lists(st.sampled_from(source), unique=True).map(sorted))
    extra, missing = unmatched([stream([*kept, 99], 5), stream(source)])
    assert extra == Unmatched(1, ((100 + len(kept),) * 2,))
    named = [offset - 100 for first, last in missing.spans for offset in range(first, last + 1)]
    assert missing.records == 50 - len(kept)
    assert named == sorted(set(source) - set(kept)) or len(missing.spans) == NAMED_SPANS


def test_of_equal_records_the_last_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "STEP", 10_000)
    _, missing = unmatched([stream([1, 2] * 50), stream([1, 2] * 80)])
    assert missing == Unmatched(60, ((200, 259),))


def test_ranges() -> None:
    assert Unmatched.of(np.array([3, 4, 5, 9, 11, 12])) == Unmatched(6, ((3, 5), (9, 9), (11, 12)))
    assert Unmatched.of(np.array([], np.int64)) == Unmatched()
    many = Unmatched.of(np.arange(0, 100, 2))
    assert many.records == 50
    assert many.spans == tuple((n, n) for n in range(0, 2 * NAMED_SPANS, 2))


def test_memory_follows_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps of which one record is missing: never more than some steps' records are held."""
    most = 0
    strike_out = difference._strike_out

    def watched(*ends: list[difference.FingerprintRows]) -> list[list[difference.FingerprintRows]]:
        nonlocal most
        most = max(most, sum(len(block) for end in ends for block in end))
        return strike_out(*ends)

    monkeypatch.setattr(difference, "_strike_out", watched)
    source = list(range(4000))
    _, missing = unmatched([stream(source[1:]), stream(source)])
    assert missing.spans == ((100, 100),)
    assert most < 20


def interleaved(draw: st.DrawFn, sources: list[list[int]]) -> list[int]:
    rest = [source.copy() for source in sources]
    merged = []
    while any(rest):
        merged.append(draw(st.sampled_from([source for source in rest if source])).pop(0))
    return merged


@given(st.lists(sequences, min_size=1, max_size=3), st.data())
def test_any_interleaving_is_in_order(sources: list[list[int]], data: st.DataObject) -> None:
    """Check also the same record in several sources."""
    merged = interleaved(data.draw, sources)
    assert out_of_order([stream(merged), *map(stream, sources)]) is None


@given(sequences, sequences)
def test_single_source_requires_identical_record_order(source: list[int], seed: list[int]) -> None:
    target = sorted(source, key=lambda each: hash((each, *seed)))
    found = out_of_order([stream(target), stream(source)])
    assert (found is None) == (target == source)


def test_first_record_out_of_order() -> None:
    of_one, other = list(range(20)), list(range(100, 120))
    merged = [*of_one[:10], *other[:5], of_one[11], of_one[10], *of_one[12:], *other[5:]]
    assert out_of_order([stream(merged), stream(of_one), stream(other)]) == (1, 111)
    assert out_of_order([stream(merged), stream(other), stream(of_one)]) == (2, 111)
