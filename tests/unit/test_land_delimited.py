"""Rows of delimited text, whatever stands beside them; Python's csv writes them, and other bytes between."""

import csv
import io
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as csv_of_arrow

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land import declaration
from aqueduct.land.delimited import DelimitedReader
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import RowReader, TableRows

FIELDS = ["a", "b", "c"]
READER = DelimitedReader(FIELDS, pa.schema([(name, pa.string()) for name in FIELDS]), ";", '"')
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\0"), max_size=8)
ROW = st.lists(st.one_of(TEXT, st.text(';"\n x', max_size=6)), min_size=3, max_size=3)
HOSTILE = st.one_of(st.binary(max_size=12), st.text(';"\n\rx', max_size=12).map(str.encode))


def written(row: list[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";").writerow(row)
    return text.getvalue().removesuffix("\r\n").encode()


@settings(max_examples=300)
@given(st.lists(st.one_of(ROW, HOSTILE), max_size=12))
def test_a_row_is_read_whatever_stands_beside_it(records: list[list[str] | bytes]) -> None:
    values = [each if isinstance(each, bytes) else written(each) for each in records]
    read = READER.read(pa.array(values, pa.binary()))
    assert sorted([*read.records, *(fault.index for fault in read.faults)]) == list(range(len(values)))
    rows = read.table.take(pa.array(read.rows)).to_pylist()
    found = dict(zip(read.records.tolist(), (list(row.values()) for row in rows), strict=True))
    for index, record in enumerate(records):
        if isinstance(record, list):
            assert found.get(index) == record
        elif index in found:
            text = io.StringIO(record.decode(), newline="")
            assert [found[index]] == list(csv.reader(text, delimiter=";", strict=True))


def test_quotes_are_those_of_a_row_or_text() -> None:
    values = [b'"a"b;c;d', b'"a;b"c;d;e', b'"a"b"c";d;e', b'"a" ;b;c', b'"a;b;c', b'5" wide;7";c"']
    read = READER.read(pa.array(values, pa.binary()))
    assert [fault.reason for fault in read.faults] == ["its quotes do not match the format of a row"] * 5
    assert read.table.to_pylist() == [{"a": '5" wide', "b": '7"', "c": 'c"'}]


@pytest.mark.parametrize(
    ("wrong", "most"), [(b"1;2", 1), (b'1;"2;3', 11), (b'1"2;"3;4', 1), (b"1\r2\r3;4;5", 25)]
)
def test_a_wrong_record_does_not_slow_the_rest(
    monkeypatch: pytest.MonkeyPatch, wrong: bytes, most: int
) -> None:
    values = [wrong if n % 100 == 50 else b"%d;x;y" % n for n in range(1000)]
    read_csv = csv_of_arrow.read_csv
    reads = []
    monkeypatch.setattr(csv_of_arrow, "read_csv", lambda *given: reads.append(given) or read_csv(*given))
    read = READER.read(pa.array(values, pa.binary()))
    assert [fault.index for fault in read.faults] == list(range(50, 1000, 100))
    assert len(reads) <= most


def landed(values: list[bytes | None], columns: list[dict[str, Any]], **more: Any) -> TableRows:
    [table] = declaration.parse(
        [{"table": "a.b", "topics": ["t"], "format": "delimited", "columns": columns, **more}], "lake.yml"
    )
    batch = build(Records.listed(Record(0, n, body(b"k", value)) for n, value in enumerate(values)))
    return RowReader(table).read(TopicPartition("t", 0), RecordArrays.of(list(walk(batch))))


TYPES = {
    "bigint": (
        {"1": 1, "-9223372036854775808": -(2**63), "": None},
        ["x", "1.0", "+1", "9223372036854775808", " 1"],
    ),
    "tinyint": ({"-128": -128, "": None}, ["128"]),
    "double": ({"1": 1.0, "-1.5e3": -1500.0, ".5": 0.5, "": None}, ["x", "1e400", "NaN", "1,5"]),
    "decimal(5,2)": (
        {"1.5": Decimal("1.50"), "-999.99": Decimal("-999.99"), "": None},
        ["1.555", "1000", "x"],
    ),
    "boolean": ({"true": True, "false": False, "": None}, ["TRUE", "1"]),
    "string": ({"x": "x", "": "", "ü": "ü"}, []),
    "timestamp": ({"2024-02-29T00:00:00Z": datetime(2024, 2, 29), "": None}, ["x", "2023-02-29"]),
}


@pytest.mark.parametrize("type_", TYPES)
def test_text_becomes_values(type_: str) -> None:
    good, wrong = TYPES[type_]
    texts = [*good, *wrong]
    rows = landed(
        [f"x;{text}".encode() for text in texts],
        [{"name": "c", "type": type_}],
        header=["x", "c"],
        delimiter=";",
    )
    assert rows.table.column("c").to_pylist() == list(good.values())
    assert rows.bad.column("k_offset").to_pylist() == list(range(len(good), len(texts)))
    assert all("c" in error for error in rows.bad.column("error").to_pylist())


def test_without_a_header_columns_are_in_order() -> None:
    columns = [
        {"name": "a", "type": "int"},
        {"name": "k", "type": "string", "from": "$key"},
        {"name": "b", "type": "string"},
    ]
    rows = landed([b"1,x\r\n", None, b"2", b"3,y,z"], columns)
    assert rows.table.select(["a", "k", "b"]).to_pylist() == [{"a": 1, "k": "k", "b": "x"}]
    assert (rows.bad.column("k_offset").to_pylist(), rows.tombstones) == ([2, 3], 1)
    assert set(rows.bad.column("error").to_pylist()) == {"it is not one row with 2 fields"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"header": ["b"]}, "the header has no a"),
        ({"header": ["a", "a"]}, "a is not the name of exactly one field"),
        ({"delimiter": "||"}, "write one ASCII character"),
        ({"delimiter": '"'}, "write one ASCII character"),
        ({"columns": [{"name": "a", "type": "array<int>"}]}, "is an array"),
        ({"columns": [{"name": "a", "type": "int", "from": "b"}]}, "remove `from`"),
        ({"delimiter": "\ud800"}, "write one ASCII character"),
        (
            {
                "header": ["t"],
                "columns": [
                    {"name": "s", "type": "string", "from": "t"},
                    {"name": "n", "type": "timestamp", "from": "t"},
                ],
            },
            "s and n read the same field",
        ),
        ({"format": "json", "delimiter": ";"}, "only the format delimited has this option"),
        ({"format": "raw"}, "raw records have no field a"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    given_ = {
        "table": "a.b",
        "topics": ["t"],
        "format": "delimited",
        "columns": [{"name": "a", "type": "int"}],
    }
    with pytest.raises(Refused) as refused:
        declaration.parse([given_ | changes], "lake.yml")
    assert said in str(refused.value)


def test_raw_records_are_not_looked_into() -> None:
    columns = [
        {"name": "key", "type": "binary", "from": "$key"},
        {"name": "value", "type": "binary", "from": "$value"},
    ]
    rows = landed([b"\xff", None, b""], columns, format="raw", tombstones="keep")
    assert rows.table.column("value").to_pylist() == [b"\xff", None, b""]
    assert rows.bad.num_rows == 0
