"""What is wrong in a declaration is a sentence that says where."""

from typing import Any

import pyarrow as pa
import pytest

from aqueduct.errors import Refused
from aqueduct.land import declaration
from aqueduct.land.declaration import LandTable, LateTable, TableKind


def parsed(column: dict[str, Any] | None = None, **changes: Any) -> LandTable:
    content = {
        "table": "flights.departures",
        "topics": ["flights"],
        "columns": [column or {"name": "c", "type": "string"}],
    }
    [found] = declaration.parse([content | changes], "lake.yml")
    return found


def test_what_is_not_said() -> None:
    table = parsed()
    assert (table.full_name, table.bad) == ("flights.departures", "flights.departures_bad")
    assert table.partitioned_by is None
    assert not table.keeps_tombstones
    assert table.columns[0].path == ("c",)
    assert table.every is None


def test_how_often_a_table_lands() -> None:
    assert parsed(every="15m").every == 900
    assert parsed(every="1d", late="add").every == 86_400


def test_a_table_may_be_one_of_iceberg_s() -> None:
    assert (parsed().kind, parsed(kind="hive").kind) == (TableKind.HIVE, TableKind.HIVE)
    assert (parsed(kind="iceberg").kind, parsed(kind="iceberg").snapshots) == (TableKind.ICEBERG, 86_400)
    assert parsed(kind="iceberg", snapshots="7d").snapshots == 7 * 86_400
    for wrong, said in (
        ({"kind": "icberg"}, "did you mean iceberg?"),
        ({"snapshots": "7d"}, "only a table of the kind iceberg has some"),
        ({"kind": "iceberg", "snapshots": "10m"}, "write 1h or more"),
        ({"kind": "iceberg", "snapshots": "soon"}, "soon isn't a duration"),
    ):
        with pytest.raises(Refused, match=said.replace("?", r"\?")):
            parsed(**wrong)


def test_rows_that_come_late_have_a_table() -> None:
    late = {"table": "flights.late", "after": "7d"}
    table = parsed(TIME, partition_by=[day("day", "t")], late=late)
    assert table.late == LateTable("flights.late", 7 * 86_400)
    assert table.beside == ("flights.departures_bad", "flights.late")
    assert parsed().beside == ("flights.departures_bad",)


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("bigint", pa.int64()),
        ("decimal(18,4)", pa.decimal128(18, 4)),
        ("array<string>", pa.list_(pa.string())),
        ("ARRAY<decimal(3, 1)>", pa.list_(pa.decimal128(3, 1))),
        ("timestamp", pa.timestamp("us")),
    ],
)
def test_types_have_hive_s_names(name: str, type_: pa.DataType) -> None:
    assert parsed({"name": "c", "type": name}).columns[0].type == type_


@pytest.mark.parametrize(
    ("topics", "takes", "others"),
    [
        (["a.b"], ["a.b"], ["axb", "a.b.c"]),
        (["a-[0-9]+"], ["a-1", "a-22"], ["a-", "a-1x", "xa-1"]),
        (["a", "b.*"], ["a", "b", "bc"], ["ab"]),
        ([".*"], ["a"], ["__consumer_offsets", "__own"]),
    ],
)
def test_topics_are_names_or_patterns(topics: list[str], takes: list[str], others: list[str]) -> None:
    table = parsed(topics=topics)
    assert all(map(table.takes, takes))
    assert not any(map(table.takes, others))


def test_sql_computes_columns_and_says_what_lands() -> None:
    at = {"name": "at", "type": "timestamp", "expression": "now()", "zone": "Europe/Berlin"}
    table = parsed(sql={"columns": [at], "where": "c > 1"}, partition_by=[day("d", "at")])
    [computed] = [column for column in table.columns if column.expression]
    assert (computed.origin, computed.zone.key, computed.of_value) == ("now()", "Europe/Berlin", False)
    assert table.partitioned_by is not None
    assert table.partitioned_by.of == computed
    assert table.by_sql
    assert table.beside == ("flights.departures_bad", "flights.departures_filtered")
    assert not parsed().by_sql


def day(name: str, of: str) -> dict[str, str]:
    return {"name": name, "of": of, "every": "day"}


