"""Files of Avro hold what columns have, as fastavro reads them, which shares no code with their encoder."""

import binascii
import io
import struct
from datetime import UTC
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import snappy
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.snapshots.export import avro, rows

SYNC = bytes(range(16))
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(1 << 7), (1 << 7) - 1),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=200),
    pa.binary(): st.binary(max_size=200),
    pa.date32(): st.dates(),
    pa.decimal128(38, 9): st.decimals(-(10**29) + 1, 10**29 - 1, places=9),
    pa.decimal128(5, 0): st.decimals(-99_999, 99_999, places=0),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("ms", "UTC"): st.datetimes(timezones=st.just(UTC)).map(
        lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
    ),
}


def read(table: pa.Table) -> list[dict[str, Any]]:
    file = avro.header(table.schema, SYNC) + b"".join(avro.blocks(table, SYNC))
    return list(fastavro.reader(io.BytesIO(file)))


def with_lists(type_: pa.DataType) -> st.SearchStrategy[tuple[pa.DataType, Any]]:
    value = TYPES[type_] | st.none()
    lists = pa.list_(type_), st.lists(value, max_size=4) | st.none()
    return st.sampled_from([(type_, value), lists])


@given(st.data())
def test_every_type_and_null_comes_back(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(list(TYPES)).flatmap(with_lists), min_size=1, max_size=6))
    number = data.draw(st.integers(0, 40))
    columns = [
        pa.array(data.draw(st.lists(values, min_size=number, max_size=number)), type_)
        for type_, values in chosen
    ]
    names = [f"c{at}" for at in range(len(columns))]
    first = data.draw(st.integers(0, number))  # of a slice, whose buffers begin elsewhere
    table = pa.table(columns, names=names)[first:]
    assert read(table) == table.to_pylist()


@given(
    st.lists(
        st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5) | st.none()), max_size=3), max_size=20
    )
)
def test_headers_come_back(lists: list[list[tuple[str, bytes | None]]]) -> None:
    headers = [[{"key": key, "value": value} for key, value in each] for each in lists]
    table = pa.table(
        [pa.array(headers, rows.TEXT_HEADERS)],
        schema=pa.schema([pa.field("headers", rows.TEXT_HEADERS, nullable=False)]),
    )
    assert [each["headers"] for each in read(table)] == headers


def test_a_table_becomes_blocks_of_a_size() -> None:
    values = [bytes([number % 251]) * 3000 for number in range(2000)]
    table = pa.table({"value": pa.array(values, pa.binary()), "n": pa.array(np.arange(2000))})
    assert len(list(avro.blocks(table, SYNC))) == 6
    assert read(table) == table.to_pylist()
    assert list(avro.blocks(table[:0], SYNC)) == []


def test_snappy_block_has_crc_that_java_checks() -> None:
    """Snappy's block ends with the CRC32 of what it holds, big-endian; fastavro does not look at it."""
    table = pa.table({"value": pa.array([b"some"] * 3)})
    [block] = avro.blocks(table, SYNC)
    data = 3 * b"\x02\x08some"  # the union's branch, the length, the bytes
    packed = block[2 : -len(SYNC)]  # after the number of rows and the length
    assert (snappy.decompress(packed[:-4]), packed[-4:]) == (data, struct.pack(">I", binascii.crc32(data)))
    assert block[:2] == bytes([2 * 3, 2 * len(packed)])
    assert block.endswith(SYNC)


def test_a_schema_that_others_know() -> None:
    found = avro.avro_schema(rows.KAFKA)
    fastavro.parse_schema(found)
    by_name = {each["name"]: each["type"] for each in found["fields"]}
    assert by_name["key"] == ["null", "bytes"]
    assert by_name["timestamp"] == ["null", {"type": "long", "logicalType": "timestamp-millis"}]
    assert by_name["headers"]["items"]["fields"] == [
        {"name": "key", "type": "string"},
        {"name": "value", "type": ["null", "bytes"]},
    ]
