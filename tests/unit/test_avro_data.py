"""Avro into columns: fastavro, which the product doesn't use, writes the values; lies are bytes by hand."""

import io
import json
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land import avro_data, avro_schema, declaration
from aqueduct.land.avro_data import FEW, PADDING, AvroData, WantedFields
from aqueduct.land.avro_walk import DEPTH, FREE_STEPS, NOT_FREE
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import RowReader, TableRows

Json = Any
WORLD = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).filter(
    lambda each: (
        not datetime(1582, 10, 5) <= each < datetime(1582, 10, 15)
        and not datetime(1969, 12, 31, 23, 59, 59, 1_000) <= each < datetime(1970, 1, 1)
    )
)
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
DECIMAL = st.integers(-(10**12) + 1, 10**12 - 1).map(lambda each: Decimal(each).scaleb(-4))
# Of days that tables of Hive can have: see aqueduct.land.orc_times.
DATE = st.dates(date(1, 1, 1), date(9999, 12, 31)).filter(
    lambda each: not date(1582, 10, 5) <= each < date(1582, 10, 15)
)


def naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def millis(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


# Of each: the schema of a field, its column, values as fastavro writes them, and what they are then.
TYPES: dict[str, tuple[Json, str, st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "long": ("long", "bigint", LONG, int),
    "int": ("int", "int", INT, int),
    "int for bigint": ("int", "bigint", INT, int),
    "int for double": ("int", "double", INT, float),
    "float": ("float", "float", st.floats(width=32, allow_nan=False, allow_infinity=False), float),
    "float for double": ("float", "double", st.floats(-9, 9, width=32), float),
    "double": ("double", "double", st.floats(allow_nan=False, allow_infinity=False), float),
    "boolean": ("boolean", "boolean", st.booleans(), bool),
    "string": ("string", "string", TEXT, str),
    "bytes": ("bytes", "binary", st.binary(max_size=9), bytes),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, "binary", st.binary(min_size=3, max_size=3), bytes),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", st.sampled_from("AB"), str),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "string", st.uuids(), str),
    "date": ({"type": "int", "logicalType": "date"}, "date", DATE, lambda each: each),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        "timestamp",
        WORLD.map(millis).map(lambda each: each.replace(tzinfo=UTC)),
        naive,
    ),
    "micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        "timestamp",
        WORLD.map(lambda each: each.replace(tzinfo=UTC)),
        naive,
    ),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "timestamp",
        WORLD,
        lambda each: each,
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4},
        "decimal(20,6)",
        DECIMAL,
        lambda each: each,
    ),
    "decimal in fixed": (
        {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 12, "scale": 4},
        "decimal(12,4)",
        DECIMAL,
        lambda each: each,
    ),
}


def record(*fields: tuple[str, Json]) -> Json:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": of} for name, of in fields]}


