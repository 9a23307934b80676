"""Compressed data of several parts: a broker and its clients read them, and so do all verbs."""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard
from kit import clients
from kit.clients import create, unique
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka.batches import codecs
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer
from servers.broker import Broker
from servers.process import binary

TIME = 1_700_000_000_000
RECORDS = 40
PRODUCE = Path(__file__).resolve().parents[1] / "java/Produce.java"


def _unsized(data: bytes) -> bytes:
    """Compress as a stream does: the frame does not tell the size of its content."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("zstd", lambda data: _unsized(data[:9]) + _unsized(data[9:])),
    ("zstd", lambda data: _unsized(data[:9]) + zstandard.compress(data[9:])),
]


def _value(number: int) -> bytes:
    """Return what hardly compresses: a few KB of packed data are decompressed in another way."""
    pad = random.Random(number).randbytes(300).hex()  # noqa: S311
    return json.dumps({"n": number, "pad": pad}).encode()


def _batch(codec: str, first: int) -> Ready:
    rows = [
        Record(TIME + number, number - first, body(b"k", _value(number)))
        for number in range(first, first + RECORDS)
    ]
    return Ready(build(Records.listed(rows), codec=codec), RECORDS, RECORDS)


def write_parts(source: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Write batches whose compressed data have several parts; return the number of records."""
    with raw.connect(End("source", source.plaintext), "test") as client:
        producer = TransactionalProducer(client, unique("odd"))
        producer.begin()
        producer.enlist([TopicPartition(topic, 0)])
        for number, (codec, pack) in enumerate(PACKED):
            with monkeypatch.context() as patched:
                patched.setitem(codecs._COMPRESS, codec, pack)
                producer.send(topic, 0, _batch(codec, number * RECORDS))
        producer.commit()
    return len(PACKED) * RECORDS


def write_by_java(source: Broker, topic: str, _: pytest.MonkeyPatch) -> int:
    """Write batches by Java's producer, one of each codec; return the number of records."""
    number = len(codecs.CODECS) * RECORDS
    command = ["java", "-cp", f"{binary('AQUEDUCT_KAFKA_JARS')}/*", str(PRODUCE)]
    subprocess.run(
        [*command, source.plaintext, topic, str(RECORDS)],
        input=b"\n".join(map(_value, range(number))),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return number


@pytest.mark.parametrize("write", [write_parts, write_by_java])
def test_odd_batches_are_read_by_every_verb(
    source: Broker,
    target: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Broker, str, pytest.MonkeyPatch], int],
) -> None:
    topic = create(source, unique("odd"))
    number = write(source, topic, monkeypatch)
    values = [_value(each) for each in range(number)]
    read = clients.read(source, topic)
    assert [each.value() for each in read] == values
    store = ["--store", f"file://{tmp_path}/store"]
    assert main(["backup", "--bootstrap-server", source.plaintext, *store, "--topics", topic]) == 0
    assert main(["verify", *store]) == 0
    asked = ["--bootstrap-server", target.plaintext, *store, "--topics", topic]
    since = read[3].timestamp()[1]
    late = [each.value() for each in read if each.timestamp()[1] >= since]
    assert main(["restore", *asked, "--from-time", str(since)]) == 0  # which opens each batch
    assert [each.value() for each in clients.read(target, topic)] == late
    at_both = ["--store", store[1], "--target-bootstrap-server", source.plaintext, "--topics", topic]
    assert main(["reconcile", *at_both]) == 0
    to = ["--to", f"file://{tmp_path}/out"]
    assert main(["export", *store, "--topics", topic, "--format", "parquet", *to]) == 0
    exported = pq.read_table(tmp_path / "out", columns=["value"])
    assert sorted(exported.column("value").to_pylist()) == sorted(values)
    tables = tmp_path / "tables.yml"
    tables.write_text(f"- {{table: lake.odd, topics: [{topic}], columns: [{{name: n, type: int}}]}}\n")
    lake = ["--bootstrap-server", source.plaintext, "--declarations", str(tables)]
    lake += ["--location", f"file://{tmp_path}/lake"]
    assert main(["land", *lake, "--until-caught-up"]) == 0
    landed = [
        row["n"]
        for file in (tmp_path / "lake").rglob("*.orc")
        if not file.name.startswith("_")
        for row in orc.read_table(file).to_pylist()
    ]
    assert sorted(landed) == list(range(number))
    assert main(["land", "verify", *lake]) == 0
