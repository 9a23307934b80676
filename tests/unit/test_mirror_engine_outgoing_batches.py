"""Batches of a mirror: the same records in the same order, in as many of the same batches as possible."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.produce import stamp
from aqueduct.kafka.batches.records import Record, Records, build, records
from aqueduct.mirror.engine.outgoing_batches import LEAST_MERGED, SMALL_BYTES, pieces

MAX_BYTES = 20_000


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Draw batches of several sizes and codecs, with holes between and inside them."""
    drawn: list[Batch] = []
    offset = 0
    for _ in range(draw(st.integers(0, 40))):
        rows = []
        for _ in range(draw(st.integers(1, 3))):
            offset += draw(st.integers(0, 1))
            body = draw(st.binary(min_size=1, max_size=4)) * draw(st.sampled_from([1, 1, 1, 2_000]))
            rows.append(Record(draw(st.integers(0, 1 << 40)), offset, body))
            offset += 1
        drawn += walk(build(Records.listed(rows), codec=draw(st.sampled_from(CODECS))))
    return drawn


def rows(found: Sequence[Batch]) -> list[tuple[int, bytes]]:
    return [(record.timestamp, record.body) for batch in found for record in records(batch)]


@given(batches())
def test_records_and_order_are_kept(source: list[Batch]) -> None:
    written: list[Batch] = []
    ends = []
    for piece in pieces(source, MAX_BYTES):
        stamp(piece.data, producer_id=1, epoch=0, sequence=0, transactional=True)
        [batch] = walk(piece.data)
        assert (batch.base_offset, batch.count) == (0, piece.count)
        assert batch.dense
        assert batch.transactional
        assert len(batch) <= MAX_BYTES
        written.append(batch)
        ends.append(piece.next_offset)
    assert rows(written) == rows(source)
    assert ends == sorted(ends)
    if source:
        assert ends[-1] == source[-1].last_offset + 1


def made(count: int, size: int) -> list[Batch]:
    encoded = [build(Records.listed([Record(5, offset, b"x" * size)])) for offset in range(count)]
    return [batch for data in encoded for batch in walk(data)]


def test_large_batches_keep_their_bytes() -> None:
    source = made(30, SMALL_BYTES)
    assert [bytes(piece.data[61:]) for piece in pieces(source, 1 << 20)] == [
        bytes(batch.data[61:]) for batch in source
    ]


def test_many_small_batches_become_one() -> None:
    assert len(list(pieces(made(LEAST_MERGED, 10), 1 << 20))) == 1
    assert len(list(pieces(made(LEAST_MERGED - 1, 10), 1 << 20))) == LEAST_MERGED - 1