def written(schema: Json, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def table(schema: Json, columns: list[dict[str, Any]], **more: Any) -> declaration.LandTable:
    content = {
        "table": "a.b",
        "topics": ["t"],
        "format": "avro",
        "schema": schema,
        "columns": columns,
        **more,
    }
    return declaration.parse([content], "lake.yml")[0]


def landed(of: declaration.LandTable, values: Sequence[bytes | None], **more: Any) -> TableRows:
    batch = build(Records.listed(Record(0, n, body(b"k", value)) for n, value in enumerate(values)))
    return RowReader(of, **more).read(TopicPartition("t", 0), RecordArrays.of(list(walk(batch))))


def column(name: str, type_: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def errors(rows: TableRows) -> dict[int, str]:
    return dict(zip(rows.bad["k_offset"].to_pylist(), rows.bad["error"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_every_type_lands_as_it_was_written(kind: str, data: st.DataObject) -> None:
    """As it is, nullable, and in arrays of all and of nullable items, between fields that nobody wants."""
    of, type_, values, expected = TYPES[kind]
    again = of["name"] if isinstance(of, dict) and "name" in of else of
    schema = record(
        ("before", {"type": "map", "values": ["null", "string", {"type": "array", "items": "long"}]}),
        ("plain", of),
        ("maybe", ["null", again]),
        ("late", [again, "null"]),
        ("between", {"type": "array", "items": ["int", "string"]}),
        ("many", {"type": "array", "items": again}),
        ("holes", ["null", {"type": "array", "items": ["null", again]}]),
        ("inner", ["null", {"type": "record", "name": "I", "fields": [{"name": "x", "type": again}]}]),
    )
    maybe = st.one_of(st.none(), values)
    row = st.fixed_dictionaries({
        "before": st.dictionaries(TEXT, st.one_of(st.none(), TEXT, st.lists(LONG, max_size=3)), max_size=3),
        "plain": values,
        "maybe": maybe,
        "late": maybe,
        "between": st.lists(st.one_of(INT, TEXT), max_size=3),
        "many": st.lists(values, max_size=4),
        "holes": st.one_of(st.none(), st.lists(maybe, max_size=4)),
        "inner": st.one_of(st.none(), st.fixed_dictionaries({"x": values})),
    })  # fmt: skip
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    columns = [
        *(column(name, type_) for name in ("plain", "maybe", "late")),
        *(column(name, f"array<{type_}>") for name in ("many", "holes")),
        column("x", type_, **{"from": "inner.x"}),
    ]
    found = landed(table(schema, columns), [written(schema, each) for each in rows])

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(each) for each in value]
        return None if value is None else expected(value)

    assert errors(found) == {}
    for name in ("plain", "maybe", "late", "many", "holes"):
        assert found.table[name].to_pylist() == [read(each[name]) for each in rows]
    assert found.table["x"].to_pylist() == [each["inner"] and read(each["inner"]["x"]) for each in rows]


FLIGHT = record(
    ("id", "int"),
    ("skipped", {"type": "array", "items": ["null", "string", {"type": "map", "values": "bytes"}]}),
    ("kind", {"type": "enum", "name": "K", "symbols": ["A", "B"]}),
    ("name", ["null", "string"]),
    ("many", {"type": "array", "items": "long"}),
    ("texts", {"type": "array", "items": ["null", "string"]}),
    ("on", "boolean"),
)
FLIGHTS = table(
    FLIGHT,
    [
        *(column("id", "int"), column("kind", "string"), column("name", "string"), column("on", "boolean")),
        *(column("many", "array<bigint>"), column("texts", "array<string>")),
    ],
)
FLIGHT_ROW = st.fixed_dictionaries({
    "id": INT,
    "skipped": st.lists(
        st.one_of(st.none(), TEXT, st.dictionaries(TEXT, st.binary(max_size=3), max_size=2)), max_size=3),
    "kind": st.sampled_from("AB"),
    "name": st.one_of(st.none(), TEXT),
    "many": st.lists(LONG, max_size=5),
    "texts": st.lists(st.one_of(st.none(), TEXT), max_size=3),
    "on": st.booleans(),
})  # fmt: skip
TAKEN = ("id", "kind", "name", "many", "texts", "on")


@settings(deadline=None)
@given(st.lists(st.one_of(FLIGHT_ROW, st.binary(max_size=30)), min_size=1, max_size=10), st.randoms())
def test_a_record_is_read_whatever_stands_beside_it(records: list[Any], chance: Any) -> None:
    """Bytes of anything, cut records, and ones with more behind them are there only as what they are."""
    values, whole = [], {}
    for number, each in enumerate(records):
        data = each if isinstance(each, bytes) else written(FLIGHT, each)
        if isinstance(each, dict):
            what = chance.randrange(4)
            if what == 0:
                data = data[: chance.randrange(len(data))]
            elif what == 1:
                data += b"\0"
            else:
                whole[number] = each
        values.append(data)
    found = landed(FLIGHTS, values)
    wrong = errors(found)
    offsets = found.table["k_offset"].to_pylist()
    assert sorted([*offsets, *wrong]) == list(range(len(values)))
    rows = dict(zip(offsets, found.table.select(TAKEN).to_pylist(), strict=True))
    for number, each in enumerate(records):
        if number in whole:
            assert rows[number] == {name: each[name] for name in TAKEN}
        elif isinstance(each, dict):
            assert wrong[number] in ("it ends too early", "more bytes follow after the end of the record")
        elif number in rows:  # by chance; then fastavro reads the same of all its bytes
            source = io.BytesIO(each)
            other: Any = fastavro.schemaless_reader(source, fastavro.parse_schema(FLIGHT), None)
            assert rows[number] == {name: other[name] for name in TAKEN}
            assert source.read() == b""


def zigzag(number: int) -> bytes:
    out, rest = b"", (number << 1) ^ (number >> 63)
    rest &= (1 << 64) - 1
    while rest >= 0x80:
        out, rest = out + bytes([rest & 0x7F | 0x80]), rest >> 7
    return out + bytes([rest])


HOSTILE = {
    "text of 2^62 bytes": ("string", zigzag(2**62) + b"x", "it ends too early"),
    "text of -1 bytes": ("string", zigzag(-1) + b"x", "it ends too early"),
    "2^62 items": ({"type": "array", "items": "long"}, zigzag(2**62) + b"\0", "it ends too early"),
    "-2^63 items": (
        {"type": "array", "items": "long"},
        zigzag(-(2**63)) + zigzag(1) + b"\0\0",
        "it ends too early",
    ),
    "more items than bytes": (
        {"type": "array", "items": "string"},
        zigzag(9) + b"\0\0\0",
        "it ends too early",
    ),
    "an array without an end": ({"type": "array", "items": "long"}, zigzag(1) + b"\2", "it ends too early"),
    "2^62 doubles": ({"type": "array", "items": "double"}, zigzag(2**62), "it ends too early"),
    "a branch before the first": (
        ["null", "long"],
        zigzag(-1),
        ("it uses a branch that the union does not have"),
    ),
    "a branch behind the last": (
        ["null", "long"],
        zigzag(2),
        ("it uses a branch that the union does not have"),
    ),
    "a symbol before the first": (
        {"type": "enum", "name": "E", "symbols": ["A"]},
        zigzag(-1),
        "it uses a symbol that the enum does not have",
    ),
    "a number of 11 bytes": ("long", b"\xff" * 10 + b"\1", "a number has more than 64 bits"),
    "a number of 65 bits": ("long", b"\xff" * 9 + b"\2", "a number has more than 64 bits"),
    "an int of 33 bits": ("int", zigzag(2**31), "an int has more than 32 bits"),
    "a number without an end": ("long", b"\xff", "it ends too early"),
    "a boolean of 2": ("boolean", b"\2", "a boolean is neither 0 nor 1"),
    "no UTF-8": ("string", zigzag(1) + b"\xff", "a string is not valid UTF-8"),
    "a decimal of nothing": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        zigzag(0),
        "a decimal has no bytes",
    ),
    "a decimal of 39 digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        zigzag(16) + (10**38).to_bytes(16, "big"),
        "a decimal has more than 38 digits",
    ),
    "a decimal of 17 bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        zigzag(17) + b"\1" + bytes(16),
        "a decimal has more than 38 digits",
    ),
    "year 10000": (
        {"type": "long", "logicalType": "timestamp-millis"},
        zigzag(253_402_300_800_000),
        "a timestamp is not in the years 1 to 9999",
    ),
    "local year 10000": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        zigzag(253_402_300_800_000_000),
        "a timestamp is not in the years 1 to 9999",
    ),
    "a date of year 10000": (
        {"type": "int", "logicalType": "date"},
        zigzag(2_932_897),
        "a date is not in the years 1 to 9999",
    ),
}
COLUMN_OF = {"decimal": "decimal(38,0)", "date": "date", "timestamp-millis": "timestamp", "enum": "string"}
COLUMN_OF |= {"local-timestamp-micros": "timestamp", "string": "string", "boolean": "boolean", "int": "int"}


