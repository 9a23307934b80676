"""Files of other backup programs, read record by record; tests/broker/test_import.py has whole stores."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.batches import bodies
from aqueduct.snapshots.importer import kafka_backup, s3_binary
from aqueduct.snapshots.importer.layout import ForeignFile

FIELD = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.tuples(st.binary(max_size=3), FIELD), max_size=5)


def field(content: bytes | None) -> bytes:
    return struct.pack("<i", -1) if content is None else struct.pack("<i", len(content)) + content


@given(st.lists(st.tuples(FIELD, FIELD, HEADERS), min_size=1, max_size=9))
def test_records_of_kafka_backup_keep_their_headers(
    rows: list[tuple[bytes | None, bytes | None, list[bodies.Header]]],
) -> None:
    content = b""
    for number, (key, value, headers) in enumerate(rows):
        packed = struct.pack("<qq", 1000 + number, number) + field(key) + field(value)
        packed += struct.pack("<H", len(headers))
        packed += b"".join(struct.pack("<H", len(name)) + name + field(content) for name, content in headers)
        content += struct.pack("<I", len(packed)) + packed
    found = kafka_backup._records(content, len(rows))
    assert found.offsets.tolist() == list(range(len(rows)))
    assert [(*bodies.key_and_value(body), bodies.headers(body)) for body in found.bodies] == rows
    for count in (len(rows) - 1, len(rows) + 1):
        with pytest.raises((ValueError, struct.error)):
            kafka_backup._records(content, count)


def test_sink_file_has_no_records_before_offset_zero() -> None:
    record = s3_binary.SIZES.pack(0, 1) + b"x"
    file = ForeignFile("t/0/2.bytes", 0, 2)
    found = s3_binary.read(memoryview(record * 3), file, "the store")
    assert found.records.offsets.tolist() == [0, 1, 2]
    with raises(Failed, "import-file-damaged"):
        s3_binary.read(memoryview(record * 4), file, "the store")
