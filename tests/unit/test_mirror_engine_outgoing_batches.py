"""Batches of a mirror: the same records in the same order, in as many of the same batches as possible."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import HEADER, MOST_RECORDS, Batch, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.produce import stamp
from aqueduct.kafka.batches.records import Record, Records, build, records
from aqueduct.kafka.follow import News
from aqueduct.mirror.engine.outgoing_batches import LEAST_MERGED, SMALL_BYTES, outgoing, pieces
from aqueduct.mirror.engine.task import up_to

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


def stating(count: int, offset: int) -> Batch:
    """Return a batch of one record whose header states another number of records."""
    encoded = bytearray(build(Records.listed([Record(5, offset, b"x")])))
    fields = [*HEADER.unpack_from(encoded)]
    HEADER.pack_into(encoded, 0, *fields[:-1], count)
    [batch] = walk(encoded, check_crc=False)
    return batch


@pytest.mark.parametrize(
    ("id_", "source", "arrived"),
    [
        ("", made(5, 10), 5),
        ("decompression-limit-exceeded", [*made(3, 10), stating(MOST_RECORDS + 1, 3)], 3),
        ("batch-damaged", [*made(3, 10), stating(2, 3)], 3),
        ("batch-damaged", [stating(2, 0)], 0),
        ("record-too-large", [*made(3, 10), *walk(build(Records.listed([Record(5, 3, b"x" * 500)])))], 3),
        # The first record of the last batch would fit.
        (
            "record-too-large",
            [
                *made(3, 10),
                *walk(build(Records.listed([Record(5, 3, b"x"), Record(5, 4, b"x" * 500)]))),
            ],
            3,
        ),
    ],
)
def test_whole_batches_before_unusable_batch_are_mirrored(
    id_: str, source: list[Batch], arrived: int
) -> None:
    made_ = outgoing(source, 400)
    assert (made_.error.id if made_.error else "") == id_
    assert [piece.next_offset for piece in made_.pieces] == [*range(1, arrived + 1)]
    news = News(
        topic_partition=TopicPartition("orders", 0),
        topic_id=UUID(int=1),
        batches=tuple(source),
        start=0,
        next_offset=source[-1].last_offset + 1,
        log_start=0,
        stable=9,
        first=0,
        epoch=7,
    )
    reached = up_to(news, made_.pieces)
    assert (reached.next_offset, len(reached.batches)) == (arrived, arrived)
