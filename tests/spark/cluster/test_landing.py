"""A landing on a real cluster of Spark, read by Spark's own reader of ORC, which is Java's, not Arrow's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from drivers import RECORDS, ROOT, aqueduct, done, start
from kit import clients

from servers.broker import Broker
from servers.spark import Cluster

PARTITIONS = 3
DECLARED = {
    "table": "lake.numbers",
    "columns": [
        {"name": "n", "type": "int"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "names", "type": "array<string>"},
        {"name": "at", "type": "timestamp", "unit": "s"},
    ],
    "partition_by": [{"name": "day", "of": "at", "every": "day"}],
}
READ = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = spark.read.orc(sys.argv[1]).selectExpr(
    "k_partition", "k_offset", "n", "half", "cast(price as string) price", "names", "unix_timestamp(at) at",
    "cast(day as string) day",
)
for line in rows.toJSON().collect():
    print(line)
"""


def value(partition: int, number: int) -> dict[str, object]:
    at = 1_700_000_000 + number * 7
    return {"n": number, "price": f"{number}.{partition}5", "names": ["ä", str(number)], "at": at}


def row(partition: int, number: int) -> dict[str, object]:
    of_value = value(partition, number)
    days = int(str(of_value["at"])) // 86_400
    day = f"2023-11-{14 + days - 19_675:02d}"
    return {"k_partition": partition, "k_offset": number, **of_value, "day": day}


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    name = clients.create(brokers[0], clients.unique("landed"), PARTITIONS)
    for partition in range(PARTITIONS):
        values = (json.dumps(value(partition, number)).encode() for number in range(RECORDS))
        clients.produce(brokers[0], name, values, partition, **{"compression.type": "zstd"})
    return name


def test_tasks_on_a_cluster_make_what_spark_reads(
    cluster: Cluster, brokers: list[Broker], topic: str, tmp_path: Path
) -> None:
    """Each row is as declared, with what SQL computes, and rows are left out."""
    half = {"name": "half", "type": "int", "expression": "cast(n div if(n = 7, 0, 2) as int)"}
    sql = {"columns": [half], "where": "k_partition < 2"}
    declarations, report = tmp_path / "tables.yml", tmp_path / "report.json"
    declarations.write_text(yaml.safe_dump([{**DECLARED, "topics": [topic], "sql": sql}]))
    reached = ("--bootstrap-server", brokers[0].plaintext, "--declarations", str(declarations))
    where = ("--location", f"file://{tmp_path}/lake", "--report", str(report))
    command = aqueduct("land", *reached, *where, "--until-caught-up", "--master", cluster.url)
    # In place of pandas, which workers of an estate have not, is what can't be imported.
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command += ["--conf", f"spark.executorEnv.PYTHONPATH={path}"]
    said = done(start(cluster, command, PYTHONPATH=path))
    assert "39,998 rows" in said
    assert "2 rejected records; 20,000 rows excluded by `where`" in said
    assert sum(json.loads(report.read_text())["tasks"].values()) >= 3
    read = subprocess.run(
        [sys.executable, "-c", READ, f"{tmp_path}/lake/lake/numbers"],
        env={**os.environ, **cluster.environment},
        capture_output=True,
        text=True,
    )
    assert read.returncode == 0, read.stderr
    found = sorted(
        map(json.loads, read.stdout.splitlines()), key=lambda each: (each["k_partition"], each["k_offset"])
    )
    assert found == [
        {**row(partition, number), "half": number // 2}
        for partition in range(2)
        for number in range(RECORDS)
        if number != 7
    ]
    assert "every landed offset exists there exactly once" in done(
        start(cluster, aqueduct("land", "verify", *reached, *where[:2], "--master", cluster.url))
    )
