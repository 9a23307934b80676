"""ORC readers in Java: two of Spark, Hive's in Spark, and the ORC library itself, as Iceberg uses it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aqueduct.work import options
from aqueduct.work.options import SparkOptions

SPARK = {
    "vectorized": {"spark.sql.orc.impl": "native", "spark.sql.orc.enableVectorizedReader": "true"},
    "by row": {"spark.sql.orc.impl": "native", "spark.sql.orc.enableVectorizedReader": "false"},
    "of Hive": {"spark.sql.orc.impl": "hive", "spark.sql.orc.enableVectorizedReader": "false"},
}
PROGRAM = """
import json, sys
from py4j.java_gateway import get_field
from pyspark.sql import SparkSession
order = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config(map=order["settings"]).getOrCreate()
found = {}
for name, settings in order["readers"].items():
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        table = spark.read.orc(order["folder"])
        plain = table.selectExpr(*order["columns"]).orderBy("k_offset")
        found[name] = [json.loads(each) for each in plain.toJSON().collect()]
    except Exception as error:
        found[name] = str(error)[:2000]
jvm = spark._jvm
conf = spark._jsc.hadoopConfiguration()
raw = []
for file in order["files"]:
    options = jvm.org.apache.orc.OrcFile.readerOptions(conf).useUTCTimestamp(True)
    reader = jvm.org.apache.orc.OrcFile.createReader(jvm.org.apache.hadoop.fs.Path(file), options)
    names = list(reader.getSchema().getFieldNames())
    batch = reader.getSchema().createRowBatch()
    rows = reader.rows()
    while rows.nextBatch(batch):
        vectors = dict(zip(names, get_field(batch, "cols")))
        for row in range(get_field(batch, "size")):
            values = {}
            for name in order["raw"]:
                vector = vectors[name]
                if vector.getClass().getSimpleName() == "TimestampColumnVector":
                    seconds, nanos = get_field(vector, "time")[row] // 1000, get_field(vector, "nanos")[row]
                    values[name] = seconds * 1_000_000_000 + nanos
                else:
                    values[name] = get_field(vector, "vector")[row]
            raw.append(values)
print(json.dumps([found, raw]))
"""


def read(
    folder: Path, columns: Mapping[str, str], *, files: list[Path], raw: list[str]
) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """Return the rows of a folder or the error, by reader of SPARK, and the raw numbers in the files.

    Columns are SQL expressions by name. Rows do not contain columns whose value is NULL. Raw times are in
    nanoseconds and raw dates in days, and none of them is NULL.
    """
    order = {
        "settings": {
            **options.launch(SparkOptions(master="local[1]")),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "700m",
        },
        "readers": SPARK,
        "folder": str(folder),
        "columns": [f"{expression} as {name}" for name, expression in columns.items()],
        "files": [str(file) for file in files],
        "raw": raw,
    }
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(order)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        # Hive's reader takes times for those of the machine's zone.
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
    ).stdout
    found, numbers = json.loads(said.splitlines()[-1])
    return found, numbers
