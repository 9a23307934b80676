"""Rejected records are tried again by a changed declaration; judged by the topic, Python's json and files."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from kit import clients, landings
from kit.identifiers import assert_printed, printed
from kit.interruption import EITHER, Interruption, steps
from kit.landings import LandingFolder, Row, in_order, naive
from kit.staging import overdue

from aqueduct.cli import main
from aqueduct.land import replay, run
from aqueduct.land.log import Staging
from aqueduct.land.table_log import TableLog
from aqueduct.store import backends

NOVEMBER = datetime(2013, 11, 1, tzinfo=UTC)
BEFORE = [
    {"name": "id", "type": "bigint"},
    {"name": "price", "type": "bigint"},
    {"name": "departed", "type": "timestamp"},
    {"name": "sent", "type": "string", "from": "$key"},
]
# In most records the price is an object: what was declared took it for a number.
AFTER = [{**each, "from": "price.sum"} if each["name"] == "price" else each for each in BEFORE]
LATE = {"table": "lake.flights_late", "after": "1d"}


lake = landings.lake  # a fixture


@pytest.fixture
def topic(lake: LandingFolder) -> str:
    name = clients.create(lake.broker, clients.unique("replayed"), 2)
    lake.declare(name, columns=BEFORE, late=LATE)
    return name


def records(chance: random.Random, number: int) -> Iterator[dict[str, Any]]:
    for id_ in range(number):
        departed = NOVEMBER + timedelta(hours=chance.randrange(72))
        came = departed + timedelta(hours=chance.randrange(72))
        price = chance.choice([None, id_, {"sum": id_}, {"sum": None}, {}, {"sum": "x"}, {"sum": 1.5}])
        value = {"id": id_, "price": price, "departed": departed.isoformat()}
        data = json.dumps(value).encode()
        if chance.random() < 0.1:
            data = chance.choice([b"", b"{", b"\xff", b'{"id": 1, "id": 2}'])
        milliseconds = (came - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        key = chance.choice([None, b"", b"k%d" % id_])
        yield {"value": data, "key": key, "timestamp": milliseconds}


def fill(lake: LandingFolder, topic: str, chance: random.Random, number: int) -> None:
    both = (
        {**record, "partition": partition} for partition in range(2) for record in records(chance, number)
    )
    clients.produce(lake.broker, topic, both)


def change(lake: LandingFolder, topic: str, **more: Any) -> None:
    lake.declare(topic, columns=AFTER, late=LATE, **more)


def price_of(value: dict[str, Any], after: bool) -> int | None:
    """Return the price as one of both declarations has it; ValueError if the record is a bad one."""
    price = value["price"]
    if after:
        if price is not None and not isinstance(price, dict):
            raise ValueError
        price = (price or {}).get("sum")
    if price is not None and type(price) is not int:
        raise ValueError
    return price


def should_be(
    lake: LandingFolder, topic: str, changed_at: int
) -> tuple[list[Row], list[Row], dict[Any, Any]]:
    """Return rows, late rows and rejected records: those before an offset landed by the former declaration.

    What was bad then is tried by the one after it.
    """
    on_time: list[Row] = []
    late: list[Row] = []
    bad: dict[Any, Any] = {}
    for message in clients.read(lake.broker, topic, 0, 1):
        at = (message.partition(), message.offset())
        try:
            value = json.loads(message.value().decode(), object_pairs_hook=once)
            try:
                price = price_of(value, after=message.offset() >= changed_at)
            except ValueError:
                price = price_of(value, after=True)
        except ValueError:
            bad[at] = (message.value(), message.key())
            continue
        departed = datetime.fromisoformat(value["departed"])
        came = naive(message.timestamp()[1])
        row = {
            "k_topic": topic,
            "k_partition": at[0],
            "k_offset": at[1],
            "k_timestamp": came,
            "id": value["id"],
            "price": price,
            "departed": departed.replace(tzinfo=None),
            "sent": message.key().decode() if message.key() is not None else None,
            "day": str(departed.date()),
        }
        day_ends = datetime.combine(departed.date(), datetime.min.time()) + timedelta(days=1)
        (late if came >= day_ends + timedelta(days=1) else on_time).append(row)
    return in_order(on_time), in_order(late), bad


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def placed(lake: LandingFolder) -> list[tuple[int, int]]:
    return lake.placed() + lake.placed("flights_late") + lake.placed("flights_bad")


def check(lake: LandingFolder, topic: str, changed_at: int) -> None:
    on_time, late, bad = should_be(lake, topic, changed_at)
    assert in_order(lake.rows()) == on_time
    assert in_order(lake.rows("flights_late")) == late
    found = lake.rows("flights_bad")
    assert {(row["k_partition"], row["k_offset"]): (row["value"], row["key"]) for row in found} == bad
    assert len(found) == len(bad)
    assert main(lake.command("verify")) == 0


def try_again(lake: LandingFolder, *arguments: str) -> int:
    return main(lake.command("replay", "--bad", *arguments))


def test_bad_records_that_fit_now_become_rows(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)  # noqa: S311
    for _ in range(3):
        fill(lake, topic, chance, 100)
        assert lake.land() == 0
    before = [lake.rows(), lake.rows("flights_late"), lake.rows("flights_bad")]
    capsys.readouterr()
    assert try_again(lake, "--execute") == 0
    assert (
        f"0 of {len(before[2])} rejected records are rows now; {len(before[2])} remain rejected records.\n"
        in (capsys.readouterr().out)
    )
    assert len(lake.commits()) == 3

    change(lake, topic)
    report = lake.folder / "report.json"
    assert try_again(lake, f"--report={report}") == 0
    said = capsys.readouterr().out
    assert said.endswith("Nothing was changed. To change the table, pass --execute.\n")
    assert [lake.rows(), lake.rows("flights_late"), lake.rows("flights_bad")] == before
    assert len(lake.commits()) == 3
    [told] = json.loads(report.read_text())["tables"]
    on_time, late, bad = should_be(lake, topic, 300)
    fit = len(on_time) + len(late) - len(before[0]) - len(before[1])
    assert (told["fit"], told["bad"]) == (fit, len(bad)) == (len(before[2]) - len(bad), len(bad))
    assert told["late"] == len(late) - len(before[1]) > 0
    errors = Counter(row["error"] for row in before[2])
    assert {each["error"]: each["records"] for each in told["errors"]} == errors
    assert sum(each["fit"] for each in told["errors"]) == fit
    [objects] = [each for each in told["errors"] if "price is of type" in each["error"]]
    assert 0 < objects["fit"] < objects["records"]
    assert (
        f"{fit} of {len(before[2])} rejected records would be rows now, {told['late']} of them late rows"
        in said
    )
    assert (
        f"  {objects['fit']} of {objects['records']} records with this error now match: {objects['error']}\n"
    ) in said

    assert try_again(lake, "--execute", f"--report={report}") == 0
    check(lake, topic, 300)
    assert f"{fit} of {len(before[2])} rejected records are rows now, " in capsys.readouterr().out
    done = json.loads(report.read_text())["tables"][0]
    assert done == {**told, "commits": 1}
    commit = lake.commits()[-1]
    assert (commit["kind"], commit["bad"], commit["topic_ids"]) == ("replay", 0, {})
    assert commit["positions"]["before"] == commit["positions"]["next"] == {topic: {"0": 300, "1": 300}}
    assert commit["removed"]
    assert all(path.endswith("-bad.orc") for path in commit["removed"])
    assert {file["table"] for file in commit["added"]} == {None, "lake.flights_late", "lake.flights_bad"}

    # Once more there is nothing to do; and landing, compaction and a reset go on from there.
    assert try_again(lake, "--execute") == 0
    assert len(lake.commits()) == 4
    fill(lake, topic, chance, 50)
    assert lake.land() == 0
    assert main(lake.command("compact")) == 0
    check(lake, topic, 300)
    assert main(lake.command("reset", f"--to-offsets={topic}:0:0,{topic}:1:0", "--execute")) == 0
    assert placed(lake) == []
    assert lake.land() == 0
    check(lake, topic, 0)


def test_batch_by_batch(lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2)  # noqa: S311
    monkeypatch.setattr(replay, "EXCHANGED", 3)
    monkeypatch.setattr(replay, "TASK_RECORDS", 40)
    monkeypatch.setattr(replay, "RECORDS", 7)
    for _ in range(7):
        fill(lake, topic, chance, 20)
        assert lake.land() == 0
    change(lake, topic)
    assert try_again(lake, "--execute") == 0
    commits = [commit for commit in lake.commits() if commit["kind"] == "replay"]
    assert [len(commit["removed"]) for commit in commits] == [3, 3, 1]
    check(lake, topic, 140)


def test_replay_adds_new_column_with_its_first_rows(lake: LandingFolder, topic: str) -> None:
    fill(lake, topic, random.Random(3), 60)  # noqa: S311
    assert lake.land() == 0
    bad = lake.placed("flights_bad")
    lake.declare(topic, columns=[*AFTER, {"name": "more", "type": "bigint", "from": "id"}], late=LATE)
    assert try_again(lake, "--execute") == 0
    assert [commit["schema"] for commit in lake.commits()] == [1, 2]
    more = {(row["k_partition"], row["k_offset"]): row["more"] for row in lake.rows() if "more" in row}
    assert more
    assert set(more) < set(bad)
    assert lake.land() == 0
    lake.declare(topic, columns=AFTER, late=LATE)
    assert try_again(lake, "--execute") == 2


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_replay_never_loses_or_doubles_records(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    chance = random.Random(4)  # noqa: S311
    interrupted = 0
    for at in steps():
        lake.declare(topic, columns=BEFORE, late=LATE)
        fill(lake, topic, chance, 15)
        assert lake.land() == 0
        change(lake, topic)
        with monkeypatch.context() as patch:
            interruption = Interruption(patch, backends._Directory, at, after=after)
            code = try_again(lake, "--execute")
        assert code == (130 if interruption.calls >= at else 0)
        assert len(placed(lake)) == len(set(placed(lake)))
        interrupted += code == 130
        if code == 0:
            break
    assert interrupted > 6
    check(lake, topic, 15 * (interrupted + 1))


@pytest.mark.long
def test_killed_at_any_moment(lake: LandingFolder, topic: str) -> None:
    chance = random.Random(5)  # noqa: S311
    kills = 0
    for _ in range(5):
        lake.declare(topic, columns=BEFORE, late=LATE)
        fill(lake, topic, chance, 300)
        assert lake.land() == 0
        change(lake, topic)
        started = lake.start("replay", "--bad", "--execute")
        time.sleep(chance.uniform(0.5, 1.5))
        started.send_signal(signal.SIGKILL)
        started.communicate()
        kills += started.returncode != 0
        assert max(Counter(placed(lake)).values()) == 1
    assert kills
    assert try_again(lake, "--execute") == 0
    check(lake, topic, 1_500)
    assert overdue(str(path) for path in lake.table.rglob("*.*")) == []


def test_beside_a_lander_that_runs(lake: LandingFolder, topic: str) -> None:
    chance = random.Random(6)  # noqa: S311
    fill(lake, topic, chance, 100)
    assert lake.land() == 0
    change(lake, topic)
    lander = lake.start("--every", "1s")
    try:
        fill(lake, topic, chance, 50)
        clients.wait_for("a round of the lander", lambda: len(lake.commits()) > 1)
        for _ in range(5):
            fill(lake, topic, chance, 50)
            assert try_again(lake, "--execute") == 0
            time.sleep(0.3)
        assert lander.poll() is None
    finally:
        lander.kill()
        lander.communicate()
    assert lake.land() == 0
    assert try_again(lake, "--execute") == 0
    check(lake, topic, 100)


def test_column_added_by_replay_stops_no_other_table(lake: LandingFolder, topic: str) -> None:
    """A lander that runs by the former declaration fails for that table, by its name; the others land."""
    lake.others = [{**lake.declared, "table": "lake.other", "poison": "lake.other_bad", "late": "add"}]
    chance = random.Random(21)  # noqa: S311
    fill(lake, topic, chance, 20)
    lander = lake.start("--every", "1s")
    try:
        clients.wait_for("both tables", lambda: lake.placed() and lake.placed("other"))
        former, lake.others = lake.others, []
        lake.declare(topic, columns=[*AFTER, {"name": "more", "type": "string"}], late=LATE)
        clients.wait_for("a replay", lambda: try_again(lake, "--execute") == 0)
        landed = len(lake.placed("other"))
        for _ in range(2):  # also a lander that is made anew after its round failed
            fill(lake, topic, chance, 20)
            clients.wait_for("more", lambda landed=landed: len(lake.placed("other")) > landed)
            landed = len(lake.placed("other"))
        assert lander.poll() is None
    finally:
        lander.kill()
        _, said = lander.communicate()
    assert "table-change-unsupported" in printed(said)
    assert not [path for path in (lake.table / "_land/staged").rglob("*") if path.is_file()]
    lake.others = former
    assert lake.land() == 0
    assert main(lake.command("verify")) == 0


def once_before(patch: pytest.MonkeyPatch, module: object, name: str, do: Callable[[], object]) -> list[int]:
    """Do something before the first call of a module's function."""
    called: list[int] = []
    plain = getattr(module, name)

    def wrapped(*arguments: Any) -> Any:
        called.append(1)
        if len(called) == 1:
            do()
        return plain(*arguments)

    patch.setattr(module, name, wrapped)
    return called