def column_of(of: Json) -> str:
    if isinstance(of, list):
        return column_of(of[1])
    if isinstance(of, dict) and of["type"] == "array":
        return f"array<{column_of(of['items'])}>"
    name = (of.get("logicalType") or of["type"]) if isinstance(of, dict) else of
    return COLUMN_OF.get(name, {"long": "bigint", "double": "double"}.get(name, ""))


@pytest.mark.parametrize("what", HOSTILE)
def test_bytes_that_lie_are_named_and_stop_nobody(what: str) -> None:
    of, data, reason = HOSTILE[what]
    schema = record(("id", "long"), ("x", of))
    columns = [column("id", "bigint"), column("x", column_of(of))]
    good = zigzag(7) + (zigzag(1) + zigzag(3) if isinstance(of, list) else b"")
    values = [zigzag(1) + data, *([good] if isinstance(of, list) else []), zigzag(2) + data]
    found = landed(table(schema, columns), values)
    assert errors(found) == {0: reason, len(values) - 1: reason}
    assert found.table["id"].to_pylist() == ([7] if isinstance(of, list) else [])


NESTED = record(
    ("skipped", {"type": "array", "items": ["null", "string", {"type": "map", "values": "bytes"}, "int"]}),
    (
        "pairs",
        {"type": "array", "items": record(("a", "boolean"), ("b", ["double", "long"])) | {"name": "P"}},
    ),
    ("kinds", {"type": "map", "values": {"type": "enum", "name": "K", "symbols": ["A", "B"]}}),
    ("counts", {"type": "array", "items": {"type": "array", "items": "int"}}),
    ("fixed", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 3}}),
    ("many", {"type": "array", "items": "long"}),
    ("texts", {"type": "array", "items": ["null", "string"]}),
    ("halves", {"type": "array", "items": "float"}),
)
NESTED_ROW = st.fixed_dictionaries({
    "skipped": st.lists(
        st.one_of(st.none(), TEXT, st.dictionaries(TEXT, st.binary(max_size=3), max_size=2), INT), max_size=3
    ),
    "pairs": st.lists(
        st.fixed_dictionaries({"a": st.booleans(), "b": st.one_of(st.floats(), LONG)}), max_size=3
    ),
    "kinds": st.dictionaries(TEXT, st.sampled_from("AB"), max_size=3),
    "counts": st.lists(st.lists(INT, max_size=3), max_size=3),
    "fixed": st.lists(st.binary(min_size=3, max_size=3), max_size=3),
    "many": st.one_of(st.lists(LONG, max_size=5), st.integers(60, 90).map(lambda count: [-300] * count)),
    "texts": st.lists(st.one_of(st.none(), TEXT), max_size=3),
    "halves": st.lists(st.floats(width=32), max_size=3),
})  # fmt: skip
NESTED_COLUMNS = [
    column("many", "array<bigint>"),
    column("texts", "array<string>"),
    column("halves", "array<float>"),
]


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.one_of(NESTED_ROW, st.binary(max_size=30)), st.data())
def test_record_is_read_alone_as_among_many(row: Any, chance: st.DataObject) -> None:
    """Few records are read by Python, many by numpy: rows, reasons and what lies behind must be the same."""
    value = row if isinstance(row, bytes) else written(NESTED, row)
    if value and chance.draw(st.booleans()):  # one byte is another
        index = chance.draw(st.integers(0, len(value) - 1))
        value = value[:index] + chance.draw(st.binary(min_size=1, max_size=1)) + value[index + 1 :]
    of = table(NESTED, NESTED_COLUMNS)
    other = b"\0"  # ends a number that the value does not end
    alone, among = landed(of, [value, other]), landed(of, [value, other] * (FEW + 1))
    assert len(errors(alone)) == 2 - len(alone.table)
    reasons = [*errors(alone).values()] * (FEW + 1)
    assert [*errors(among).values()] == reasons
    rows, copies = (some.table.select(["many", "texts", "halves"]).to_pylist() for some in (alone, among))
    assert repr(copies) == repr(rows * (FEW + 1))


