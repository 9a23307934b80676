"""What is wrong in a declaration is a sentence that says where."""

from typing import Any

import pyarrow as pa
import pytest
from kit.identifiers import raises

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
    for wrong, fact in (
        ({"kind": "icberg"}, "iceberg"),
        ({"kind": "iceberg", "snapshots": "10m"}, "1h"),
        ({"kind": "iceberg", "snapshots": "soon"}, "soon"),
    ):
        with raises(Refused, "landing-declaration-invalid") as refused:
            parsed(**wrong)
        assert fact in str(refused.value)


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
    ("changes", "facts"),
    [
        ({"table": "departures"}, "lake.yml: departures.table: database.table"),
        ({"table": "Flights.x"}, ".table: Flights.x"),
        ({"topics": []}, "topics"),
        ({"topics": ["a["]}, ".topics: a["),
        ({"format": "jsn"}, ".format: jsn json avro"),
        ({"colums": []}, "colums columns"),
        ({"columns": [{"name": "c", "type": "text"}]}, ".columns[0].type: text bigint"),
        ({"columns": [{"name": "c", "type": "decimal(39,1)"}]}, ".columns[0].type: decimal(39,1) 38"),
        ({"columns": [{"name": "c", "type": "array<array<int>>"}]}, ".columns[0].type: array<array<int>>"),
        ({"columns": [{"name": "C", "type": "int"}]}, ".columns[0].name: C"),
        ({"columns": [{"name": "k_offset", "type": "int"}]}, ".columns[0].name: k_offset"),
        ({"columns": [COLUMN, COLUMN]}, ".columns: c"),
        ({"columns": [{**COLUMN, "from": "a..b"}]}, ".columns[0].from: a..b"),
        ({"columns": [{**COLUMN, "from": "$ofset"}]}, ".columns[0].from: $ofset $headers.NAME"),
        ({"columns": [{"name": "c", "type": "int", "from": "$key"}]}, ".columns[0].type: $key binary int"),
        ({"columns": [{**TIME, "zone": "Europe/Berln"}]}, ".columns[0].zone: Europe/Berln Europe/Berlin"),
        ({"columns": [{**TIME, "unit": "ps"}]}, ".columns[0].unit: ps ns"),
        ({"columns": [{**TIME, "nanoseconds": "round"}]}, ".columns[0].nanoseconds: round reject cut"),
        ({"columns": [{**COLUMN, "from": "a."}]}, ".columns[0].from: a."),
        ({"strip": ["bom", "null"]}, ".strip: null nul bom"),
        ({"columns": [COLUMN, {**COLUMN, "name": "d", "from": "c.x"}]}, ".columns: c.x"),
        ({"partition_by": [day("day", "x")]}, ".partition_by.of: x"),
        ({"partition_by": [day("day", "c")]}, ".partition_by.of: c string timestamp"),
        ({"columns": [TIME], "partition_by": [day("t", "t")]}, ".partition_by.name: t"),
        ({"columns": [TIME], "partition_by": [day("d", "t") | {"every": "hour"}]}, "_by.every: hour"),
        ({"tombstones": "both"}, ".tombstones: both drop keep"),
        ({"columns": [{"name": "c", "type": "string", "from": None}]}, ".columns[0]: from"),
        ({"format": "avro_registry", "registry": "http://localhost", "registry_config": 5}, "config:"),
        ({"late": "drop"}, ".late: drop add table: after:"),
        ({"late": None}, ".late: None"),
        ({"late": LATE}, ".late: partition_by"),
        ({**DAYS, "late": LATE | {"after": "soon"}}, ".late.after: soon 10s"),
        ({**DAYS, "late": {"table": "a.b"}}, ".late.after: None"),
        ({**DAYS, "late": {"after": "7d"}}, ".late: table"),
        ({**DAYS, "late": LATE | {"table": "b"}}, ".late.table: b database.table"),
        ({**DAYS, "late": LATE | {"befor": 1}}, ".late: befor after"),
        ({**DAYS, "late": LATE | {"table": "flights.departures"}}, "flights.departures"),
        ({**DAYS, "late": LATE | {"table": "flights.departures_bad"}}, "flights.departures_bad"),
        ({**DAYS, "columns": [{**TIME, "from": "$timestamp"}], "late": LATE}, ".late: Kafka's"),
        ({"sql": "a > 1"}, ".sql: columns where"),
        ({"sql": {}}, ".sql: columns where"),
        ({"sql": {"when": "true"}}, ".sql: when where"),
        ({"sql": {"where": True}}, ".sql: where"),
        ({"sql": {"columns": [{**COLUMN, "expression": "1"}]}}, ".columns: c"),
        ({"sql": {"columns": [{"name": "d", "type": "int"}]}}, ".sql.columns[0]: expression"),
        ({"sql": {"columns": [{**COMPUTED, "from": "a"}]}}, ".sql.columns[0]: from"),
        ({"sql": {"where": "true"}, "poison": "flights.departures_filtered"}, "flights.departures_filtered"),
        ({"every": "60"}, ".every: 60 10s 5m 1h 7d"),
        ({"every": "0s"}, ".every: 1s"),
        ({"poison": "x"}, ".poison: x database.table"),
        ({"poison": "flights.departures"}, "flights.departures"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, Any], facts: str) -> None:
    with raises(Refused, "landing-declaration-invalid") as refused:
        parsed(**changes)
    assert [fact for fact in facts.split() if fact not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"columns": [{**COLUMN, "zone": "UTC"}]}, "columns[0].zone"),
        ({"columns": [{**COLUMN, "nanoseconds": "cut"}]}, "columns[0].nanoseconds"),
        ({"strip": ["bom"], "format": "raw", "columns": [{**COLUMN, "from": "$value"}]}, "strip"),
        ({"sql": {"columns": [{**COMPUTED, "zone": "UTC"}]}}, "sql.columns[0].zone"),
        ({"sql": {"where": "true"}, "kind": "iceberg"}, "sql"),
        ({"snapshots": "7d"}, "snapshots"),
        ({"schema": "{}"}, "schema"),
    ],
)
def test_misplaced_options(changes: dict[str, Any], option: str) -> None:
    with raises(Refused, "landing-option-misplaced") as refused:
        parsed(**changes)
    assert str(refused.value).startswith(f"lake.yml: flights.departures.{option}: ")


