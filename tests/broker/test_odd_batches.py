"""Compressed data of several parts, and of other producers: a broker takes them, and all verbs read them."""

import gzip
import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lz4.frame
import pyarrow.parquet as pq
import pytest
import snappy
import zstandard
from kit import clients
from kit.clients import create, unique
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode, Failed
from aqueduct.kafka import client as raw
from aqueduct.kafka.batches import codecs
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.mirror.reconcile import reader
from servers.broker import Broker
from servers.process import binary, java

TIME = 1_700_000_000_000
RECORDS = 40
TESTS = Path(__file__).resolve().parents[1]
PRODUCE = TESTS / "java/Produce.java"
GO_BATCHES = sorted((TESTS / "batches/go_producers").glob("*.bin"))  # their values are JSON, null or empty
Value = bytes | None
Timed = list[tuple[int, Value]]  # records with their times


def _unsized(data: bytes) -> bytes:
    """Compress as a stream does: the frame does not tell the size of its content."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def _lz4_blocks(data: bytes) -> bytes:
    """Compress into one frame of two blocks."""
    frame = lz4.frame.LZ4FrameCompressor(block_linked=False, content_checksum=True, auto_flush=True)
    parts = frame.begin(), frame.compress(data[:9]), frame.compress(data[9:]), frame.flush()
    return b"".join(parts)


def _lz4_frames(data: bytes) -> bytes:
    return codecs._lz4(data[:9]) + codecs._lz4(data[9:])


Packing = tuple[str, Callable[[bytes], bytes]]
PACKED: list[Packing] = [
    ("zstd", lambda data: _unsized(data[:9]) + _unsized(data[9:])),
    ("zstd", lambda data: _unsized(data[:9]) + zstandard.compress(data[9:])),
    ("snappy", snappy.compress),  # without framing, as librdkafka writes it
    ("lz4", _lz4_blocks),
]
# librdkafka reads the first of these parts, and Java's consumer reads all of them.
JOINED: list[Packing] = [
    ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    ("snappy", lambda data: codecs._snap(data[:9]) + codecs._snap(data[9:])),
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


def _produce(source: Broker, topic: str, batches: list[Ready]) -> None:
    """Write batches unchanged, except for the producer in their headers."""
    with raw.connect(End("source", source.plaintext), "test") as client:

        def write(_: Callable[[], None]) -> None:
            producer = TransactionalProducer(client, unique("odd"))
            producer.begin()
            producer.enlist([TopicPartition(topic, 0)])
            for batch in batches:
                producer.send(topic, 0, batch)
            producer.commit()

        until_committed(client, write)  # again, if the broker does not know yet that it leads the partition
    clients.settle(source, topic)


def _packed(codec: str, pack: Callable[[bytes], bytes], first: int) -> Ready:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(codecs._COMPRESS, codec, pack)
        return _batch(codec, first)


def write_parts(source: Broker, topic: str, packed: list[Packing] = PACKED) -> list[Value]:
    """Write batches whose compressed data have several parts."""
    _produce(source, topic, [_packed(*each, number * RECORDS) for number, each in enumerate(packed)])
    return [_value(number) for number in range(len(packed) * RECORDS)]


def write_by_java(source: Broker, topic: str) -> list[Value]:
    """Write batches by Java's producer, one of each codec."""
    values = [_value(number) for number in range(len(codecs.CODECS) * RECORDS)]
    command = ["java", "-cp", f"{binary('AQUEDUCT_KAFKA_JARS')}/*", str(PRODUCE)]
    subprocess.run(
        [*command, source.plaintext, topic, str(RECORDS)],
        input=b"\n".join(values),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [*values]


def write_by_go(source: Broker, topic: str) -> list[Value]:
    """Write the stored batches of franz-go and sarama."""
    stored = [path.read_bytes() for path in GO_BATCHES]
    _produce(source, topic, [Ready(bytearray(batch), RECORDS, RECORDS) for batch in stored])
    return [row.value for batch in stored for row in clients.decoded(batch)]


def read_by_librdkafka(broker: Broker, topic: str, _: int) -> Timed:
    return [(message.timestamp()[1], message.value()) for message in clients.read(broker, topic)]


def read_by_java(broker: Broker, topic: str, number: int) -> Timed:
    """Read so many records with Java's consumer."""
    asked = ["--bootstrap-server", broker.plaintext, "--topic", topic, "--partition", "0"]
    asked += ["--offset", "earliest", "--max-messages", str(number), "--timeout-ms", "120000"]
    asked += ["--isolation-level", "read_committed", "--property", "print.timestamp=true"]
    command = java("org.apache.kafka.tools.consumer.ConsoleConsumer", *asked)
    done = subprocess.run(command, capture_output=True, check=True)
    lines = [line.partition(b"\t") for line in done.stdout.splitlines() if line.startswith(b"CreateTime:")]
    return [(int(time.removeprefix(b"CreateTime:")), value) for time, _, value in lines]


@dataclass(frozen=True, kw_only=True)
class Producer:
    """How batches are written, the client that reads them as its witness, and what reconcile exits with."""

    write: Callable[[Broker, str], list[Value]]
    read: Callable[[Broker, str, int], Timed]
    reconciled: ExitCode = ExitCode.DONE


PRODUCERS = {
    "parts": Producer(write=write_parts, read=read_by_librdkafka),
    "joined streams": Producer(
        write=partial(write_parts, packed=JOINED), read=read_by_java, reconciled=ExitCode.INCOMPLETE
    ),
    "Java": Producer(write=write_by_java, read=read_by_librdkafka),
    "franz-go and sarama": Producer(write=write_by_go, read=read_by_librdkafka),
}


@pytest.mark.parametrize("producer", PRODUCERS.values(), ids=PRODUCERS)
def test_odd_batches_are_read_by_every_verb(
    source: Broker, target: Broker, tmp_path: Path, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reconcile alone reads with librdkafka. What this cannot read is reported as not compared."""
    monkeypatch.setattr(reader, "STALL_SECONDS", 15)
    topic = create(source, unique("odd"))
    values = producer.write(source, topic)
    read = producer.read(source, topic, len(values))
    assert [value for _, value in read] == values
    store = ["--store", f"file://{tmp_path}/store"]
    assert main(["backup", "--bootstrap-server", source.plaintext, *store, "--topics", topic]) == 0
    assert main(["verify", *store]) == 0
    asked = ["--bootstrap-server", target.plaintext, *store, "--topics", topic]
    since = read[3][0]
    late = [value for time, value in read if time >= since]
    assert main(["restore", *asked, "--from-time", str(since)]) == 0  # which opens each batch
    assert [value for _, value in producer.read(target, topic, len(late))] == late
    at_both = ["--store", store[1], "--target-bootstrap-server", source.plaintext, "--topics", topic]
    assert main(["reconcile", *at_both]) == producer.reconciled
    to = ["--to", f"file://{tmp_path}/out"]
    assert main(["export", *store, "--topics", topic, "--format", "parquet", *to]) == 0
    exported = pq.read_table(tmp_path / "out", columns=["value"])
    assert sorted(exported.column("value").to_pylist(), key=repr) == sorted(values, key=repr)
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
        if row.get("n") is not None
    ]
    assert sorted(landed) == sorted(json.loads(value)["n"] for value in values if value)
    assert main(["land", "verify", *lake]) == 0


def test_unreadable_batch_prevents_comparison_of_one_partition(
    source: Broker, target: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALL_SECONDS", 15)
    topic = create(source, unique("odd"), 3)
    write_parts(source, topic, JOINED)
    records = [{"value": _value(number), "timestamp": TIME + number} for number in range(100)]
    for partition in (1, 2):
        clients.produce(source, topic, records, partition)
    create(target, topic, 3)
    clients.produce(target, topic, records, 1)
    clients.produce(target, topic, records[:-1], 2)
    report = tmp_path / "report.json"
    ends = ["--source-bootstrap-server", source.plaintext, "--target-bootstrap-server", target.plaintext]
    code = main(["reconcile", *ends, "--topics", topic, "--report", str(report)])
    found = json.loads(report.read_text())
    assert code == ExitCode.INCOMPLETE
    assert [each["equal"] for each in found["partitions"]] == [None, True, False]
    assert [(each["id"], each["what"]) for each in found["left_out"]] == [
        ("compared-batch-unreadable", f"{topic}-0"),
        ("records-differ", f"{topic}-2"),
    ]


def test_broker_refuses_several_lz4_frames(source: Broker) -> None:
    """Java's reader ends behind the first frame, so no log has such a batch."""
    topic = create(source, unique("odd"))
    with pytest.raises(Failed, match="InvalidRecord"):
        _produce(source, topic, [_packed("lz4", _lz4_frames, 0)])
    assert clients.read(source, topic) == []
