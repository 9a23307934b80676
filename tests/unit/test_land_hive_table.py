"""How tables look in Hive's catalogue, and which of its tables are ours."""

import argparse
from dataclasses import replace
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.cli import land
from aqueduct.errors import Refused
from aqueduct.land import declaration, hive_table, log
from aqueduct.land.declaration import LandTable
from aqueduct.land.hive_table import FoundTable, HiveColumn
from aqueduct.land.log import AddedFile, State

DECLARED = {
    "table": "lake.flights",
    "topics": ["flights"],
    "columns": [
        {"name": "key", "type": "string", "from": "$key"},
        {"name": "delay", "type": "decimal(9,2)", "from": "a.b"},
        {"name": "at", "type": "timestamp"},
    ],
    "partition_by": [{"name": "day", "of": "at", "every": "day"}],
    "tombstones": "keep",
}


def table(**changes: Any) -> LandTable:
    [found] = declaration.parse([DECLARED | changes], "lake.yml")
    return found


def found(**changes: Any) -> FoundTable:
    """Return our table as a catalogue may have it."""
    wanted, _ = hive_table.tables("hdfs://names:8020/lake", table(), State())
    partition = wanted.partition
    assert partition
    as_it_is = FoundTable(
        kind=hive_table.EXTERNAL,
        location=wanted.location,
        input=hive_table.ORC.input,
        columns=wanted.columns,
        partitions=(partition,),
        properties=wanted.properties,
    )
    return replace(as_it_is, **changes)


def test_table_has_kafka_declared_and_day_columns() -> None:
    wanted, bad = hive_table.tables("file:///lake", table(), State())
    assert wanted.location == "file:///lake/lake/flights"
    assert wanted.properties["aqueduct.log"] == "file:///lake/lake/flights/_land"
    assert [(each.name, each.type) for each in wanted.columns] == [
        *(
            ("k_topic", "string"),
            ("k_partition", "int"),
            ("k_offset", "bigint"),
            ("k_timestamp", "timestamp"),
        ),
        *(("k_tombstone", "boolean"), ("key", "string"), ("delay", "decimal(9,2)"), ("at", "timestamp")),
    ]
    assert wanted.columns[6].comment == "from a.b"
    assert wanted.partition == HiveColumn("day", "string", "day of at")
    assert (bad.full_name, bad.location) == ("lake.flights_bad", "file:///lake/lake/flights_bad")
    assert [each.name for each in bad.columns][4:] == ["error", "value", "key"]
    assert bad.partition is None


def test_late_rows_have_a_table_as_theirs() -> None:
    late = table(late={"table": "cold.flights", "after": "7d"})
    wanted, _, beside = hive_table.tables("file:///lake", late, State())
    assert (beside.full_name, beside.location) == ("cold.flights", "file:///lake/cold/flights")
    assert (beside.columns, beside.partition) == (wanted.columns, wanted.partition)
    assert beside.properties["aqueduct.log"] == wanted.properties["aqueduct.log"]
    # Where it is declared no more, its rows stay to be read.
    landed = State(number=1, definition=log.definition(table(), log.definition(late)))
    assert len(hive_table.tables("file:///lake", table(), landed)) == 3


def test_columns_are_those_that_were_committed() -> None:
    before = log.definition(table())
    grown = table(columns=[{"name": "new", "type": "int"}, *DECLARED["columns"]])  # type: ignore[misc]
    wanted, _ = hive_table.tables("file:///lake", grown, State(number=1, definition=before))
    assert "new" not in [each.name for each in wanted.columns]


def test_new_columns_are_appended_and_foreign_ones_stay() -> None:
    wanted, _ = hive_table.tables("file:///lake", table(), State())
    theirs = HiveColumn("theirs", "int", "")
    had = found(columns=(theirs, *wanted.columns[3:]))
    assert hive_table.merged(wanted, had) == (theirs, *wanted.columns[3:], *wanted.columns[:3])
    assert hive_table.differs(wanted, had)
    assert not hive_table.differs(
        wanted, found(columns=(theirs, *wanted.columns), properties=wanted.properties)
    )


