"""Java's readers find in an export with declarations what records had: all types, the corners of each."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from kit import clients, exports, typed_values
from kit.typed_values import COLUMNS, EXPRESSIONS, LOST

from aqueduct.cli import main
from aqueduct.work import options
from aqueduct.work.options import SparkOptions
from servers.broker import Broker

# What no file of ORC can have is right here.
LAST_SECOND = ("1969-12-31T23:59:59.001", "1969-12-31T23:59:59.999999")
MILLIS = (-62_135_596_800_000, -1, -999, -1001, 0, 1)
MORE: list[dict[str, Any]] = [
    *({"at": time, "day": time[:10]} for time in (*LAST_SECOND, *(f"{day}T01:02:03.5" for day in LOST))),
    *({"milli": number} for number in MILLIS),
    {"days": [*LOST, None]},
]
EXTRA = [
    {"name": "at", "type": "timestamp"},
    {"name": "day", "type": "date"},
    {"name": "milli", "type": "timestamp", "unit": "ms"},
    {"name": "days", "type": "array<date>"},
]
TYPES = {str(each["name"]): str(each["type"]) for each in (*COLUMNS, *EXTRA)}
RECORDS = typed_values.rows(*MORE)
READERS = ("parquet, vectorized true", "parquet, vectorized false", "avro")
# Spark's two readers of Parquet, and Avro's own library for Java.
PROGRAM = """
import json, sys
from decimal import Decimal
from py4j.java_collections import JavaList
from pyspark.sql import SparkSession
order = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config(map=order["settings"]).getOrCreate()
found = {}
for vectorized in ("true", "false"):
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    table = spark.read.parquet(order["parquet"]).selectExpr(*order["columns"]).toJSON()
    found["parquet, vectorized " + vectorized] = [json.loads(each) for each in table.collect()]
jvm = spark._jvm
data = jvm.org.apache.avro.generic.GenericData()
times = jvm.org.apache.avro.data.TimeConversions
for conversion in (
    jvm.org.apache.avro.Conversions.DecimalConversion(), times.DateConversion(),
    times.TimestampMicrosConversion(), times.TimestampMillisConversion(),
    times.LocalTimestampMicrosConversion(), times.LocalTimestampMillisConversion(),
):
    data.addLogicalTypeConversion(conversion)
def plain(value):
    if isinstance(value, JavaList):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if value.getClass().getSimpleName() == "HeapByteBuffer":
        return bytes(value.array()).hex().upper()
    return value.toString()
rows = []
for path in order["avro"]:
    datum = jvm.org.apache.avro.generic.GenericDatumReader(None, None, data)
    reader = jvm.org.apache.avro.file.DataFileReader(jvm.java.io.File(path), datum)
    while reader.hasNext():
        record = reader.next()
        values = {name: plain(record.get(name)) for name in order["names"]}
        row = {name: value for name, value in values.items() if value is not None}
        rows.append(row)
found["avro"] = rows
print(json.dumps(found))
"""


def expected(name: str, value: Any) -> Any:
    """Return a record's value as Spark tells it."""
    if name == "milli":
        return value * 1000
    return typed_values.plain(TYPES[name], value)


def of_avro(type_: str, value: Any) -> Any:
    """Return a value of Avro's library, which tells times, days and floats as text, as Spark tells it."""
    if isinstance(value, list):
        item = type_.removeprefix("array<").removesuffix(">")
        return [None if each is None else of_avro(item, each) for each in value]
    convert: dict[str, Callable[[Any], Any]] = {
        "timestamp": lambda text: typed_values.micros(text.removesuffix("Z")),
        "date": typed_values.days,
        "float": lambda number: struct.unpack("f", struct.pack("f", number))[0],
    }
    return convert[type_](value) if type_ in convert else value


@pytest.fixture(scope="module")
def found(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Export the records in both formats, and return what each reader finds, or its error."""
    folder, broker, topic = tmp_path_factory.mktemp("types"), brokers[0], clients.unique("types")
    clients.create(broker, topic, 1)
    clients.produce(broker, topic, [{"value": json.dumps(each)} for each in RECORDS])
    store = f"file://{folder}/store"
    at = ["--bootstrap-server", broker.plaintext, "--store", store, "--topics", topic]
    assert main(["backup", *at]) == 0
    table = {"table": "lake.corners", "topics": [topic], "columns": [*COLUMNS, *EXTRA]}
    (folder / "tables.yml").write_text(yaml.safe_dump([table]))
    for format_ in ("parquet", "avro"):
        declared = ["--declarations", str(folder / "tables.yml"), "--format", format_]
        assert main(["export", "--store", store, "--to", f"file://{folder}/{format_}", *declared]) == 0
        assert exports.bad_rows(folder / format_ / topic) == []
    select = {"k_offset": "k_offset", **EXPRESSIONS}
    select |= {str(each["name"]): typed_values.expression(each["name"], each["type"]) for each in EXTRA}
    order = {
        "settings": {
            **options.launch(SparkOptions(master="local[1]")),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "700m",
        },
        "parquet": str(folder / "parquet" / topic),
        "columns": [f"{expression} as {name}" for name, expression in select.items()],
        "names": [*select],
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


@pytest.mark.parametrize("reader", READERS)
def test_java_reads_each_value_of_each_type(found: dict[str, Any], reader: str) -> None:
    rows = found[reader]
    if reader == "avro":
        rows = [{name: of_avro(TYPES.get(name, ""), value) for name, value in row.items()} for row in rows]
    assert rows == [
        {"k_offset": offset, **{name: expected(name, value) for name, value in record.items()}}
        for offset, record in enumerate(RECORDS)
    ]
