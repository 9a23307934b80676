"""Spark with a Hive metastore: an independent reader with its own metastore client and Java's ORC reader."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct.work import jvm, options
from aqueduct.work.options import SparkOptions

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
settings = {
    **json.loads(sys.argv[1]),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "700m",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).enableHiveSupport().getOrCreate()
print("ready", flush=True)
for line in sys.stdin:
    sql = json.loads(line)
    try:
        # Of others the files may be gone.
        for each in spark.sql("show tables in lake").collect():
            if each.tableName in sql:
                spark.catalog.refreshTable(f"lake.{each.tableName}")
        found = spark.sql(sql).toJSON().collect()
    except Exception as error:
        found = [json.dumps({"error": str(error)})]
    print(json.dumps([json.loads(each) for each in found]), flush=True)
"""


class HiveReader:
    """A Spark session."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query, without columns whose value is NULL."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(sql), file=self._process.stdin, flush=True)
        found: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def running(
    directory: Path, metastore: str, settings: Mapping[str, str] | None = None, python: str = sys.executable
) -> Iterator[HiveReader]:
    """Yield a session that accepts queries. `python`: the Python of another Spark."""
    light = {"spark.driver.extraJavaOptions": jvm.LIGHT}
    if python == sys.executable:  # of this Spark the classes are archived
        light = options.launch(SparkOptions(master="local[1]"))
    every = {"spark.hadoop.hive.metastore.uris": metastore, **light, **(settings or {})}
    with (directory / "spark.log").open("w") as log:
        process = subprocess.Popen(
            [python, "-c", PROGRAM, json.dumps(every)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=directory,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python},
        )
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", (directory / "spark.log").read_text()[-3000:]
            yield HiveReader(process)
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(180)
