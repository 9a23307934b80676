"""Java's readers find in files of ORC what records had: all types, and the corners of each."""

import json
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from kit import orc_reader, typed_values
from kit.typed_values import COLUMNS, DATES, EXPRESSIONS, LOST, TIMES, days, micros

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.land import declaration, orc_times
from aqueduct.land.files import RowBuffer
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import RowReader

LAST_SECOND = (
    *("1969-12-31T23:59:59.001", "1969-12-31T23:59:59.5", "1969-12-31T23:59:59.999"),
    "1969-12-31T23:59:59.999999",
)


@dataclass(frozen=True)
class ReadBack:
    """What was written, and what readers found."""

    records: list[dict[str, Any]]
    found: dict[str, Any]  # by each reader, of the Hive table
    of_iceberg: list[dict[str, str]]
    raw: list[dict[str, int]]  # of the Iceberg table


@dataclass(frozen=True)
class Written:
    """Files, and what was wrong with records that are in none of them."""

    files: list[Path]
    bad: dict[int, str]


def write(folder: Path, columns: list[dict[str, Any]], records: list[dict[str, Any]], **more: str) -> Written:
    """Write records as a landing does."""
    content = {"table": "a.b", "topics": ["t"], "columns": columns, **more}
    [declared] = declaration.parse([content], "lake.yml")
    batch = build(
        Records.listed(
            Record(1_700_000_000_000 + n, n, body(None, json.dumps(record).encode()))
            for n, record in enumerate(records)
        ),
        codec="zstd",
        attributes=0,
    )
    rows = RowReader(declared).read(TopicPartition("t", 3), RecordArrays.of(list(walk(batch))))
    buffer = RowBuffer(declared)
    buffer.add(rows)
    folder.mkdir(parents=True)
    files = []
    for number, file in enumerate(buffer.files()):
        assert not orc_times.fault(file.data, rows=file.rows, iceberg=more.get("kind") == "iceberg")
        if file.table is None:
            files.append(folder / f"{number}.orc")
            files[-1].write_bytes(file.data)
    bad = {row["k_offset"]: row["error"] for row in rows.bad.to_pylist()}
    return Written(files, bad)


@pytest.fixture(scope="module")
def read_back(tmp_path_factory: pytest.TempPathFactory) -> ReadBack:
    """Write each value into a row of its own, and read all by one JVM."""
    folder = tmp_path_factory.mktemp("orc")
    records = typed_values.rows()
    hive = write(folder / "hive", COLUMNS, records)
    assert hive.bad == {}
    times = [{"name": "at", "type": "timestamp"}, {"name": "day", "type": "date"}]
    instants = (*TIMES, *(f"{day}T01:02:03.5" for day in LOST))
    of_iceberg = [{"at": at, "day": day} for at, day in zip(instants, cycle((*DATES, *LOST)), strict=False)]
    iceberg = write(folder / "iceberg", times, of_iceberg, kind="iceberg")
    assert iceberg.bad == {}
    found, raw = orc_reader.read(
        folder / "hive",
        {"k_offset": "k_offset", **EXPRESSIONS},
        files=iceberg.files,
        raw=["at", "day"],
    )
    return ReadBack(records, found, of_iceberg, raw)


@pytest.mark.parametrize("reader", orc_reader.SPARK)
def test_spark_and_hive_read_each_value(reader: str, read_back: ReadBack) -> None:
    found = read_back.found[reader]
    assert isinstance(found, list), found
    assert found == typed_values.plain_rows(read_back.records)


def test_iceberg_reads_days_and_times_as_they_are(read_back: ReadBack) -> None:
    expected = [{"at": micros(each["at"]) * 1_000, "day": days(each["day"])} for each in read_back.of_iceberg]
    assert read_back.raw == expected


@pytest.mark.parametrize("kind", ["hive", "iceberg"])
def test_timestamps_that_orc_readers_misread_are_bad_records(kind: str, tmp_path: Path) -> None:
    columns = [
        {"name": "at", "type": "timestamp"},
        {"name": "epoch", "type": "timestamp", "unit": "ms"},
        {"name": "all", "type": "array<timestamp>"},
    ]
    records: list[dict[str, Any]] = [
        *({"at": each} for each in LAST_SECOND),
        {"epoch": -1},
        {"epoch": -999},
        {"all": [TIMES[0], None, LAST_SECOND[0]]},
        {"epoch": -1000},
        {"epoch": -1001},
        {"at": TIMES[0], "all": []},
    ]
    written = write(tmp_path / "files", columns, records, kind=kind)
    assert sorted(written.bad) == [0, 1, 2, 3, 4, 5, 6]
    assert (
        written.bad[4] == "epoch is in the last second before 1970, which ORC readers read as the next second"
    )


def test_days_missing_in_hive_calendar_are_bad_records(tmp_path: Path) -> None:
    columns = [{"name": "at", "type": "timestamp"}, {"name": "day", "type": "date"}]
    records = [{"day": day} for day in LOST] + [
        {"at": f"{LOST[0]}T00:00:00"},
        {"at": f"{LOST[-1]}T23:59:59.9"},
    ]
    assert sorted(write(tmp_path / "hive", columns, records).bad) == list(range(12))
    assert write(tmp_path / "iceberg", columns, records, kind="iceberg").bad == {}


@pytest.mark.parametrize("type_", ["timestamp", "array<timestamp>"])
def test_each_bad_record_has_its_own_reason(type_: str, tmp_path: Path) -> None:
    times = ["2020-01-01T00:00:00", f"{LOST[0]}T00:00:00", LAST_SECOND[0], f"{LOST[-1]}T23:59:59"]
    records = [{"at": [each] if type_.startswith("array") else each} for each in times]
    bad = write(tmp_path / "files", [{"name": "at", "type": type_}], records).bad
    expected = {1: orc_times.LOST_DAYS, 2: orc_times.LAST_SECOND, 3: orc_times.LOST_DAYS}
    assert bad == {record: f"at {reason}" for record, reason in expected.items()}