@pytest.mark.parametrize("times", [1, FEW + 1])
def test_reason_is_of_the_record_s_own_bytes(times: int) -> None:
    """A record that ends too early is followed by one whose first number has more than 64 bits."""
    cut, large = b"\0", b"\x80" * 9 + b"\x02"
    found = errors(landed(table(NESTED, NESTED_COLUMNS), [cut, large] * times))
    assert [*found.values()] == ["it ends too early", "a number has more than 64 bits"] * times


def filling(fields: int, items: int) -> tuple[Json, Sequence[bytes]]:
    """Return a schema of several arrays, and records that each fill a different array."""
    schema = record(*((f"f{number}", {"type": "array", "items": "string"}) for number in range(fields)))
    full = zigzag(items) + bytes(items) + zigzag(0)
    return schema, [zigzag(0) * number + full + zigzag(0) * (fields - 1 - number) for number in range(fields)]


def test_records_that_fill_different_fields_need_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of numpy takes 33 microseconds: of 800 such records of 100 KB it took 44 minutes."""
    calls: list[int] = []
    step = AvroData._step

    def counted(self: AvroData, rows: Any) -> None:
        calls.append(len(rows))
        step(self, rows)

    monkeypatch.setattr(AvroData, "_step", counted)
    schema, values = filling(8, 10_000)
    text, ends = b"".join(values) + bytes(PADDING), np.cumsum([len(value) for value in values])
    avro = AvroData(
        bytes=np.frombuffer(text, np.uint8), at=ends - [len(value) for value in values], ends=ends
    )
    avro.read(avro_schema.parse(json.dumps(schema)), WantedFields.of([]))
    assert (avro.why, avro.at.tolist()) == ({}, ends.tolist())
    assert len(calls) <= 8


@pytest.mark.parametrize("beside", [0, 50])
def test_steps_of_all_records_have_a_limit(beside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records with many steps go to the bad table then; those with few are read."""
    monkeypatch.setattr(avro_data, "MOST_COST", 30_000)
    schema, values = filling(8, 10_000)
    small = [zigzag(100) + bytes(100) + zigzag(0) * 8] * beside
    of = table(schema, [column("own", "string", **{"from": "$key"})])
    rows = landed(of, [*small, *values, zigzag(FREE_STEPS - 1) + bytes(FREE_STEPS - 1) + zigzag(0) * 8])
    assert set(errors(rows).values()) == {NOT_FREE}
    refused, last = set(errors(rows)), beside + len(values)
    assert {*range(beside + 3, last)} <= refused <= {*range(beside, last)}
    assert sorted([*refused, *rows.table["k_offset"].to_pylist()]) == list(range(last + 1))


