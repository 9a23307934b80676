"""Record batches as franz-go and sarama send them: go_producers/README.md says how they were written."""

import json
from pathlib import Path

import pytest
from kit import clients

from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import headers, key_and_value
from aqueduct.kafka.batches.codecs import CODECS, OverLimit, decompress
from aqueduct.kafka.batches.records import records

BATCHES = sorted((Path(__file__).parent / "go_producers").glob("*.bin"))
RECORDS = 40
TIME = 1_700_000_000_000
HEADER = 61  # bytes before the records


def key(number: int) -> bytes | None:
    return None if number == 1 else f"key {number}".encode()


def value(number: int, times: int) -> bytes | None:
    text = json.dumps({"n": number, "text": "text " * number * times}).encode()
    return {2: None, 3: b""}.get(number, text)


def test_each_library_has_each_codec() -> None:
    written = {path.stem.rpartition("-")[0] for path in BATCHES}
    assert written == {f"{library}-{codec}" for library in ("franz-go", "sarama") for codec in CODECS[1:]}


@pytest.mark.parametrize("path", BATCHES, ids=lambda path: path.stem)
def test_records_are_read(path: Path) -> None:
    codec, times = path.stem.split("-")[-2:]
    (batch,) = walk(path.read_bytes())
    assert (batch.codec, batch.count) == (codec, RECORDS)
    rows = list(records(batch))
    assert [(row.timestamp, row.offset) for row in rows] == [(TIME + n, n) for n in range(RECORDS)]
    assert [headers(row.body) for row in rows] == [[(b"source", b"test")]] * RECORDS
    expected = [(key(number), value(number, int(times))) for number in range(RECORDS)]
    assert [key_and_value(row.body) for row in rows] == expected
    assert [(row.key, row.value) for row in clients.decoded(path.read_bytes())] == expected


@pytest.mark.parametrize("path", BATCHES, ids=lambda path: path.stem)
def test_data_are_decompressed_up_to_a_limit(path: Path) -> None:
    codec, packed = path.stem.split("-")[-2], path.read_bytes()[HEADER:]
    size = len(decompress(codec, packed))
    assert len(decompress(codec, packed, size)) == size
    with pytest.raises(OverLimit):
        decompress(codec, packed, size - 1)
