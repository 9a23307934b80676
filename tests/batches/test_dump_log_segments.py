"""Kafka's own DumpLogSegments reads what we build, cut and make ready."""

import re
import subprocess

import pytest
from second_decoder import Whole, built

from aqueduct.kafka.batches.batch import LOG_APPEND_TIME, TRANSACTIONAL, Batch, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.produce import ready, stamp
from aqueduct.kafka.batches.records import Records, build
from servers.process import java

# Rising offsets with holes, times out of order, every kind of null, headers of the same name.
WHOLES = [
    Whole(
        timestamp=1_700_000_000_000 + number * 7919 % 101,
        offset=1000 + number + number // 7,
        key=None if number % 3 == 0 else b"" if number % 3 == 1 else b"key%d" % number,
        value=None if number % 5 == 0 else b"value%d " % number * (number % 50),
        headers=[("same", b"1"), ("same", None), ("other", b"")][: number % 4],
    )
    for number in range(400)
]
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* producerId: (-?\d+) .* isTransactional: (\w+) "
    r".* (CreateTime|LogAppendTime): (\d+) .* compresscodec: (\w+) .* isvalid: (\w+)"
)
_RECORD = re.compile(
    r"\| offset: (\d+) \w+: (\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[(.*?)\]"
    r"(?: key: (\S*))?(?: payload: (.*))?"
)


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """Build batches of all codecs, in the order of their offsets.

    Some are verbatim from aiokafka, some built, some cut.
    """
    found = []
    for number, start in enumerate(range(0, len(WHOLES), 20)):
        part, codec = WHOLES[start : start + 20], CODECS[number % len(CODECS)]
        records = Records.listed(each.verbatim() for each in part)
        match number % 4:
            case 0:
                data = built(part, codec, producer=(7, 1, start))
            case 1:
                data = build(records, codec=codec)
            case 2:
                data = build(records, codec=codec, attributes=TRANSACTIONAL, producer=(8, 1, start))
            case _:
                data = build(records, codec=codec, attributes=LOG_APPEND_TIME)
        (batch,) = walk(data)
        left = cut(batch, Window(start=part[3].offset)) if number % 3 == 0 else batch
        assert left
        found.append(left)
    return found


@pytest.fixture(scope="module")
def dumped(batches: list[Batch], tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Run DumpLogSegments on two segments, and return what it prints.

    One has the batches as they are, the other what is ready to be written of them.
    """
    written = []
    for each in ready(batches, max_bytes=3000):
        stamp(each.data, producer_id=9, epoch=0, sequence=0, transactional=True)
        written.append(each.data)
    directory = tmp_path_factory.mktemp("segments")
    files = [directory / f"{offset:020d}.log" for offset in (batches[0].base_offset, 0)]
    for file, parts in zip(files, ([batch.data for batch in batches], written), strict=True):
        file.write_bytes(b"".join(parts))
    arguments = ("--deep-iteration", "--print-data-log", "--files", ",".join(map(str, files)))
    command = java("org.apache.kafka.tools.DumpLogSegments", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, *said = done.stdout.split("Log starting offset:")
    return [each.splitlines() for each in said]


def test_it_sees_our_batches(batches: list[Batch], dumped: list[list[str]]) -> None:
    seen = [match.groups() for line in dumped[0] if (match := _BATCH.match(line))]
    expected = [
        (
            *map(str, (each.base_offset, each.last_offset, each.count, each.producer_id)),
            str(each.transactional).lower(),
            "LogAppendTime" if each.log_append_time else "CreateTime",
            *(str(each.max_time), each.codec, "true"),
        )
        for each in batches
    ]
    assert seen == expected
    assert {each.codec for each in batches} == set(CODECS)


def test_it_sees_our_records(batches: list[Batch], dumped: list[list[str]]) -> None:
    by_offset = {each.offset: each for each in WHOLES}
    expected = [
        by_offset[record.offset]._replace(timestamp=record.timestamp)
        for batch in batches
        for record in Records.of([batch])
    ]
    kept, written = ([match for line in lines if (match := _RECORD.match(line))] for lines in dumped)
    assert [_fields(match) for match in kept] == [_expected(each) for each in expected]
    assert [int(match[1]) for match in kept] == [each.offset for each in expected]
    assert [_fields(match) for match in written] == [_expected(each) for each in expected]


def test_it_finds_what_is_ready_valid(dumped: list[list[str]]) -> None:
    seen = [match.groups() for line in dumped[1] if (match := _BATCH.match(line))]
    assert len(seen) > 5
    for base, last, count, producer, transactional, time_type, _, _, valid in seen:
        assert (base, int(last)) == ("0", int(count) - 1)
        assert (producer, transactional, time_type, valid) == ("9", "true", "CreateTime", "true")


def _fields(match: re.Match[str]) -> tuple[str | None, ...]:
    return match.groups()[1:]


def _expected(record: Whole) -> tuple[str | None, ...]:
    sizes = (str(-1 if each is None else len(each)) for each in (record.key, record.value))
    names = ",".join(name for name, _ in record.headers)
    contents = (None if each is None else each.decode() for each in (record.key, record.value))
    return (str(record.timestamp), *sizes, names, *contents)