LIST = record(("id", "long"))
LIST["fields"].append({"name": "next", "type": ["null", "R"]})


def test_depth_of_records_has_a_limit() -> None:
    def chain(length: int) -> bytes:
        return b"".join(zigzag(each) + zigzag(1) for each in range(length)) + zigzag(9) + zigzag(0)

    within = DEPTH // 2 - 1  # a union and a record for each
    found = landed(table(LIST, [column("id", "bigint")]), [chain(within), chain(100_000), chain(3)])
    assert errors(found) == {1: f"it has more than {DEPTH} nested levels"}
    assert found.table["k_offset"].to_pylist() == [0, 2]


def test_a_large_array_takes_no_time_of_others() -> None:
    schema = record(
        ("id", "long"),
        ("many", {"type": "array", "items": "string"}),
        ("n", {"type": "array", "items": "long"}),
    )
    empty = zigzag(0) + zigzag(0)
    hostile = zigzag(1) + zigzag(1_000_000) + bytes(1_000_000) + empty
    blocks = zigzag(1) + (zigzag(1) + zigzag(0)) * 500_000 + empty
    numbers = zigzag(2) + zigzag(0) + zigzag(1_000_000) + zigzag(300) * 1_000_000 + zigzag(0)
    columns = [column("id", "bigint"), column("n", "array<bigint>")]
    found = landed(table(schema, columns), [hostile, numbers, blocks, zigzag(3) + empty])
    reason = "its arrays, maps, unions and records need more than 100,000 steps to read"
    assert errors(found) == {0: reason, 2: reason}
    assert found.table["id"].to_pylist() == [2, 3]
    assert len(found.table["n"][0].as_py()) == 1_000_000