@pytest.mark.parametrize(
    ("changes", "id_"),
    [
        ({"format": "avro", "schema": "a\0b"}, "landing-schema-unreadable"),
        (
            {"format": "avro_registry", "registry": "http://localhost", "registry_config": "a\0b"},
            "client-config-unreadable",
        ),
    ],
)
def test_unreadable_files(changes: dict[str, Any], id_: str) -> None:
    with raises(Refused, id_) as refused:
        parsed(**changes)
    assert "a\0b" in str(refused.value)


@pytest.mark.parametrize("content", [None, {}, [], "x", [1]])
def test_a_file_without_tables(content: Any) -> None:
    with raises(Refused, "landing-declaration-invalid") as refused:
        declaration.parse(content, "lake.yml")
    assert str(refused.value).startswith("lake.yml: ")


def test_every_wrong_table_is_named() -> None:
    with raises(Refused, "landing-declaration-invalid") as refused:
        declaration.parse([{"table": "a.b"}, {"table": "c.d"}], "lake.yml")
    assert all(name in str(refused.value) for name in ("a.b", "c.d"))


def test_faults_of_one_kind_keep_its_identifier() -> None:
    content = [
        {"table": f"a.{name}", "topics": ["t"], "columns": [{**COLUMN, **more}]}
        for name, more in (("b", {"zone": "UTC"}), ("c", {"unit": "s"}), ("d", {"type": "text"}))
    ]
    with raises(Refused, "landing-option-misplaced"):
        declaration.parse(content[:2], "lake.yml")
    with raises(Refused, "landing-declaration-invalid") as refused:
        declaration.parse(content, "lake.yml")
    assert len(str(refused.value).splitlines()) == 3


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
