"""Numbers of a batch that a producer writes without end: 400 KB of one took half a minute to add up.

Each is a right number, with zeros after it that mean nothing, so whoever reads all of it takes it.
"""

from collections.abc import Callable

import pytest
from kit.identifiers import raises

from aqueduct.kafka.batches import plain_records
from aqueduct.kafka.batches.batch import HEADER, Batch, Damaged, seal, walk
from aqueduct.kafka.batches.bodies import body, headers, key_and_value, put_one
from aqueduct.kafka.batches.records import Record, Records, build, records

BODY = body(b"k", b"v")
ATTRIBUTES, NO_DELTA = b"\0", b"\0"


def long(number: int, size: int = 400_000) -> bytes:
    """Write a number of so many bytes: a varint goes on as long as the highest bit is set."""
    short = put_one(number)
    return bytes(each | 0x80 for each in short) + b"\x80" * (size - len(short) - 1) + b"\0"


def batch(content: bytes) -> Batch:
    """Return a batch of one record with that content, under a right CRC, as a broker would take it."""
    data = build(Records.listed([Record(1, 0, BODY)]))
    data[HEADER.size :] = content
    data[8:12] = (len(data) - 12).to_bytes(4)
    seal(data)
    [found] = walk(data)
    return found


def with_length(size: int) -> bytes:
    record = ATTRIBUTES + 2 * NO_DELTA + BODY
    return long(len(record), size) + record


def with_delta(size: int) -> bytes:
    record = ATTRIBUTES + long(0, size) + NO_DELTA + BODY
    return put_one(len(record)) + record


@pytest.mark.parametrize("make", [with_length, with_delta])
@pytest.mark.parametrize("read", [records, plain_records.bodies])
def test_a_record_s_numbers_have_an_end(
    make: Callable[[int], bytes], read: Callable[[Batch], list[object]]
) -> None:
    assert len(list(read(batch(make(3))))) == 1, "the control: three bytes are none too many"
    with raises(Damaged, "batch-damaged", "offset 0"):
        list(read(batch(make(400_000))))


@pytest.mark.parametrize("read", [key_and_value, headers])
def test_a_body_s_numbers_have_an_end(read: Callable[[bytes], object]) -> None:
    assert read(long(1, 3) + BODY[1:]) == read(BODY)
    with pytest.raises(ValueError, match="64 bits"):
        read(long(1) + BODY[1:])