def test_records_that_double_at_each_level_end_soon() -> None:
    """Of 2^40 empty records, and of a tree that a union makes of few bytes."""
    within: Json = {"type": "record", "name": "A0", "fields": []}
    for level in range(40):
        inner = [{"name": "a", "type": within}, {"name": "b", "type": f"A{level}"}]
        within = {"type": "record", "name": f"A{level + 1}", "fields": inner}
    of = table(record(("x", "int"), ("a", within)), [column("x", "int")])
    reason = "its arrays, maps, unions and records need more than 100,000 steps to read"
    assert errors(landed(of, [zigzag(1), b""])) == {0: reason, 1: "it ends too early"}
    branches = [{"name": name, "type": ["null", "T"]} for name in "lr"]
    tree = {"type": "record", "name": "T", "fields": branches}
    of = table(record(("x", "int"), ("t", tree)), [column("x", "int")])

    def node(depth: int) -> bytes:
        return (zigzag(1) + node(depth - 1)) * 2 if depth else zigzag(0) * 2

    assert errors(landed(of, [zigzag(1) + node(17), zigzag(2) + node(3)])) == {0: reason}


def test_columns_may_all_be_of_the_record_itself() -> None:
    own = [column("key", "string", **{"from": "$key"})]
    assert landed(table(record(("x", "int")), own), [zigzag(1), b"", None]).table["key"].to_pylist() == ["k"]


def test_numbers_are_judged_by_their_columns() -> None:
    schema = record(
        ("x", "long"), ("d", "double"), ("m", {"type": "bytes", "logicalType": "decimal", "precision": 30})
    )
    columns = [column("x", "tinyint"), column("d", "double"), column("m", "decimal(5,2)")]
    rows = [(127, 1.0, 999), (128, 1.0, 1), (1, float("nan"), 1), (1, float("inf"), 1), (1, 0.5, 1000)]
    values = [written(schema, {"x": x, "d": d, "m": Decimal(m)}) for x, d, m in rows]
    found = landed(table(schema, columns), values)
    assert found.table["m"].to_pylist() == [Decimal("999.00")]
    assert errors(found) == {
        1: "x is not a value of type tinyint",
        2: "d is not a value of type double",
        3: "d is not a value of type double",
        4: "m is not a value of type decimal(5,2)",
    }


def test_times_are_of_their_zone() -> None:
    schema = record(
        ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
        ("text", "string"),
        ("epoch", ["null", "long"]),
        ("instant", {"type": "long", "logicalType": "timestamp-millis"}),
    )
    zone = {"zone": "America/New_York"}
    columns = [
        *(column(name, "timestamp", **zone) for name in ("local", "text", "instant")),
        column("epoch", "timestamp", unit="s"),
        column("again", "timestamp", **{"from": "local"}),
    ]
    gap = datetime(2013, 3, 10, 2, 30)
    instant = datetime(2013, 3, 10, 7, 30, tzinfo=UTC)
    row = {"local": gap, "text": gap.isoformat(), "epoch": int(instant.timestamp()), "instant": instant}
    found = landed(table(schema, columns), [written(schema, row), written(schema, row | {"text": "x"})])
    moment = naive(instant)
    assert found.table.select(["local", "text", "instant", "epoch", "again"]).to_pylist() == [
        {"local": moment, "text": moment, "instant": moment, "epoch": moment, "again": gap}
    ]
    assert errors(found) == {1: "text is not a value of type timestamp"}


def test_tombstones_and_other_origins() -> None:
    of = table(
        record(("x", "long")),
        [column("x", "bigint"), column("key", "string", **{"from": "$key"})],
        tombstones="keep",
    )
    found = landed(of, [zigzag(1), None, b"", zigzag(2)])
    assert found.table["x"].to_pylist() == [1, None, 2]
    assert found.table["k_tombstone"].to_pylist() == [False, True, False]
    assert found.table["key"].to_pylist() == ["k"] * 3
    assert errors(found) == {2: "it ends too early"}


def test_a_uuid_of_16_bytes() -> None:
    schema = record(("x", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}))
    value = UUID("01234567-89ab-cdef-0123-456789abcdef")
    found = landed(table(schema, [column("x", "string")]), [value.bytes])
    assert found.table["x"].to_pylist() == [str(value)]


