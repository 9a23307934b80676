"""Iceberg's own library, in Spark, reads what landed: it shares no code with what wrote it."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import clients, hive_reader, typed_values
from kit.hive_reader import HiveReader
from kit.lakes import HiveLake

from aqueduct.cli import main
from servers import hdfs
from servers.hive_metastore import HiveMetastore
from servers.process import binary


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, metastore: HiveMetastore) -> Iterator[HiveReader]:
    settings = {
        "spark.jars": binary("AQUEDUCT_ICEBERG_JAR"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.catalog.spark_catalog.type": "hive",
        "spark.sql.catalog.spark_catalog.uri": metastore.url,
    }
    python = os.environ["AQUEDUCT_ICEBERG_PYTHON"]
    folder = tmp_path_factory.mktemp("spark")
    with hive_reader.running(folder, metastore.url, settings, python) as started:
        yield started


@pytest.fixture(params=["file", "hdfs"])
def there(request: pytest.FixtureRequest, lake: HiveLake, tmp_path: Path) -> Iterator[HiveLake]:
    """Yield an Iceberg table, in a folder and in HDFS."""
    lake.more = {"kind": "iceberg"}
    if request.param == "file":
        yield lake
        return
    with hdfs.running(tmp_path / "hdfs") as files:
        lake.location = f"{files.url}/lake"
        yield lake


def test_spark_reads_table_after_landing_compaction_and_reset(there: HiveLake, spark: HiveReader) -> None:
    lake = there
    where = f"lake.{lake.table}"
    lake.produce(range(3), 30)
    clients.produce(lake.broker, lake.topic, [b"{"], 1)
    assert lake.land() == 0
    assert lake.read(spark) == lake.expected()
    [found] = spark.rows(f"select count(*) rows from {where} where day > date '2023-11-02'")  # noqa: S608
    assert found == {"rows": 20}
    assert spark.rows(f"select cast(value as string) value from {where}_bad") == [{"value": "{"}]  # noqa: S608
    clients.produce(lake.broker, lake.topic, [b'{"n": 7}'], 1)
    lake.columns.insert(1, {"name": "more", "type": "array<smallint>"})
    lake.produce(range(1, 4), 30, more=[1, -1])
    # What stands before them in the topic is a rejected record, and one without a day.
    for row in lake.produced[90:]:
        row["k_offset"] += 2
    assert lake.land() == 0
    without = {"k_partition": 1, "k_offset": 31, "n": 7}
    expected = sorted([*lake.produced, without], key=lambda row: (row["k_partition"], row["k_offset"]))
    assert lake.read(spark, "more") == expected
    assert main(lake.arguments("compact", "--metastore", lake.metastore.url)) == 0
    assert lake.read(spark, "more") == expected
    assert main(lake.arguments("reset", f"--to-offsets={lake.topic}:0:7", "--execute")) == 0
    # A clock that was set back makes no table that Java refuses.
    hour_ago = SimpleNamespace(time=lambda: time.time() - 3600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyiceberg.table.snapshots.time", hour_ago)
        assert lake.land() == 0
    assert lake.read(spark, "more") == expected
    snapshots = spark.rows(
        f"select snapshot_id, operation, summary['aqueduct.commit'] commit from {where}.snapshots"  # noqa: S608
    )
    assert [(each["operation"], each["commit"]) for each in snapshots] == [
        *(("append", "1"), ("append", "2"), ("replace", "3"), ("overwrite", "5"))
    ]
    # The table as it was is read from files that were replaced.
    [was] = spark.rows(
        f"select count(*) rows from {where} version as of {snapshots[1]['snapshot_id']}"  # noqa: S608
    )
    assert was == {"rows": 121}
    assert main(lake.arguments("verify")) == 0


@pytest.mark.parametrize(
    "exact",
    [
        *("0001-01-01T00:00:00.000001", "1500-02-28T23:59:59.999999", "1582-10-04T23:59:59.5"),
        *("1582-10-10T12:00:00.25", "1969-12-31T23:59:57.000999", "1969-12-31T23:59:58.999999"),
        "9999-12-31T23:59:59.999999",
    ],
)
def test_spark_finds_early_days_and_times_again(exact: str, lake: HiveLake, spark: HiveReader) -> None:
    lake.more = {"kind": "iceberg"}
    lake.columns += [{"name": "exact", "type": "timestamp"}, {"name": "date", "type": "date"}]
    lake.produce(range(1), 1, exact=exact, date=exact[:10])
    assert lake.land() == 0
    columns = "cast(exact as string) exact, cast(date as string) date"
    found = spark.rows(f"select {columns} from lake.{lake.table}")  # noqa: S608
    shown = exact.replace("T", " ")
    assert found == [{"exact": shown, "date": exact[:10]}] * 2
    assert main(lake.arguments("verify")) == 0


def test_spark_finds_each_value_of_each_type(lake: HiveLake, spark: HiveReader) -> None:
    lake.more = {"kind": "iceberg"}
    lake.columns += typed_values.COLUMNS
    # Days that no other table of ORC can have are right here.
    date = f"c{[*typed_values.VALUES].index('date')}"
    records = typed_values.rows(*({date: day} for day in typed_values.LOST))
    clients.produce(lake.broker, lake.topic, [json.dumps(record) for record in records])
    assert lake.land() == 0
    assert lake.report()["bad"] == 0
    columns = ", ".join(f"{expression} {name}" for name, expression in typed_values.EXPRESSIONS.items())
    found = spark.rows(f"select k_offset, {columns} from lake.{lake.table} order by k_offset")  # noqa: S608
    assert found == typed_values.plain_rows(records)
    assert main(lake.arguments("verify")) == 0
