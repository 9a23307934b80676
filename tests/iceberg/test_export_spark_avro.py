"""Spark's own library for Avro reads an export: it shares no code with what wrote it."""

import os
from pathlib import Path

from kit import clients, exports

from aqueduct.cli import main
from servers.broker import Broker
from servers.process import binary


def test_spark_reads_avro_export_as_topic_records(brokers: list[Broker], tmp_path: Path) -> None:
    broker, topic = brokers[0], clients.unique("export")
    clients.create(broker, topic, 2, **{"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    for partition in range(2):
        odd = [{"timestamp": exports.NOW - number, **each} for number, each in enumerate(exports.ODD_RECORDS)]
        clients.produce(broker, topic, odd * 5, partition)
    store, to = f"file://{tmp_path}/store", tmp_path / "exported"
    argv = ["backup", "--bootstrap-server", broker.plaintext, "--store", store, "--topics", topic]
    assert main(argv) == 0
    assert main(["export", "--store", store, "--to", to.as_uri(), "--format", "avro"]) == 0
    python = os.environ["AQUEDUCT_ICEBERG_PYTHON"]
    types, rows = exports.spark_rows(to / topic, "avro", python, binary("AQUEDUCT_SPARK_AVRO_JAR"))
    assert types == exports.SPARK_SCHEMA
    assert rows == exports.expected(broker, topic, 0, 1)
    assert len(rows) == 100
