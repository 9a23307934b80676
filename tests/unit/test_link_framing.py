"""A partition's batches as spans: nothing between is left out, nothing is too large, and all records stay."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.cutting import split
from aqueduct.kafka.batches.records import Record, Records, build, records
from aqueduct.link.framing import FRAME_BYTES, FrameSpan, TooLarge, frame_spans

HEADER = 61  # bytes
LARGE = 1_000


def batch(offsets: list[int], size: int = 300, codec: str = "none", attributes: int = 0) -> Batch:
    rows = [Record(7 * offset, offset, body(b"k", bytes([offset % 251]) * size)) for offset in offsets]
    [made] = walk(build(Records.listed(rows), codec=codec, attributes=attributes))
    return made


def all_records(batches: list[Batch] | tuple[Batch, ...]) -> list[Record]:
    return [record for each in batches for record in records(each)]


def test_a_batch_of_many_small_records_crosses() -> None:
    """Frame a batch that is larger than the largest record: it crosses all the same."""
    one = batch(list(range(10, 30)))
    assert len(one) > LARGE
    [found] = frame_spans([one], 10, 30, LARGE)
    assert isinstance(found, FrameSpan)
    assert (found.start, found.stop, found.count) == (10, 30, 20)
    assert all(len(part) <= LARGE for part in found.batches)
    assert all_records(found.batches) == all_records([one])
    # As it is read at the other end, which gets the bytes alone.
    assert all_records(list(walk(found.data))) == all_records([one])


def test_a_batch_that_fits_stays_what_it_is() -> None:
    one = batch([1, 2])
    assert list(split(one, len(one))) == [one]


def test_only_oversized_record_of_batch_is_refused() -> None:
    rows = [Record(0, offset, body(None, b"x" * (2_000 if offset == 12 else 10))) for offset in range(10, 15)]
    [one] = walk(build(Records.listed(rows)))
    first, refused, last = frame_spans([one], 8, 16, LARGE)
    assert isinstance(refused, TooLarge)
    assert (refused.start, refused.stop) == (12, 13)
    assert refused.size > 2_000
    assert [(each.start, each.stop) for each in (first, last)] == [(8, 12), (13, 16)]
    assert [
        record.offset
        for each in (first, last)
        if isinstance(each, FrameSpan)
        for record in all_records(each.batches)
    ] == [*(10, 11, 13, 14)]


def test_a_split_batch_keeps_what_a_reader_sees() -> None:
    """Check the times that the broker gave, the producer and the codec."""
    append_time = 0x08
    for codec in ("gzip", "lz4", "zstd", "snappy"):
        one = batch(list(range(50)), codec=codec, attributes=append_time)
        parts = list(split(one, 200))
        assert len(parts) > 1
        assert all_records(parts) == all_records([one])
        for part in parts:
            assert (part.codec, part.log_append_time, part.producer_id) == (codec, True, one.producer_id)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.sampled_from([1, 400, 1_200])), max_size=6),
    st.integers(0, 3),
    st.sampled_from([400, LARGE, 5_000]),
)
def test_spans_cover_all_and_hold_all_that_fits(
    shapes: list[tuple[int, int, int]], hole: int, largest: int
) -> None:
    """Frame batches with holes between them, and in them."""
    batches, at = [], 5
    for count, before, size in shapes:
        at += before
        batches.append(batch(list(range(at, at + 2 * count, 2)), size))
        at = batches[-1].last_offset + 1
    found = list(frame_spans(batches, 5, at + hole, largest))
    if found:
        assert (found[0].start, found[-1].stop) == (5, at + hole)
    assert all(one.stop == other.start for one, other in pairwise(found))
    refused = {each.start for each in found if isinstance(each, TooLarge)}
    kept = [record for each in found if isinstance(each, FrameSpan) for record in all_records(each.batches)]
    every = all_records(batches)
    assert kept == [record for record in every if record.offset not in refused]
    for each in found:
        if isinstance(each, TooLarge):
            [alone] = [record for record in every if each.start <= record.offset < each.stop]
            assert len(alone.body) + HEADER + 20 > largest
        else:
            assert all(len(part) <= largest for part in each.batches)
            assert all(
                each.start <= part.base_offset <= part.last_offset < each.stop for part in each.batches
            )
            assert len(each.data) <= FRAME_BYTES or len(each.batches) == 1


def test_a_frame_has_batches_of_about_a_block() -> None:
    batches = [batch([offset], 200_000) for offset in range(5)]
    assert [(each.start, each.stop) for each in frame_spans(batches, 0, 5, 1 << 20)] == [
        (0, 2),
        (2, 4),
        (4, 5),
    ]


def test_batch_that_inflates_too_much_is_refused_whole() -> None:
    bomb = batch([5, 6, 7], 60 << 20, codec="zstd")
    assert len(bomb) > LARGE
    first, refused, last = frame_spans([batch([1]), bomb, batch([8])], 0, 9, LARGE)
    assert isinstance(refused, TooLarge)
    assert (refused.start, refused.stop) == (5, 8)
    assert isinstance(first, FrameSpan)
    assert isinstance(last, FrameSpan)
    assert [(first.start, first.stop), (last.start, last.stop)] == [(0, 5), (8, 9)]
