import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.batches.offsets import LEAST_BYTES, UNPACKED_FACTOR, Index, Inside
from aqueduct.kafka.batches.records import Record, Records, build


@st.composite
def logs(draw: st.DrawFn) -> list[list[int]]:
    """Return the offsets of each batch's records; with holes in some batches, and between batches."""
    offset = draw(st.integers(0, 2**50))
    found = []
    for _ in range(draw(st.integers(0, 6))):
        offsets = []
        steps = st.just(1) if draw(st.booleans()) else st.integers(1, 3)
        for _ in range(draw(st.integers(1, 5))):
            offset += draw(steps)
            offsets.append(offset)
        found.append(offsets)
        offset += draw(st.integers(0, 3))
    return found


def made(log: list[list[int]]) -> list[Batch]:
    data = b"".join(
        build(Records.listed(Record(offset % 100, offset, b"body") for offset in offsets)) for offsets in log
    )
    return list(walk(data))


def columns(index: Index) -> list[list[int]]:
    names = "base_offset", "last_offset", "count", "max_time", "size", "position"
    return [getattr(index, name).tolist() for name in names]


@given(logs())
def test_what_it_says_of_batches(log: list[list[int]]) -> None:
    batches = made(log)
    index = Index.of(batches)
    assert len(index) == len(batches)
    assert index.records == sum(map(len, log))
    whole = b"".join(each.data for each in batches)
    for place, batch in enumerate(batches):
        assert index.base_offset[place] == batch.base_offset
        assert index.last_offset[place] == batch.last_offset
        assert index.count[place] == batch.count
        assert index.max_time[place] == batch.max_time
        start = int(index.position[place])
        assert whole[start : start + int(index.size[place])] == batch.data


@given(logs(), st.data())
def test_every_offset_has_its_rank_and_back(log: list[list[int]], data: st.DataObject) -> None:
    batches = made(log)
    index = Index.of(batches)
    every = [offset for offsets in log for offset in offsets]
    first, last = (every[0], every[-1]) if every else (0, 0)
    offset = data.draw(st.integers(max(0, first - 2), last + 2))
    rank = index.rank(offset)
    if isinstance(rank, Inside):
        assert not batches[rank.place].dense
        rank = rank.rank(batches[rank.place], offset)
    assert rank == sum(each < offset for each in every)
    for expected_rank, expected in enumerate(every):
        found = index.offset(expected_rank)
        if isinstance(found, Inside):
            assert not batches[found.place].dense
            found = found.offset(batches[found.place], expected_rank)
        assert found == expected


@pytest.mark.parametrize("rank", [-1, 2, 99])
def test_there_is_no_such_record(rank: int) -> None:
    with pytest.raises(IndexError, match=rf"(?<!\S){rank} .*\b2$"):
        Index.of(made([[1, 2]])).offset(rank)


def test_a_batch_whose_records_were_all_compacted() -> None:
    before, compacted, after = made([[1, 2], [5, 7], [9]])
    index = Index.of([before, Batch(*compacted[:-1], count=0), after])
    assert [index.rank(offset) for offset in (2, 3, 5, 6, 7, 8, 9, 10)] == [1, 2, 2, 2, 2, 2, 2, 3]
    assert [index.offset(rank) for rank in range(3)] == [1, 2, 9]


@given(logs())
def test_it_is_stored(log: list[list[int]]) -> None:
    index = Index.of(made(log))
    assert columns(Index.from_bytes(index.to_bytes())) == columns(index)


def test_any_numbers_are_stored() -> None:
    numbers = np.random.default_rng(1).integers(-(2**63), 2**63, (5, 1000))
    index = Index(*numbers)
    assert columns(Index.from_bytes(index.to_bytes())) == columns(index)


def test_it_is_small() -> None:
    """Check that a batch of usual sizes takes a few bytes."""
    random = np.random.default_rng(2)
    count = random.integers(1, 500, 10_000)
    last = count.cumsum() - 1
    times = 1_700_000_000_000 + random.integers(0, 100, 10_000).cumsum()
    index = Index(last - count + 1, last, count, times, count * 200 + random.integers(0, 5000, 10_000))
    assert len(index.to_bytes()) < 10 * 10_000


def test_large_index_of_regular_batches_is_readable() -> None:
    """Such an index compresses so well that a reader would take it for a decompression bomb."""
    count = LEAST_BYTES // 40 + 1
    ones = np.ones(count, np.int64)
    index = Index(np.arange(count), np.arange(count), ones, 7 * ones, 70 * ones)
    stored = index.to_bytes()
    assert len(stored) * UNPACKED_FACTOR >= 40 * count
    found = Index.from_bytes(stored, 70 * count)
    assert (found.base_offset == index.base_offset).all()
    assert (found.size == index.size).all()
    former = zstandard.ZstdDecompressor().decompress(stored[4:])  # as former versions read it
    assert len(former) == 40 * count
    with raises(Damaged, "batch-damaged", "46,137,360", "46,137,344"):
        Index.from_bytes(stored[: len(stored) // 2], 70 * count)


@given(logs(), st.integers(0, 6))
def test_parts_are_joined(log: list[list[int]], middle: int) -> None:
    whole = Index.of(made(log))
    parts = [Index.of(made(log[:middle])), Index.of(made(log[middle:]))]
    assert columns(Index.joined(parts)) == columns(whole)
    assert len(Index.joined([])) == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"AQI", b"AQI2" + bytes(50), b"AQI1", b"AQI1" + bytes(50), Index.of(made([[1]])).to_bytes()[:-1]],
)
def test_a_damaged_one_is_refused(data: bytes) -> None:
    with raises(Damaged, "batch-damaged"):
        Index.from_bytes(data)
