"""Few bytes of others cost little memory and time to parse: runs, counts, empty frames, numbers without end.

tests/fuzz_bytes.py has such inputs, too. Memory is counted by tracemalloc. Time is that of the processor, and
each limit is several times what is needed: the cost that it is about grew with the square of the input.
"""

import json
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import fuzz_bytes
import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import walk
from aqueduct.land import avro_schema, orc_format, orc_times
from aqueduct.land.avro_schema import WrongSchema
from aqueduct.link.ledger.entry import LedgerPartition, records
from aqueduct.link.ledger.lineage import Lineage
from aqueduct.link.ledger.losses import LossHistory
from aqueduct.recovery.quorum.records import MetadataImage, batch_of
from aqueduct.snapshots.importer import kafka_backup

MEBIBYTE = 1 << 20


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@contextmanager
def memory(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


def test_cost_of_avro_fields_is_linear() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(20_000)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    with processor_time(4):
        assert len(avro_schema.parse(text).fields) == len(fields)
        with pytest.raises(WrongSchema, match="f0"):
            avro_schema.parse(json.dumps({"type": "record", "name": "R", "fields": [*fields, fields[0]]}))


def test_long_avro_schema_is_not_parsed() -> None:
    text = json.dumps({"type": "string", "doc": "x" * avro_schema.MOST_TEXT})
    with memory(MEBIBYTE), pytest.raises(WrongSchema):
        avro_schema.add(text, {})


def test_primitive_avro_types_share_one_object() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(30_000)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    tracemalloc.start()
    kept = avro_schema.parse(text)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.fields) == len(fields)
    assert size < 6 * len(text)


@pytest.mark.parametrize("file", fuzz_bytes.orc_runs(), ids=lambda _: "file")
def test_orc_runs_take_memory_of_their_rows(file: bytes) -> None:
    with memory(32 * MEBIBYTE):
        reason = orc_times.fault(memoryview(file), rows=1, iceberg=False)
    assert reason.startswith("it is not a valid ORC file")


@pytest.mark.parametrize("file", fuzz_bytes.orc_footers(), ids=lambda _: "file")
def test_orc_footers_take_little_time_and_memory(file: bytes) -> None:
    with processor_time(5):
        reason = orc_times.fault(memoryview(file), rows=1, iceberg=False)
    assert reason.startswith("it is not a valid ORC file")
    with memory(100 * MEBIBYTE):
        orc_times.fault(memoryview(file), rows=1, iceberg=False)


def test_orc_numbers_end_after_64_bits() -> None:
    assert orc_format.parse(b"\x08" + b"\xff" * 9 + b"\x01")[0].value == (1 << 64) - 1
    with pytest.raises(ValueError, match="64 bits"):
        orc_format.parse(b"\x08" + b"\xff" * 10 + b"\x01")


def test_numbers_of_a_quorum_have_an_end() -> None:
    [batch] = walk(batch_of([b"\1\2\0" + b"\xff" * 1_000_000 + b"\1"], 0, 1, 1))
    with processor_time(2), pytest.raises(ValueError, match="offset 0"):
        MetadataImage().replay(batch)


def segment(content: bytes, count: int) -> bytes:
    head = kafka_backup.HEADER.pack(b"KBAK", 1, kafka_backup.ZSTD, count, 5, 5)
    return fuzz_bytes.foreign_segment(head + zstandard.compress(content) + bytes(8))


def read(data: bytes, count: int) -> None:
    fuzz_bytes.read_foreign_segment(data, count)


@pytest.mark.parametrize("count", [1, 1_000_000, 16 << 18])
def test_empty_records_of_other_program_are_not_listed(count: int) -> None:
    data = segment(bytes(16 * MEBIBYTE), count)
    with memory(64 * MEBIBYTE), raises(Failed, "import-file-damaged"):
        read(data, count)


def test_more_records_than_bytes_are_not_read() -> None:
    record = struct.pack("<IqqiiH", 26, 0, 0, -1, -1, 0)
    count = kafka_backup.ANY_RECORDS + 1
    data = segment(record * count, count)
    with memory(2 * MEBIBYTE), raises(Failed, "import-file-damaged"):
        read(data, count)


def test_many_headers_of_one_record_cost_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(headers: int) -> bytes:
        body = struct.pack("<qqiiH", 0, 0, -1, -1, headers) + struct.pack("<Hi", 0, -1) * headers
        return struct.pack("<I", len(body)) + body

    searched: list[int] = []
    search = np.flatnonzero

    def counted(mask: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
        searched.append(len(mask))
        return search(mask)

    monkeypatch.setattr(np, "flatnonzero", counted)
    found = kafka_backup._records(record(6_000) + record(0) * 20_000, 20_001)
    assert len(found) == 20_001
    assert sum(searched) < 2 * len(found)


def test_cost_of_many_gaps_is_linear() -> None:
    gaps = [(2 * number, 2 * number) for number in range(20_000)]
    lineage = Lineage(topic_id="id", first=0, next=100_000, gaps=gaps, lost=[])
    entry = LedgerPartition(topic="t", partition=0, current=lineage)
    history = LossHistory()
    with processor_time(5):
        for updated in range(1, 4):
            for key, value in records(entry, updated=updated).items():
                history.add(key, value or "")
        ranges = history.newest({TopicPartition("t", 0): entry}, len(gaps) + 1)
    assert sorted((each.first, each.last) for each in ranges) == gaps
    assert {each.noticed for each in ranges} == {1}


NESTED = """
import pyarrow as pa
from aqueduct.land.json_blocks import JsonReader
depth = 100_000
reader = JsonReader(pa.schema([("id", pa.int64()), ("text", pa.string()), ("all", pa.list_(pa.int64()))]))
for field in (b"other", b"text", b"all"):
    for begin, end in ((b"[", b"]"), (b'{"id":', b"}")):
        for nested in (begin * depth + b"1" + end * depth, begin * depth):
            values = [b'{"id":1}', b'{"id":3,"' + field + b'":' + nested + b"}", b'{"id":2}']
            read = reader.read(pa.array(values, pa.binary()))
            ids = read.table.column("id").to_pylist()[::2]
            assert ids in ([1, 3, 2], [1, 2]), ids
            assert len(ids) + len(read.faults) == 3
print("read")
"""


def test_deep_json_does_not_crash_a_landing() -> None:
    """By default, Arrow's reader crashes at such a record, with SIGSEGV: so this runs in another process."""
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-2000:]
