"""Rows that come late land in a table of their own; judged by Python's zones and what a plain reader sees."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from kit import clients, landings
from kit.identifiers import printed
from kit.interruption import EITHER, Interruption, steps
from kit.landings import LandingFolder, Row, in_order

from aqueduct.cli import main
from aqueduct.store import backends

ZONE = "America/New_York"  # whose clocks went back on 3 November 2013
HOUR = timedelta(hours=1)
AFTER = 36 * HOUR
LATE = {"table": "lake.flights_late", "after": "36h"}
COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "departed", "type": "timestamp", "zone": ZONE}]
FIRST = datetime(2013, 10, 31, tzinfo=ZoneInfo(ZONE))


lake = landings.lake  # a fixture


@pytest.fixture
def topic(lake: LandingFolder) -> str:
    name = clients.create(lake.broker, clients.unique("late"), 2)
    lake.declare(name, columns=COLUMNS, late=LATE)
    return name


def records(chance: random.Random, number: int) -> Iterator[dict[str, Any]]:
    """Yield records of some days, that came hours or days later; some have no time, some are wrong."""
    for id_ in range(number):
        departed = FIRST.astimezone(UTC) + timedelta(minutes=chance.randrange(6 * 1440))
        came = departed + timedelta(minutes=chance.randrange(4 * 1440))
        text = departed.astimezone(ZoneInfo(ZONE)).isoformat()
        value = {"id": id_, "departed": chance.choice([text, text, text, text, None, "yesterday"])}
        if value["departed"] == text and chance.random() < 0.3:
            # To the millisecond when its day is over for 36 hours, or just before.
            came = ends(departed.astimezone(ZoneInfo(ZONE)).date()) + AFTER
            came -= timedelta(milliseconds=chance.randrange(2))
        milliseconds = (came - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        yield {"value": json.dumps(value).encode(), "timestamp": milliseconds}


def ends(day: date) -> datetime:
    after = day + timedelta(days=1)
    return datetime(after.year, after.month, after.day, tzinfo=ZoneInfo(ZONE)).astimezone(UTC)


def fill(lake: LandingFolder, topic: str, chance: random.Random, number: int) -> None:
    both = (
        {**record, "partition": partition} for partition in range(2) for record in records(chance, number)
    )
    clients.produce(lake.broker, topic, both)


def should_be(lake: LandingFolder, topic: str, after: timedelta = AFTER) -> tuple[list[Row], list[Row], int]:
    """Return the rows of the table and of the late one that a topic comes to, and how many are bad."""
    on_time: list[Row] = []
    late: list[Row] = []
    bad = 0
    for message in clients.read(lake.broker, topic, 0, 1):
        value = json.loads(message.value())
        if value["departed"] == "yesterday":
            bad += 1
            continue
        came = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=message.timestamp()[1])
        departed = datetime.fromisoformat(value["departed"]) if value["departed"] else None
        row = {
            "k_topic": topic,
            "k_partition": message.partition(),
            "k_offset": message.offset(),
            "k_timestamp": came.replace(tzinfo=None),
            "id": value["id"],
            "departed": departed.astimezone(UTC).replace(tzinfo=None) if departed else None,
            "day": str(departed.date()) if departed else "__HIVE_DEFAULT_PARTITION__",
        }
        is_late = departed is not None and came >= ends(departed.date()) + after
        (late if is_late else on_time).append(row)
    return in_order(on_time), in_order(late), bad


def placed(lake: LandingFolder) -> list[tuple[int, int]]:
    return lake.placed() + lake.placed("flights_late") + lake.placed("flights_bad")


def check(lake: LandingFolder, topic: str) -> tuple[int, int, int]:
    """Compare what plain readers see with the topic; return how much there is."""
    on_time, late, bad = should_be(lake, topic)
    assert in_order(lake.rows()) == on_time
    assert in_order(lake.rows("flights_late")) == late
    assert len(lake.rows("flights_bad")) == bad
    assert main(lake.command("verify")) == 0
    return len(on_time), len(late), bad


def test_late_rows_have_a_table_of_their_own(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)  # noqa: S311
    report = lake.folder / "report.json"
    for _ in range(3):
        fill(lake, topic, chance, 150)
        assert lake.land("--report", str(report)) == 0
    on_time, late, bad = check(lake, topic)
    assert min(on_time, late, bad) > 50
    [told] = json.loads(report.read_text())["tables"]
    assert 0 < told["late"] < late
    for commit in lake.commits():
        tables = {file["path"].rpartition("-")[2]: file["table"] for file in commit["added"]}
        assert tables["late.orc"] == "lake.flights_late"
        assert tables["bad.orc"] == "lake.flights_bad"
        assert None in tables.values()
    capsys.readouterr()
    assert main(lake.command("status")) == 0
    said = capsys.readouterr().out
    assert f"{on_time} rows in " in said
    assert f"; {late} late rows; {bad} rejected records; 3 commits" in said

    files = len(list((lake.table.parent / "flights_late").rglob("day=*/*.orc")))
    assert main(lake.command("compact")) == 0
    after = list((lake.table.parent / "flights_late").rglob("day=*/*.orc"))
    assert len(after) == len({path.parent for path in after}) < files
    assert check(lake, topic) == (on_time, late, bad)

    # Back over files of a compaction; what goes comes again where it was.
    capsys.readouterr()
    assert main(lake.command("reset", f"--to-offsets={topic}:0:200,{topic}:1:1", "--execute")) == 0
    gone = 900 - 201
    assert len(placed(lake)) == 900 - gone
    assert main(lake.command("verify")) == 0
    assert lake.land() == 0
    assert check(lake, topic) == (on_time, late, bad)


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_landing_writes_each_late_row_once(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    chance = random.Random(2)  # noqa: S311
    interrupted = 0
    for at in steps():
        fill(lake, topic, chance, 15)
        with monkeypatch.context() as patch:
            interruption = Interruption(patch, backends._Directory, at, after=after)
            code = lake.land()
        assert code == (130 if interruption.calls >= at else 0)
        assert len(placed(lake)) == len(set(placed(lake)))
        interrupted += code == 130
        if code == 0:
            break
    assert interrupted > 6
    check(lake, topic)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True])
def test_interrupted_compaction_or_reset_is_finished_by_landing(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    chance = random.Random(3)  # noqa: S311
    for verb in (["compact"], ["reset", f"--to-offsets={topic}:0:3", "--execute"]):
        for at in range(2, 40, 4):
            fill(lake, topic, chance, 10)
            assert lake.land() == 0
            with monkeypatch.context() as patch:
                Interruption(patch, backends._Directory, at, after=after)
                main(lake.command(*verb))
            assert len(placed(lake)) == len(set(placed(lake)))
            assert lake.land() == 0
        check(lake, topic)


def test_late_table_can_be_added_and_removed_later(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(4)  # noqa: S311
    lake.declare(topic, columns=COLUMNS)
    fill(lake, topic, chance, 50)
    assert lake.land() == 0
    assert not (lake.table.parent / "flights_late").exists()
    before = len(lake.rows())
    lake.declare(topic, columns=COLUMNS, late=LATE)
    fill(lake, topic, chance, 50)
    assert lake.land() == 0
    assert [commit["schema"] for commit in lake.commits()] == [1, 2]
    late = lake.rows("flights_late")
    assert in_order(late) == [row for row in should_be(lake, topic)[1] if row["k_offset"] >= 50]
    assert late
    # What landed late before stays where it is, and so does what is in the late table when it is gone.
    assert len(lake.rows()) > before
    lake.declare(topic, columns=COLUMNS)
    fill(lake, topic, chance, 50)
    assert lake.land() == 0
    assert in_order(lake.rows("flights_late")) == in_order(late)
    assert lake.commits()[-1]["schema"] == 2
    assert main(lake.command("verify")) == 0
    assert main(lake.command("compact")) == 0
    assert main(lake.command("verify")) == 0
    capsys.readouterr()
    assert main(lake.command("status")) == 0
    assert f"; {len(late)} late rows; " in capsys.readouterr().out
    # Not under another name; and the time after which a row is late is free.
    lake.declare(topic, columns=COLUMNS, late={**LATE, "table": "lake.others"})
    assert lake.land() == 2
    assert printed(capsys.readouterr().err) == ["table-change-unsupported"]
    lake.declare(topic, columns=COLUMNS, late={**LATE, "after": "1d"})
    assert main(lake.command("reset", f"--to-offsets={topic}:0:0,{topic}:1:0", "--execute")) == 0
    assert placed(lake) == []
    assert lake.land() == 0
    on_time, late, bad = should_be(lake, topic, timedelta(days=1))
    assert in_order(lake.rows()) == on_time
    assert in_order(lake.rows("flights_late")) == late
    assert len(lake.rows("flights_bad")) == bad


def test_late_table_folder_in_use_is_refused(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(topic, columns=COLUMNS)
    fill(lake, topic, random.Random(5), 20)  # noqa: S311
    assert lake.land() == 0
    theirs = lake.table.parent / "flights_late"
    theirs.mkdir()
    (theirs / "of-others.orc").write_bytes(b"x")
    lake.declare(topic, columns=COLUMNS, late=LATE)
    assert lake.land() == 2
    assert printed(said := capsys.readouterr().err) == ["table-folder-taken"]
    assert "lake.flights_late" in said
    lake.declare(topic, columns=COLUMNS, late={**LATE, "table": "lake.late"})
    assert lake.land() == 0
    lake.declare(topic, columns=COLUMNS, table="lake.other", late={**LATE, "table": "lake.late"})
    assert lake.land() == 2
    assert printed(said := capsys.readouterr().err) == ["table-folder-taken"]
    assert "lake.late" in said