def test_who_commits_second_tries_again(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A landing before a replay, and the other way round."""
    chance = random.Random(7)  # noqa: S311
    fill(lake, topic, chance, 60)
    assert lake.land() == 0
    change(lake, topic)
    fill(lake, topic, chance, 10)
    with monkeypatch.context() as patch:
        called = once_before(patch, replay, "_commit", lake.land)
        assert try_again(lake, "--execute") == 0
    assert len(called) == 2
    assert [commit["kind"] for commit in lake.commits()] == ["land", "land", "replay"]
    check(lake, topic, 60)

    lake.declare(topic, columns=BEFORE, late=LATE)
    assert main(lake.command("reset", f"--to-offsets={topic}:0:0,{topic}:1:0", "--execute")) == 0
    assert lake.land() == 0
    change(lake, topic)
    fill(lake, topic, chance, 10)
    with monkeypatch.context() as patch:
        once_before(patch, run, "settle", lambda: try_again(lake, "--execute"))
        assert lake.land() == 0
    assert [commit["kind"] for commit in lake.commits()][-2:] == ["replay", "land"]
    check(lake, topic, 70)


@pytest.mark.parametrize("others", [["replay", "--bad"], ["reset", "--to-offsets={0}:0:20,{0}:1:20"]])
def test_whose_bad_records_another_one_took_ends(
    lake: LandingFolder,
    topic: str,
    others: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(lake, topic, random.Random(9), 60)  # noqa: S311
    assert lake.land() == 0
    change(lake, topic)
    command = lake.command(*(each.format(topic) for each in others), "--execute")
    with monkeypatch.context() as patch:
        once_before(patch, replay, "_commit", lambda: main(command))
        assert try_again(lake, "--execute") == 1
    assert printed(capsys.readouterr().err) == ["table-changed-meanwhile"]
    assert len(lake.commits()) == 2
    assert main(lake.command("verify")) == 0
    assert try_again(lake, "--execute") == 0
    assert lake.land() == 0
    check(lake, topic, 60 if others[0] == "replay" else 20)


@pytest.mark.usefixtures("each_task_twice")
def test_tasks_that_spark_runs_again_leave_nothing(lake: LandingFolder, topic: str) -> None:
    fill(lake, topic, random.Random(10), 60)  # noqa: S311
    assert lake.land() == 0
    change(lake, topic)
    assert try_again(lake, "--execute") == 0
    check(lake, topic, 60)


def test_damaged_log_stops_replay_of_its_table_only(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.others = [{**lake.declared, "table": "lake.other", "late": "add"}]
    fill(lake, topic, random.Random(11), 20)  # noqa: S311
    assert lake.land() == 0
    (lake.table / "_land" / "commits" / f"{1:020d}.json").write_bytes(b"{}")
    change(lake, topic)
    lake.others = [{**lake.declared, "table": "lake.other", "late": "add"}]
    capsys.readouterr()
    assert try_again(lake, "--execute") == 1
    said = capsys.readouterr()
    assert printed(said.err) == ["landing-log-damaged"]
    assert_printed(said.err, "landing-log-damaged", f"{1:020d}.json")
    assert said.out.count("rejected records are rows now") == 1
    assert "nothing has landed" not in said.out
    assert len(lake.rows("other_bad")) == len(should_be(lake, topic, 20)[2])


def test_concurrent_landing_commits_do_not_fail_replay(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(8)  # noqa: S311
    fill(lake, topic, chance, 20)
    assert lake.land() == 0
    change(lake, topic)
    commit, calls = TableLog.commit, count()

    def overtaken_twice(of_table: TableLog, wanted: Any, *staging: Staging) -> None:
        if wanted.kind == "replay" and next(calls) < 2:
            fill(lake, topic, chance, 2)
            assert lake.land() == 0
        commit(of_table, wanted, *staging)

    with monkeypatch.context() as patch:
        patch.setattr(TableLog, "commit", overtaken_twice)
        assert try_again(lake, "--execute") == 0
    assert [each["kind"] for each in lake.commits()] == ["land", "land", "land", "replay"]
    assert next(calls) == 3
    assert main(lake.command("verify")) == 0


def test_what_can_t_be_read_is_left_out(lake: LandingFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrow has no times after 2262; and who has no time stays bad where Kafka's time is a column."""
    forever = str(2**63 - 1)
    settings = {"message.timestamp.after.max.ms": forever, "message.timestamp.before.max.ms": forever}
    topic = clients.create(lake.broker, clients.unique("replayed"), 1, **settings)
    timed = [{"name": "at", "type": "timestamp", "from": "$timestamp"}]
    lake.declare(topic, columns=[*BEFORE, *timed], partition_by=None)
    good = json.dumps({"id": 1, "price": {"sum": 2}}).encode()
    for at in (10_413_792_000_000, 1_700_000_000_000, 2**60):
        clients.produce(lake.broker, topic, [{"value": good, "timestamp": at}])
        assert lake.land() == 0
    lake.declare(topic, columns=[*AFTER, *timed], partition_by=None)
    capsys.readouterr()
    assert try_again(lake, "--execute") == 3
    said = capsys.readouterr().out
    assert "1 of 2 rejected records are rows now; 1 remain rejected records." in said
    assert printed(said) == ["table-times-unreadable"]
    assert "-bad.orc: " in said
    assert lake.placed() == [(0, 1)]
    assert main(lake.command("verify")) == 0


def test_tombstones_that_are_kept_may_be_bad_ones(lake: LandingFolder, topic: str) -> None:
    lake.declare(topic, columns=[*BEFORE], tombstones="keep")
    values = [{"value": None, "key": b"\xff"}, {"value": b"{}", "key": b"\xff"}, {"value": None, "key": b"k"}]
    clients.produce(lake.broker, topic, values)
    assert lake.land() == 0
    assert lake.placed("flights_bad") == [(0, 0), (0, 1)]
    columns = [{**each, "from": "who"} if each["name"] == "sent" else each for each in BEFORE]
    lake.declare(topic, columns=columns, tombstones="keep")
    assert try_again(lake, "--execute") == 0
    assert lake.placed("flights_bad") == []
    assert [row["k_tombstone"] for row in in_order(lake.rows())] == [True, False, True]
    assert main(lake.command("verify")) == 0


def test_refusals(lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["replay"], "[option-required] aqueduct land replay needs --bad"),
        (["compact", "--bad"], "[option-conflict] aqueduct land replay needs --bad"),
        (["compact", "--execute"], "[option-conflict] --execute is for aqueduct land reset and replay"),
        (["replay", "--bad", "--until-caught-up"], "[option-conflict] aqueduct land replay does not accept"),
        (
            ["replay", "--bad", "--to-time=2023-11-14T22:13:20Z"],
            "[option-conflict] aqueduct land reset needs --to-offsets",
        ),
    ):
        assert main(lake.command(*arguments)) == 2
        assert said in capsys.readouterr().err
    assert try_again(lake) == 0
    assert "lake.flights: nothing has landed.\n" in capsys.readouterr().out
    clients.produce(lake.broker, topic, [b"{}"])
    assert lake.land() == 0
    capsys.readouterr()
    assert try_again(lake, "--execute") == 0
    assert "lake.flights: the table has no rejected records.\n" in capsys.readouterr().out
    lake.declare(topic, columns=[*AFTER, {"name": "h", "type": "string", "from": "$headers.h"}], late=LATE)
    assert try_again(lake) == 2
    assert printed(capsys.readouterr().err) == ["table-not-replayable"]
