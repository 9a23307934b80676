"""Spark's tasks export what this process does, byte for byte; and Spark reads it as it reads a topic."""

from pathlib import Path

import pytest
from kit import clients, exports

from aqueduct.cli import main
from servers.broker import Broker


@pytest.fixture(scope="module")
def store(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a store's URL, and the topic in it."""
    broker, topic = brokers[0], clients.unique("export")
    clients.create(broker, topic, 3, **{"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    for partition in range(3):
        odd = [{"timestamp": exports.NOW - number, **each} for number, each in enumerate(exports.ODD_RECORDS)]
        clients.produce(broker, topic, odd * 5, partition, **{"batch.num.messages": 7, "linger.ms": 100})
    url = f"file://{tmp_path_factory.mktemp('export')}/store"
    argv = ["backup", "--bootstrap-server", broker.plaintext, "--store", url, "--topics", topic]
    assert main([*argv, "--segment-bytes", "3000"]) == 0
    return url, topic


@pytest.mark.long
def test_spark_exports_what_this_process_does(
    store: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, topic = store
    for format_ in ("parquet", "avro"):
        found = []
        for where, more in (("here", []), ("spark", ["--master", "local[2]"])):
            to = tmp_path / where / format_
            to.parent.mkdir(exist_ok=True)
            argv = ["export", "--store", url, "--to", to.as_uri(), "--format", format_]
            assert main([*argv, *more]) == 0
            found.append({path.name: path.read_bytes() for path in exports.files(to / topic)})
        assert found[0] == found[1]
        assert len(found[0]) == 3
    assert "Working on Spark" in capsys.readouterr().err


def test_spark_reads_parquet_export_as_topic_records(
    store: tuple[str, str], brokers: list[Broker], tmp_path: Path
) -> None:
    url, topic = store
    to = tmp_path / "exported"
    assert main(["export", "--store", url, "--to", to.as_uri(), "--format", "parquet"]) == 0
    types, rows = exports.spark_rows(to / topic, "parquet")
    assert types == exports.SPARK_SCHEMA
    assert rows == exports.expected(brokers[0], topic, 0, 1, 2)
    assert len(rows) == 150
