"""Compressed data of several parts: a broker and its clients read them, and so do all verbs."""

import random
from collections.abc import Callable
from pathlib import Path

import clients
import pyarrow.parquet as pq
import pytest
import zstandard
from clients import create, unique

from aqueduct.cli import main
from aqueduct.kafka import client as raw
from aqueduct.kafka.batches import codecs
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer
from aqueduct.names import TopicPartition
from servers.broker import Broker

TIME = 1_700_000_000_000
RECORDS = 40


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
    return b"%d " % number + random.Random(number).randbytes(300)  # noqa: S311


def _batch(codec: str, first: int) -> Ready:
    rows = [
        Record(TIME + number, number - first, body(b"k", _value(number)))
        for number in range(first, first + RECORDS)
    ]
    return Ready(build(Records.listed(rows), codec=codec), RECORDS, RECORDS)


def test_batches_of_several_parts_are_restored_and_exported(
    source: Broker, target: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(source, unique("odd"))
    with raw.connect(End("source", source.plaintext), "test") as client:
        producer = TransactionalProducer(client, unique("odd"))
        producer.begin()
        producer.enlist([TopicPartition(topic, 0)])
        for number, (codec, pack) in enumerate(PACKED):
            with monkeypatch.context() as patched:
                patched.setitem(codecs._COMPRESS, codec, pack)
                producer.send(topic, 0, _batch(codec, number * RECORDS))
        producer.commit()
    values = [_value(number) for number in range(len(PACKED) * RECORDS)]
    assert [each.value() for each in clients.read(source, topic)] == values
    store = ["--store", f"file://{tmp_path}/store"]
    assert main(["backup", "--bootstrap-servers", source.plaintext, *store, "--topics", topic]) == 0
    asked = ["--bootstrap-servers", target.plaintext, *store, "--topics", topic]
    assert main(["restore", *asked, "--from-time", str(TIME + 3)]) == 0  # which opens each batch
    assert [each.value() for each in clients.read(target, topic)] == values[3:]
    assert (
        main(["export", *store, "--topics", topic, "--format", "parquet", "--to", f"file://{tmp_path}/out"])
        == 0
    )
    exported = pq.read_table(tmp_path / "out", columns=["value"])
    assert sorted(exported.column("value").to_pylist()) == sorted(values)
