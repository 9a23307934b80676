"""Java's readers find the days and times of an export with declarations as the records had them."""

import json
import os
import subprocess
import sys
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from kit import clients, exports

from aqueduct.cli import main
from aqueduct.work import options
from aqueduct.work.options import SparkOptions
from servers.broker import Broker

EPOCH = datetime(1970, 1, 1)
TABLES = """
- table: lake.corners
  topics: [{topic}]
  columns:
    - {{name: at, type: timestamp}}
    - {{name: milli, type: timestamp, unit: ms}}
    - {{name: day, type: date}}
    - {{name: days, type: array<date>}}
"""
TIMES = (
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00.000001",
    "1500-03-01T12:00:00.5",
    "1582-10-04T23:59:59.999",
    "1582-10-10T00:00:00",
    "1582-10-14T23:59:59.999999",
    "1582-10-15T00:00:00.000001",
    "1899-12-31T23:59:59.123456",
    "1969-12-31T23:59:58.000001",
    "1969-12-31T23:59:59.001",
    "1969-12-31T23:59:59.999999",
    "1970-01-01T00:00:00",
    "9999-12-31T23:59:59.999999",
)
MILLIS = (-62_135_596_800_000, -1, -999, -1001, 0, 1)
DAYS = ("0001-01-01", "1500-02-28", "1500-03-01", "1582-10-04", "1582-10-05", "1582-10-14", "1582-10-15")
RECORDS: list[dict[str, Any]] = [
    *({"at": each} for each in TIMES),
    *({"milli": each} for each in MILLIS),
    *({"day": each} for each in DAYS),
    {"days": list(DAYS)},
]
# Spark's two readers of Parquet, and Avro's own library for Java.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
order = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config(map=order["settings"]).getOrCreate()
found = {}
for vectorized in ("true", "false"):
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    plain = spark.read.parquet(order["parquet"]).selectExpr(
        "k_offset", "unix_micros(cast(at as timestamp)) at", "unix_micros(cast(milli as timestamp)) milli",
        "unix_date(day) day", "transform(days, x -> unix_date(x)) days",
    )
    found["parquet, vectorized " + vectorized] = [
        {name: value for name, value in each.asDict().items() if value is not None}
        for each in plain.collect()
    ]
jvm = spark._jvm
data = jvm.org.apache.avro.generic.GenericData()
times = jvm.org.apache.avro.data.TimeConversions
for conversion in (
    times.DateConversion(), times.TimestampMicrosConversion(), times.TimestampMillisConversion(),
    times.LocalTimestampMicrosConversion(), times.LocalTimestampMillisConversion(),
):
    data.addLogicalTypeConversion(conversion)
rows = []
for path in order["avro"]:
    datum = jvm.org.apache.avro.generic.GenericDatumReader(None, None, data)
    reader = jvm.org.apache.avro.file.DataFileReader(jvm.java.io.File(path), datum)
    while reader.hasNext():
        record = reader.next()
        row = {"k_offset": record.get("k_offset")}
        for name in ("at", "milli", "day"):
            if record.get(name) is not None:
                row[name] = record.get(name).toString()
        if record.get("days") is not None:
            row["days"] = [each.toString() for each in record.get("days")]
        rows.append(row)
found["avro"] = rows
print(json.dumps(found))
"""


def micros(text: str) -> int:
    return (datetime.fromisoformat(text.removesuffix("Z")) - EPOCH) // timedelta(microseconds=1)


def days(text: str) -> int:
    return (date.fromisoformat(text) - EPOCH.date()).days


def numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with times and days as numbers, as Parquet's readers tell them."""
    found = {}
    for name, value in row.items():
        if isinstance(value, list):
            found[name] = [each if isinstance(each, int) else days(each) for each in value]
        elif isinstance(value, str):
            found[name] = days(value) if name == "day" else micros(value)
        elif name == "milli" and "k_offset" not in row:
            found[name] = value * 1000
        else:
            found[name] = value
    return found


@pytest.fixture(scope="module")
def found(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Export the records in both formats, and return what each reader finds, or its error."""
    folder, broker, topic = tmp_path_factory.mktemp("times"), brokers[0], clients.unique("times")
    clients.create(broker, topic, 1)
    clients.produce(broker, topic, [{"value": json.dumps(each)} for each in RECORDS])
    store = f"file://{folder}/store"
    at = ["--bootstrap-server", broker.plaintext, "--store", store, "--topics", topic]
    assert main(["backup", *at]) == 0
    (folder / "tables.yml").write_text(TABLES.format(topic=topic))
    for format_ in ("parquet", "avro"):
        declared = ["--declarations", str(folder / "tables.yml"), "--format", format_]
        assert main(["export", "--store", store, "--to", f"file://{folder}/{format_}", *declared]) == 0
        assert exports.bad_rows(folder / format_ / topic) == []
    order = {
        "settings": {
            **options.launch(SparkOptions(master="local[1]")),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "700m",
        },
        "parquet": str(folder / "parquet" / topic),
        "avro": [str(each) for each in exports.files(folder / "avro" / topic)],
    }
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(order)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "TZ": "Asia/Tokyo",
        },
    ).stdout
    read: dict[str, Any] = json.loads(said.splitlines()[-1])
    return read


@pytest.mark.parametrize("reader", ["parquet, vectorized true", "parquet, vectorized false", "avro"])
def test_java_reads_days_and_times_as_they_are(found: dict[str, Any], reader: str) -> None:
    expected = [{"k_offset": offset, **numbers(each)} for offset, each in enumerate(RECORDS)]
    assert [numbers(each) for each in found[reader]] == expected
