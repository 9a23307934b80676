"""Batches built by aiokafka and read by us, and the reverse."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from second_decoder import Whole, built, codecs, decoded, producers, runs, times, wholes

from aqueduct.kafka.batches.batch import CODEC, TRANSACTIONAL, walk
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.produce import ready, stamp
from aqueduct.kafka.batches.records import Records, build, records


@given(runs(), codecs, st.booleans(), producers)
def test_we_read_what_aiokafka_builds(
    expected: list[Whole], codec: str, log_append_time: bool, producer: tuple[int, int, int] | None
) -> None:
    data = built(expected, codec, log_append_time=log_append_time, producer=producer)
    (batch,) = walk(data)
    latest = max(each.timestamp for each in expected)
    if log_append_time:
        expected = [each._replace(timestamp=latest) for each in expected]
    assert list(records(batch)) == [each.verbatim() for each in expected]
    assert len(batch) == len(data)
    assert batch.data == data
    assert (batch.base_offset, batch.last_offset) == (expected[0].offset, expected[-1].offset)
    assert (batch.count, batch.max_time) == (len(expected), latest)
    assert batch.codec in (codec, "none")  # aiokafka compresses only what becomes smaller by it
    assert batch.log_append_time == log_append_time
    assert batch.transactional == (producer is not None)
    assert batch.producer_id == (producer[0] if producer else -1)
    assert not batch.control
    assert batch.dense == (expected[-1].offset - expected[0].offset + 1 == len(expected))


@given(st.lists(st.tuples(runs(), codecs, producers), min_size=1, max_size=4), st.none() | times)
def test_aiokafka_reads_what_we_build(
    parts: list[tuple[list[Whole], str, tuple[int, int, int] | None]], base_time: int | None
) -> None:
    data = b""
    for expected, codec, producer in parts:
        found = Records.listed(each.verbatim() for each in expected)
        more = {"producer": producer, "attributes": TRANSACTIONAL} if producer else {}
        data += build(found, codec=codec, base_time=base_time, **more)
    for (expected, _, producer), batch in zip(parts, decoded(data), strict=True):
        assert wholes(batch) == expected
        assert batch.is_transactional == (producer is not None)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer or (-1, -1, -1))
        assert batch.max_timestamp == max(each.timestamp for each in expected)
        assert batch.next_offset == expected[-1].offset + 1
    assert [batch.codec for batch in walk(data)] == [codec for _, codec, _ in parts]


@given(runs(), codecs, producers, st.data())
def test_aiokafka_reads_what_we_cut(
    expected: list[Whole], codec: str, producer: tuple[int, int, int] | None, data: st.DataObject
) -> None:
    (batch,) = walk(built(expected, codec, producer=producer))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(batch.base_offset, batch.last_offset + 1)] * 2)))
    known = st.sampled_from([each.timestamp for each in expected])
    first_time, last_time = sorted(data.draw(st.tuples(known, known)))
    window = Window(start=start, stop=stop, first_time=first_time, last_time=last_time)
    left = cut(batch, window)
    inside = [
        each
        for each in expected
        if start <= each.offset < stop and window.first_time <= each.timestamp <= window.last_time
    ]
    if left is None:
        assert not inside
        return
    (read,) = decoded(left.data.tobytes())
    assert wholes(read) == inside
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (producer or (-1, -1, -1))
    assert read.is_transactional == (producer is not None)
    assert left.codec == batch.codec
    assert start <= left.base_offset
    assert left.last_offset < stop


@given(
    st.lists(st.tuples(runs(), codecs, st.booleans(), producers), min_size=1, max_size=6),
    # One record may have six parts of 9,000 bytes.
    st.integers(400_000, 2_000_000) | st.integers(55_000, 80_000),
    producers.filter(bool),
)
def test_aiokafka_reads_what_is_ready_to_be_written(
    parts: list[tuple[list[Whole], str, bool, tuple[int, int, int] | None]],
    max_bytes: int,
    producer: tuple[int, int, int],
) -> None:
    source = b"".join(
        built(expected, codec, log_append_time=log_append_time, producer=producer)
        for expected, codec, log_append_time, producer in parts
    )
    expected = list(chain.from_iterable(wholes(batch) for batch in decoded(source)))
    written: list[Whole] = []
    for each in ready(walk(source), max_bytes=max_bytes):
        stamp(each.data, producer_id=producer[0], epoch=producer[1], sequence=producer[2], transactional=True)
        assert len(each.data) <= max_bytes
        (walked,) = walk(each.data)
        (batch,) = decoded(bytes(each.data))
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == producer
        assert batch.attributes & ~CODEC == TRANSACTIONAL
        own = wholes(batch)
        assert [record.offset for record in own] == list(range(each.count))
        assert walked.dense
        assert walked.max_time == max(record.timestamp for record in own)
        written += own
        assert each.next_offset == expected[len(written) - 1].offset + 1
    assert [each[2:] for each in written] == [each[2:] for each in expected]
    assert [each.timestamp for each in written] == [each.timestamp for each in expected]