def test_a_column_with_another_comment_is_not_lacking() -> None:
    """It gets ours with the next change; readers miss nothing."""
    wanted, _ = hive_table.tables("file:///lake", table(), State())
    had = found(columns=tuple(replace(each, comment="") for each in wanted.columns))
    assert hive_table.differs(wanted, had)
    assert hive_table.lacking(wanted, had) == ""
    assert hive_table.lacking(wanted, found(columns=wanted.columns[2:])) == "k_topic, k_partition"


def test_partitions_are_the_folders_of_live_files() -> None:
    paths = ("day=2024-02-29/1.orc", "day=2024-02-29/2.orc", "day=__HIVE_DEFAULT_PARTITION__/3.orc", "4.orc")
    state = State(live={path: AddedFile(path=path, rows=1, bytes=1, sha256="") for path in paths})
    names, *beside = hive_table.partitions(
        replace(state, late={"day=2024-03-01/1-late.orc": state.live[paths[0]]})
    )
    assert beside == [set(), {"day=2024-03-01"}]
    assert names == {"day=2024-02-29", "day=__HIVE_DEFAULT_PARTITION__"}
    assert {hive_table.value(name) for name in names} == {"2024-02-29", "__HIVE_DEFAULT_PARTITION__"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"location": "hdfs://names:8020/lake/lake/flights/"}, None),
        ({"columns": ()}, None),
        ({"location": "hdfs://names:8020/lake/other"}, "its location is hdfs://names:8020/lake/other"),
        ({"kind": "VIRTUAL_VIEW"}, "it is a virtual view"),
        ({"kind": "MANAGED_TABLE"}, "it is a managed table"),
        ({"input": "org.apache.hadoop.mapred.TextInputFormat"}, "not ORC"),
        ({"partitions": ()}, "it is partitioned by nothing, not by day string"),
        (
            {"partitions": (HiveColumn("day", "date", ""),)},
            "it is partitioned by day date, not by day string",
        ),
        ({"columns": (HiveColumn("key", "binary", ""),)}, "its column key is of type binary, not string"),
    ],
)
def test_a_table_is_ours_or_another_one(changes: dict[str, Any], why: str | None) -> None:
    wanted, _ = hive_table.tables("hdfs://names:8020/lake", table(), State())
    said = hive_table.foreign(wanted, found(**changes))
    assert said is None if why is None else said and why in said


def test_location_is_equal_with_one_or_three_slashes() -> None:
    wanted, _ = hive_table.tables("file:///lake", table(), State())
    assert hive_table.foreign(wanted, found(location="file:/lake/lake/flights")) is None


@pytest.mark.parametrize(
    ("ours", "hadoop"),
    [
        ("s3://bucket/s3/lake/", "s3a://bucket/s3/lake"),
        ("gs://bucket", "gs://bucket"),
        ("hdfs://names:8020/lake", "hdfs://names:8020/lake"),
        ("file:///lake", "file:///lake"),
        ("file:///a%20b", "file:///a b"),
    ],
)
def test_a_location_has_the_name_that_hadoop_knows(ours: str, hadoop: str) -> None:
    assert hive_table.location(ours) == hadoop


def test_a_location_that_hadoop_calls_otherwise_is_refused() -> None:
    with raises(Refused, "landing-location-unsupported"):
        hive_table.location("az://container/lake")


def test_addresses_of_a_metastore() -> None:
    assert land.metastores("thrift://a:9083,thrift://[::1]:1") == (("a", 9083), ("::1", 1))
    for wrong in (
        "a:9083",
        "thrift://a",
        "thrift://:9083",
        "thrift://a:0",
        "thrift://a:1,",
        "http://localhost:1",
    ):
        with pytest.raises(argparse.ArgumentTypeError, match="thrift://host:9083"):
            land.metastores(wrong)
