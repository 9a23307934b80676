"""Exported from a real backup, and read by Arrow, fastavro and Spark; an independent client tells the truth."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import clients
import fastavro
import pyarrow.dataset
import pytest
from clients import create
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker

NOW = 1_700_000_000_000
FORMATS = ["parquet", "avro"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Row = dict[str, Any]
Said = pytest.CaptureFixture[str]


@pytest.fixture
def name() -> str:
    return clients.unique("export")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def backup(source: Broker, store: str) -> Callable[..., None]:
    def run(*topics: str, code: ExitCode = ExitCode.DONE, options: Iterable[str] = ()) -> None:
        argv = ["backup", "--bootstrap-servers", source.plaintext, "--store", store]
        argv += ["--topics", ",".join(topics), "--segment-bytes", "3000", *options]
        assert main(argv) == code

    return run


@pytest.fixture
def export(store: str, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(*argv: str, to: str = "exported", code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ["export", "--store", store, "--to", f"file://{tmp_path}/{to}", "--report", str(report)]
        if "--format" not in argv:
            common += ["--format", "parquet"]
        assert main([*common, *argv]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run


Backup = Callable[..., None]
Export = Callable[..., dict[str, Any]]


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **config: Any) -> None:
    """Write values, or arguments of produce; five records in a batch."""
    batches = {"linger.ms": 100, "batch.num.messages": 5}
    stamped = (
        {"timestamp": NOW, **(each if isinstance(each, dict) else {"value": str(each)})} for each in values
    )
    clients.produce(broker, topic, stamped, partition, **batches | config)


def expected(broker: Broker, topic: str, *partitions: int) -> list[Row]:
    """Return what an independent client reads there."""
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


def rows_of(folder: Path) -> list[Row]:
    """Read a topic's folder, by whatever its files are; in the order of partitions and offsets."""
    files = [path for path in sorted(folder.iterdir()) if not path.name.startswith("_")]
    if {path.suffix for path in files} == {".parquet"}:
        table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
        found = table.to_pylist()
    else:
        found = [each for path in files for each in avro_rows(path)]
    return sorted(map(plain, found), key=lambda each: (each["partition"], each["offset"]))


def avro_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        yield from fastavro.reader(file)


def plain(found: Row) -> Row:
    """Return a row with times in milliseconds, and headers as pairs."""
    time = found["timestamp"]
    if isinstance(time, datetime):
        time = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    headers = [(each["key"], each["value"]) for each in found["headers"]]
    return {**found, "timestamp": time, "headers": headers}


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


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_record_is_there_as_it_was(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, codec: str, format_: str
) -> None:
    create(source, name, 3, **{"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(ODD_RECORDS)]
    produce(source, name, odd * 3, **{"compression.type": codec})
    produce(source, name, range(20), 2)
    backup(name)
    report = export("--format", format_)
    there = expected(source, name, 0, 1, 2)
    assert rows_of(tmp_path / "exported" / name) == there
    assert len(there) == 3 * len(ODD_RECORDS) + 20
    assert [each["rows"] for each in report["partitions"]] == [30, 0, 20]
