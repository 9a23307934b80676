"""Tables in whose rows Spark's SQL has a part, judged by Python alone."""

import random
import re
from datetime import timedelta
from typing import Any

import pytest
from kit import clients, landings
from kit.identifiers import printed, raises
from kit.landings import COLUMNS, LandingFolder, Row, fill, in_order, messages, should_be

from aqueduct.cli import main
from aqueduct.errors import Refused
from aqueduct.land import declaration
from aqueduct.land.declaration import LandTable
from aqueduct.land.sql import check as check_sql
from aqueduct.work.options import SparkOptions
from aqueduct.work.spark import application
from aqueduct.work.spark_usage import SparkFigures

SPARK = ("--master", "local[2]")
DEGREES = "100 div cast(delay + 3 as int)"  # not for -3
SQL = {
    "columns": [
        {"name": "letter", "type": "string", "expression": "lower(left(carrier, 1))"},
        {"name": "per_degree", "type": "bigint", "expression": DEGREES},
        {"name": "twice", "type": "bigint", "expression": f"2 * ({DEGREES})"},  # has the other one in it
        {"name": "back", "type": "timestamp", "expression": "departed + interval 36 hours"},
    ],
    "where": "carrier <> '\n'",
}


lake = landings.lake  # a fixture


@pytest.fixture
def topic(lake: LandingFolder) -> str:
    name = clients.create(lake.broker, clients.unique("sql"), 3)
    lake.declare(name, sql=SQL)
    return name


def expected(
    lake: LandingFolder, topic: str
) -> tuple[list[Row], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the rows, where rejected records are, and where rows are left out, by Python alone."""
    whole, bad = should_be(lake, topic)
    rows: list[Row] = []
    out = []
    for row in whole:
        at = row["k_partition"], row["k_offset"]
        if row["carrier"] in (None, "\n"):
            out.append(at)
        elif row["delay"] == -3:
            bad.append(at)
        else:
            departed, delay = row["departed"], row["delay"]
            degrees = None if delay is None else 100 // int(delay + 3)
            computed = {
                "letter": row["carrier"][0].lower(),
                "per_degree": degrees,
                "twice": None if degrees is None else 2 * degrees,
                "back": departed + timedelta(hours=36) if departed else None,
            }
            rows.append(row | computed)
    return rows, sorted(bad), sorted(out)


def check(lake: LandingFolder, topic: str) -> None:
    rows, bad, out = expected(lake, topic)
    assert rows
    assert bad
    assert out
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad
    assert lake.placed("flights_filtered") == out


def test_each_offset_is_row_bad_record_or_filtered(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)  # noqa: S311
    # One landing writes several files to join, because each one starts Spark.
    monkeypatch.setattr("aqueduct.land.run.TASK_OFFSETS", (400, 400))
    fill(lake, topic, chance, 800, poison=0.05)
    assert lake.land(*SPARK) == 0
    check(lake, topic)
    said = capsys.readouterr()
    told = map(int, re.findall(r"(\d+) rows excluded by `where`", said.out))
    assert sum(told) == len(lake.placed("flights_filtered"))
    assert {row["error"] for row in lake.rows("flights_bad")} >= {f"per_degree cannot be computed: {DEGREES}"}
    values = {message.offset(): message for message in messages(lake, topic) if message.partition() == 0}
    for row in lake.rows("flights_bad"):
        if row["k_partition"] == 0:
            message = values[row["k_offset"]]
            assert (row["value"], row["key"]) == (message.value(), message.key())
    # Each offset is verified; small files are joined; what a reset takes lands again, beside new records.
    assert run(lake, "verify") == 0
    files = len([*lake.table.parent.rglob("flights_filtered/*.orc")])
    assert run(lake, "compact") == 0
    assert len([*lake.table.parent.rglob("flights_filtered/*.orc")]) < files
    check(lake, topic)
    go = sum(partition == 1 and offset >= 100 for partition, offset in lake.placed("flights_filtered"))
    capsys.readouterr()
    assert run(lake, "reset", "--to-offsets", f"{topic}:1:100", "--execute") == 0
    assert f", and {go} rows excluded by `where` were removed from " in capsys.readouterr().out
    assert max(offset for partition, offset in lake.placed("flights_filtered") if partition == 1) < 100
    fill(lake, topic, chance, 100, poison=0.05)
    assert lake.land(*SPARK) == 0
    check(lake, topic)
    capsys.readouterr()
    assert run(lake, "status") == 0
    assert f"{len(lake.placed('flights_filtered')):,} rows excluded by `where`" in capsys.readouterr().out
    next((lake.table.parent / "flights_filtered").glob("*.orc")).unlink()
    assert run(lake, "verify") == 3


def run(lake: LandingFolder, verb: str, *arguments: str) -> int:
    return main([*lake.command(verb), *arguments])


def test_always_true_where_condition_yields_same_table(lake: LandingFolder, topic: str) -> None:
    fill(lake, topic, random.Random(2), 300, poison=0.05)  # noqa: S311
    lake.declare(topic)
    assert lake.land() == 0
    plain = lake.rows(), lake.rows("flights_bad")
    other = LandingFolder(lake.broker, lake.folder / "other")
    (other.folder / "lake").mkdir(parents=True)
    other.declare(topic, sql={"where": "true"})
    assert other.land(*SPARK) == 0
    for mine, its in zip(plain, (other.rows(), other.rows("flights_bad")), strict=True):
        assert in_order(mine) == in_order(its)
    assert not other.rows("flights_filtered")


WRONG = [
    ({"where": "carier = 'AA'"}, r"sql.where: \[UNRESOLVED_COLUMN.WITH_SUGGESTION\] .*`carier`"),
    ({"where": "carrier = "}, r"sql.where: \[PARSE_SYNTAX_ERROR\] "),
    (
        {"where": "carrier"},
        r"sql.where: the expression has the type string, not boolean; write cast\(carrier as boolean\)",
    ),
    ({"where": "count(*) > 1"}, "MISSING_GROUP_BY"),
    ({"where": "row_number() over (order by id) > 1"}, "needs more than one row"),
    ({"where": "id in (select 1)"}, "sql.*: "),
    (
        {"columns": [{"name": "n", "type": "int", "expression": "id"}]},
        "columns: n: the expression has the type bigint, not int",
    ),
    ({"columns": [{"name": "n", "type": "int", "expression": "explode(array(1))"}]}, "sql.columns: n: "),
]


def test_sql_expressions_beyond_single_rows_are_refused() -> None:
    with application("test", SparkOptions("local[2]"), SparkFigures()) as spark:
        for declared, sentence in WRONG:
            with raises(Refused, "landing-sql-invalid") as refused:
                check_sql(spark, table_of(declared))
            assert re.search(sentence, str(refused.value)), refused.value
            assert "\n" not in str(refused.value)
        check_sql(spark, table_of(SQL))


def table_of(declared: dict[str, Any]) -> LandTable:
    content = {"table": "lake.flights", "topics": ["t"], "columns": COLUMNS, "sql": declared}
    [table] = declaration.parse([content], "declarations.yml")
    return table


def test_a_wrong_one_is_refused_before_anything_lands(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(topic, sql={"where": "carier = 'AA'"})
    assert lake.land(*SPARK) == 2
    assert "lake.flights.sql.where: " in capsys.readouterr().err
    assert not lake.commits()
    lake.declare(topic, sql=SQL)
    assert run(lake, "replay", "--bad") == 2
    assert "table-not-replayable" in printed(capsys.readouterr().err)