COLUMN = {"name": "c", "type": "string"}
TIME = {"name": "t", "type": "timestamp"}
DAYS: dict[str, Any] = {"columns": [TIME], "partition_by": [day("d", "t")]}
LATE = {"table": "flights.late", "after": "7d"}
COMPUTED = {"name": "d", "type": "int", "expression": "1"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"table": "departures"}, "lake.yml: departures.table: departures isn't a table's name"),
        ({"table": "Flights.x"}, "isn't a table's name"),
        ({"topics": []}, "topics has to be a list with something in it"),
        ({"topics": ["a["]}, "a[ is neither a topic's name nor a pattern"),
        ({"format": "jsn"}, "there is no jsn; did you mean json?"),
        ({"colums": []}, "there is no key colums; did you mean columns?"),
        ({"columns": [{"name": "c", "type": "text"}]}, "text isn't a type of a column"),
        ({"columns": [{"name": "c", "type": "decimal(39,1)"}]}, "isn't a type; a decimal has 1 to 38 digits"),
        ({"columns": [{"name": "c", "type": "array<array<int>>"}]}, "an array holds scalars"),
        ({"columns": [{"name": "C", "type": "int"}]}, "C isn't a column's name"),
        ({"columns": [{"name": "k_offset", "type": "int"}]}, "every table has its own column k_offset"),
        ({"columns": [COLUMN, COLUMN]}, "c is declared twice"),
        ({"columns": [{**COLUMN, "from": "a..b"}]}, "a..b isn't a path"),
        ({"columns": [{**COLUMN, "from": "$ofset"}]}, "there is no $ofset"),
        ({"columns": [{"name": "c", "type": "int", "from": "$key"}]}, "$key is of type string or binary"),
        ({"columns": [{**COLUMN, "zone": "UTC"}]}, "only a timestamp has one"),
        ({"columns": [{**TIME, "zone": "Europe/Berln"}]}, "there is no time zone Europe/Berln"),
        ({"columns": [{**TIME, "unit": "ps"}]}, "there is no ps"),
        ({"columns": [{**TIME, "nanoseconds": "round"}]}, "there is no round"),
        ({"columns": [{**COLUMN, "nanoseconds": "cut"}]}, "only a timestamp has one"),
        ({"columns": [{**COLUMN, "from": "a..b"}]}, "isn't a path"),
        ({"columns": [{**COLUMN, "from": "a."}]}, "isn't a path"),
        ({"strip": ["bom", "null"]}, "there is no null; did you mean nul?"),
        ({"strip": ["bom"], "format": "raw", "columns": [{**COLUMN, "from": "$value"}]}, "of the formats"),
        ({"columns": [COLUMN, {**COLUMN, "name": "d", "from": "c.x"}]}, "is read as a value"),
        ({"partition_by": [day("day", "x")]}, "there is no column x"),
        ({"partition_by": [day("day", "c")]}, "a day is one of a timestamp"),
        ({"columns": [TIME], "partition_by": [day("t", "t")]}, "t can't be a partition's name"),
        ({"columns": [TIME], "partition_by": [day("d", "t") | {"every": "hour"}]}, "there is no hour"),
        ({"tombstones": "both"}, "there is no both"),
        ({"columns": [{"name": "c", "type": "string", "from": None}]}, "from has to be there, as text"),
        ({"format": "avro", "schema": "a\0b"}, "can't be read"),
        ({"format": "avro_registry", "registry": "http://localhost", "registry_config": 5}, "name of a file"),
        (
            {"format": "avro_registry", "registry": "http://localhost", "registry_config": "a\0b"},
            "a\0b can't be read",
        ),
        ({"late": "drop"}, "late: there is no drop; write add, or {table: database.name, after: 7d}"),
        ({"late": None}, "late: there is no None"),
        ({"late": LATE}, "late: what is late is so for its day; declare partition_by"),
        ({**DAYS, "late": LATE | {"after": "soon"}}, "late.after: soon isn't a duration; write 10s"),
        ({**DAYS, "late": {"table": "a.b"}}, "late.after: None isn't a duration"),
        ({**DAYS, "late": {"after": "7d"}}, "late: table has to be there"),
        ({**DAYS, "late": LATE | {"table": "b"}}, "late.table: b isn't a table's name"),
        ({**DAYS, "late": LATE | {"befor": 1}}, "late: there is no key befor"),
        ({**DAYS, "late": LATE | {"table": "flights.departures"}}, "departures is declared twice"),
        ({**DAYS, "late": LATE | {"table": "flights.departures_bad"}}, "departures_bad is declared twice"),
        ({**DAYS, "columns": [{**TIME, "from": "$timestamp"}], "late": LATE}, "by which no record is late"),
        ({"sql": "a > 1"}, "sql: it has to be a mapping with columns, where"),
        ({"sql": {}}, "sql: write columns, where, or both"),
        ({"sql": {"when": "true"}}, "sql: there is no key when"),
        ({"sql": {"where": True}}, "sql: where has to be there, as text"),
        ({"sql": {"columns": [{**COLUMN, "expression": "1"}]}}, "c is declared twice"),
        ({"sql": {"columns": [{"name": "d", "type": "int"}]}}, "columns[0]: expression has to be there"),
        ({"sql": {"columns": [{**COMPUTED, "zone": "UTC"}]}}, "only a timestamp has one"),
        ({"sql": {"columns": [{**COMPUTED, "from": "a"}]}}, "there is no key from"),
        ({"sql": {"where": "true"}, "kind": "iceberg"}, "a table of the kind iceberg can't have it"),
        ({"sql": {"where": "true"}, "poison": "flights.departures_filtered"}, "filtered is declared twice"),
        ({"every": "60"}, "every: 60 isn't a duration; write 10s, 5m, 1h or 7d"),
        ({"every": "0s"}, "every: it is the time between rounds; write 1s or more"),
        ({"poison": "x"}, "x isn't a table's name"),
        ({"poison": "flights.departures"}, "the table flights.departures is declared twice"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refused:
        parsed(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize("content", [None, {}, [], "x", [1]])
def test_a_file_without_tables(content: Any) -> None:
    with pytest.raises(Refused, match=r"lake\.yml"):
        declaration.parse(content, "lake.yml")


def test_every_wrong_table_is_named() -> None:
    with pytest.raises(Refused) as refused:
        declaration.parse([{"table": "a.b"}, {"table": "c.d"}], "lake.yml")
    assert all(name in str(refused.value) for name in ("a.b", "c.d"))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.b", ("a", "b")),
        (r"a\.b", ("a.b",)),
        (r"a\.b.c", ("a.b", "c")),
        (r"a\\.b", ("a\\", "b")),
        (r"a\b", (r"a\b",)),
    ],
)
def test_paths_of_names_with_dots(text: str, path: tuple[str, ...]) -> None:
    assert declaration.read_path(text) == path
    assert declaration.read_path(declaration.written_path(path)) == path


def test_one_topic_or_pattern_without_a_list() -> None:
    assert parsed(topics="eu[.].+").topics == ("eu[.].+",)