REFUSED = {
    "no schema": (
        None,
        column("x", "bigint"),
        "lake.yml: a.b.schema: the format avro needs a schema",
    ),
    "no file": (
        "none.avsc",
        column("x", "bigint"),
        "lake.yml: a.b.schema: cannot read none.avsc: No such file or directory.",
    ),
    "no JSON": ("{x", column("x", "bigint"), "lake.yml: a.b.schema: it is not JSON: Expecting property name"),
    "no record": (
        {"type": "array", "items": "long"},
        column("x", "bigint"),
        "it is the schema of array, not of a record.",
    ),
    "unknown type": (
        record(("x", "lung")),
        column("x", "bigint"),
        ("it refers to the type lung, which does not exist."),
    ),
    "no such field": (
        record(("delay", "long")),
        column("dely", "bigint"),
        "the schema has no field dely; did you mean delay?."[:-1],
    ),
    "double": (
        record(("x", "double")),
        column("x", "bigint"),
        "cannot read x: double does not fit the column type bigint.",
    ),
    "long": (
        record(("x", "long")),
        column("x", "double"),
        "cannot read x: long does not fit the column type double.",
    ),
    "string": (
        record(("x", "string")),
        column("x", "bigint"),
        ("cannot read x: string does not fit the column type bigint."),
    ),
    "union": (
        record(("x", ["long", "string"])),
        column("x", "bigint"),
        ": union of long, string does not fit the column type bigint.",
    ),
    "record": (
        record(("x", record() | {"name": "S"})),
        column("x", "string"),
        "cannot read x: record S does not fit the column type string.",
    ),
    "map": (
        record(("x", {"type": "map", "values": "long"})),
        column("x", "array<bigint>"),
        ": map does not fit the column type array<bigint>.",
    ),
    "below a scalar": (
        record(("x", "long")),
        column("y", "bigint", **{"from": "x.y"}),
        "x is of type long, which has no fields.",
    ),
    "no unit": (
        record(("x", "long")),
        column("x", "timestamp"),
        ": long does not fit the column type timestamp; declare its unit.",
    ),
    "scale": (
        record(("x", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4})),
        column("x", "decimal(9,2)"),
        ": bytes (decimal) does not fit the column type decimal(9,2).",
    ),
    "itself": (
        LIST | {"fields": [{"name": "x", "type": "R"}]},
        column("x", "bigint"),
        "the record R contains itself without an end.",
    ),
    "no bytes": (
        record(("x", {"type": "array", "items": "null"})),
        column("x", "array<bigint>"),
        "have a size of 0 bytes",
    ),
    "twice": (
        record(("x", "long"), ("x", "long")),
        column("x", "bigint"),
        "the record R has the field x twice.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_fit_is_refused(what: str) -> None:
    schema, wanted, said = REFUSED[what]
    with pytest.raises(Refused) as error:
        table(schema, [wanted])
    assert said in str(error.value)


def test_landing_uses_content_of_schema_file(tmp_path: Path) -> None:
    content = [
        {
            "table": "a.b",
            "topics": ["t"],
            "format": "avro",
            "schema": "s/x.avsc",
            "columns": [column("x", "bigint")],
        }
    ]
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x.avsc").write_text(json.dumps(record(("x", "long"))))
    [of] = declaration.parse(content, str(tmp_path / "lake.yml"))
    assert landed(of, [zigzag(4)]).table["x"].to_pylist() == [4]


@pytest.mark.parametrize("logical", ["timestamp-nanos", "local-timestamp-nanos"])
def test_nanoseconds(logical: str) -> None:
    schema = record(("c", {"type": "long", "logicalType": logical}))
    plain = record(("c", "long"))
    values = [written(plain, {"c": nanos}) for nanos in (1_000, -1_999_999_000, 1_001, -(2**63))]
    found = landed(table(schema, [column("c", "timestamp")]), values)
    assert found.table.column("c").cast(pa.int64()).to_pylist() == [1, -1_999_999]
    errors = found.bad.column("error").to_pylist()
    assert all("has nanoseconds" in each for each in errors)
    assert len(errors) == 2
    cut = landed(table(schema, [column("c", "timestamp", nanoseconds="cut")]), values)
    assert cut.table.column("c").cast(pa.int64()).to_pylist() == [1, -1_999_999, 1, -(2**63) // 1_000]


def test_a_namespace_that_is_null_is_none() -> None:
    """As Java's parser has it: the name is of the namespace around it."""
    inner = {"type": "enum", "name": "E", "namespace": None, "symbols": ["X"]}
    schema = {**record(("e", inner), ("f", "a.E")), "namespace": "a"}
    assert str(avro_schema.at(avro_schema.parse(json.dumps(schema)), ("f",))) == "enum"
    alone = {**record(("x", "long")), "namespace": None}
    assert str(avro_schema.parse(json.dumps(alone))) == "record R"


def test_names_are_of_their_namespace() -> None:
    schema = avro_schema.parse(json.dumps({
        "type": "record", "name": "R", "namespace": "a",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
            {"name": "f", "type": ["null", "a.E"]},
            {"name": "g", "type": {"type": "record", "name": "b.S", "fields": [
                {"name": "own", "type": {"type": "fixed", "name": "E", "size": 2}},
                {"name": "again", "type": "E"}]}},
            {"name": "h", "type": "E"},
        ],
    }))  # fmt: skip
    assert [str(avro_schema.at(schema, path)) for path in (("f",), ("g", "again"), ("h",))] == [
        "union of null, enum",
        "fixed",
        "enum",
    ]


# By a registry's ids

FIRST = record(("x", "int"))
SECOND = record(("more", "string"), ("y", ["null", "double"]), ("x", "long"))
OTHERS = record(("x", "string"))


def find(id_: int) -> avro_schema.RecordType:
    known = {1: FIRST, 2: SECOND, 3: OTHERS}
    if id_ not in known:
        raise avro_schema.WrongSchema("the registry has no schema with this id")
    return avro_schema.parse(json.dumps(known[id_]))


def with_id(id_: int, data: bytes) -> bytes:
    return struct.pack(">BI", 0, id_) + data


def test_each_record_is_read_by_its_writers_schema() -> None:
    [of] = declaration.parse(
        [{"table": "a.b", "topics": ["t"], "format": "avro_registry", "registry": "http://registry.example.com:8081",
          "columns": [column("x", "bigint"), column("y", "double")]}],
        "lake.yml",
    )  # fmt: skip
    second = written(SECOND, {"more": "m", "y": 0.5, "x": 2**40})
    values = [
        *(with_id(1, zigzag(-7)), with_id(2, second), None, with_id(9, b""), with_id(3, zigzag(0)), b"{}"),
        *(b"\0\0\0\0", with_id(2, second + b"!"), with_id(1, zigzag(8)), b"\1" + with_id(1, zigzag(8))[1:]),
    ]
    found = landed(of, values, find=find)
    assert found.table.select(["k_offset", "x", "y"]).to_pylist() == [
        {"k_offset": 0, "x": -7, "y": None},
        {"k_offset": 1, "x": 2**40, "y": 0.5},
        {"k_offset": 8, "x": 8, "y": None},
    ]
    unheaded = "it does not begin with the byte 0 and a schema id, as records with a schema registry do"
    assert errors(found) == {
        3: "schema 9: the registry has no schema with this id",
        4: "schema 3: x: string does not fit the column type bigint",
        5: unheaded,
        6: unheaded,
        7: "more bytes follow after the end of the record",
        9: unheaded,
    }


def test_what_the_values_of_a_slice_are() -> None:
    """Values may begin anywhere in Arrow's buffers."""
    reader = RowReader(table(record(("x", "long")), [column("x", "bigint")]))._reader
    values = pa.array([zigzag(n) for n in range(300)], pa.binary())
    assert reader.read(values.slice(100, 150)).table["x"].to_pylist() == list(range(100, 250))
    assert reader.read(values.slice(100, 0)).table["x"].to_pylist() == []


def test_a_leap_of_years_is_no_wrong_date() -> None:
    schema = record(("x", {"type": "int", "logicalType": "date"}))
    days = [date.min, date.max, date(1970, 1, 1) + timedelta(1)]
    found = landed(table(schema, [column("x", "date")]), [written(schema, {"x": day}) for day in days])
    assert found.table["x"].to_pylist() == days
