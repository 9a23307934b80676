"""Batches as aiokafka builds and reads them, and what records they may hold."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import strategies as st

from aqueduct.kafka.batches.batch import LOG_APPEND_TIME, seal
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.records import Record

_ATTRIBUTES_AT = 22  # the byte of them that is used


class Whole(NamedTuple):
    """A record that somebody has decoded."""

    timestamp: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    def verbatim(self) -> Record:
        body = _bytes(self.key) + _bytes(self.value) + _varint(len(self.headers))
        body += b"".join(_bytes(name.encode()) + _bytes(value) for name, value in self.headers)
        return Record(self.timestamp, self.offset, body)


def _varint(number: int) -> bytes:
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _bytes(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def built(
    records: Sequence[Whole],
    codec: str,
    *,
    log_append_time: bool = False,
    producer: tuple[int, int, int] | None,
) -> bytes:
    """Build one batch; with a producer's id, epoch and sequence it is transactional."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=producer is not None,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    if producer:
        builder.set_producer_state(*producer)
    base = records[0].offset
    for timestamp, offset, key, value, headers in records:
        assert builder.append(offset - base, timestamp, key, value, headers)
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    if log_append_time:
        data[_ATTRIBUTES_AT] |= LOG_APPEND_TIME
        seal(data)
    return bytes(data)


def decoded(data: bytes) -> Iterator[DefaultRecordBatch]:
    """Yield the batches, checked."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        batch = DefaultRecordBatch(data[position : position + 12 + length])
        assert batch.validate_crc()
        yield batch
        position += 12 + length


def wholes(batch: DefaultRecordBatch) -> list[Whole]:
    return [Whole(each.timestamp, each.offset, each.key, each.value, each.headers) for each in batch]


contents = st.none() | st.binary(max_size=8) | st.sampled_from([b"x" * 70, b"y" * 9000])
headers = st.lists(st.tuples(st.sampled_from(["", "a", "b", "ü" * 40]), contents), max_size=4)
times = st.integers(0, 2**41) | st.integers(1_700_000_000_000, 1_700_000_000_100)
producers = st.none() | st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
codecs = st.sampled_from(CODECS)


@st.composite
def runs(draw: st.DrawFn, most: int = 12) -> list[Whole]:
    """Draw one record or more with rising offsets and any times."""
    steps = st.just(1) | st.integers(1, 300)
    offset = draw(st.integers(0, 2**40)) - 1
    found = []
    for _ in range(draw(st.integers(1, most))):
        offset += draw(steps)
        found.append(Whole(draw(times), offset, draw(contents), draw(contents), draw(headers)))
    return found
