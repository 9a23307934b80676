"""Readers of exports: Arrow, fastavro and Spark, which share no code with Aqueduct's writer of Avro."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.dataset
import pyarrow.parquet
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from kit import clients

from aqueduct.work import jvm
from servers.broker import Broker

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]
NOW = 1_700_000_000_000


ODD_RECORDS: list[dict[str, Any]] = [
    {"key": b"twice", "value": b"a", "headers": [("h", b"1"), ("h", b"2"), ("g", b""), ("n", None)]},
    {"key": None, "value": b"no key"},
    {"key": b"", "value": b"empty key"},
    {"key": b"gone", "value": None, "headers": [("ümlaut", bytes(range(256)))]},
    {"key": b"empty", "value": b""},
    {"key": None, "value": None},
    {"key": b"old", "value": b"1", "timestamp": 1_000},
    {"key": b"first", "value": b"2", "timestamp": 1, "headers": [(str(n), b"v" * n) for n in range(300)]},
    {"key": b"late", "value": b"3", "timestamp": NOW * 2},
    {"key": b"large", "value": bytes(range(256)) * 3000},
]


def expected(broker: Broker, topic: str, *partitions: int) -> list[Row]:
    """Return the records that an independent client reads from the topic."""
    clients.settle(broker, topic, *partitions)
    return [row(message) for message in clients.read(broker, topic, *partitions)]


def row(message: Message) -> Row:
    kind, time = message.timestamp()
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if time == -1 else time,
        "timestampType": int(kind == TIMESTAMP_LOG_APPEND_TIME),
        "headers": message.headers() or [],
    }


def files(folder: Path, *, bad: bool = False) -> list[Path]:
    """Return the exported files of a topic."""
    return [path for path in sorted(folder.iterdir()) if path.name.startswith("_bad-") == bad]


def rows(folder: Path) -> list[Row]:
    """Return the rows in a topic's folder, sorted by partition and offset, with an independent reader."""
    if {path.suffix for path in folder.iterdir()} == {".parquet"}:
        found = pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pylist()
    else:
        found = [each for path in files(folder) for each in _avro(path)]
    return _sorted(found)


def bad_rows(folder: Path) -> list[Row]:
    """Return the rows of the files of rejected records."""
    found: list[Row] = []
    for path in files(folder, bad=True):
        found += pyarrow.parquet.read_table(path).to_pylist() if path.suffix == ".parquet" else _avro(path)
    return _sorted(found)


def _avro(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        yield from fastavro.reader(file)


def _sorted(found: list[Row]) -> list[Row]:
    places = ("partition", "offset") if "offset" in (found or [{}])[0] else ("k_partition", "k_offset")
    return sorted(map(_plain, found), key=lambda each: tuple(each[place] for place in places))


def _plain(found: Row) -> Row:
    """Return a row with times in milliseconds, and headers as pairs."""
    plain = {
        name: (value - EPOCH) // timedelta(milliseconds=1) if isinstance(value, datetime) else value
        for name, value in found.items()
    }
    if "headers" in plain:
        plain["headers"] = [(each["key"], each["value"]) for each in plain["headers"]]
    return plain


# What Spark's source of Kafka has with includeHeaders (KafkaRecordToRowConverter).
SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
SPARK = """
import base64, json, sys
from pyspark.sql import SparkSession
kind, folder, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
table = spark.read.format(kind).load(folder)
types = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in table.schema)
plain = table.selectExpr(
    "base64(key) key", "base64(value) value", "topic", "partition", "offset",
    "unix_millis(timestamp) timestamp", "timestampType",
    "transform(headers, each -> struct(each.key key, base64(each.value) value)) headers",
)
print(json.dumps({"types": types, "rows": [each.asDict(True) for each in plain.collect()]}))
"""


def spark_rows(folder: Path, format_: str, python: str = sys.executable, *jars: str) -> tuple[str, list[Row]]:
    """Return the column types and the rows of a topic, read by Spark."""
    settings = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    settings |= {"spark.driver.memory": "700m", "spark.driver.extraJavaOptions": jvm.LIGHT}
    settings |= {"spark.jars": ",".join(jars)} if jars else {}
    said = subprocess.run(
        [python, "-c", SPARK, format_, str(folder), json.dumps(settings)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python},
    ).stdout
    told = json.loads(said.splitlines()[-1])
    rows = [
        {
            **each,
            "key": _bytes(each["key"]),
            "value": _bytes(each["value"]),
            "headers": [(header["key"], _bytes(header["value"])) for header in each["headers"]],
        }
        for each in told["rows"]
    ]
    return told["types"], sorted(rows, key=lambda each: (each["partition"], each["offset"]))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
