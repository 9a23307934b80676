"""`aqueduct land` of a real cluster into a folder; judged by confluent-kafka, Python's json and the files."""

import hashlib
import json
import random
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest
from kit import clients, landings
from kit.estate_facts import judged
from kit.identifiers import assert_printed, printed
from kit.interruption import EITHER, Interruption, steps
from kit.landings import (
    COLUMNS,
    LandingFolder,
    fill,
    flights,
    in_order,
    messages,
    should_be,
)
from kit.staging import overdue
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.control_node.status.model import ObjectKind, ObjectState
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.client_config import ClientConfig, End
from aqueduct.land import declaration, run, table_log, task, verify
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import State
from aqueduct.land.order import LandOrder
from aqueduct.land.plan import plan
from aqueduct.land.records import RecordArrays
from aqueduct.land.run import Lander, SourceTopics
from aqueduct.land.table_log import TableLog
from aqueduct.store import backends
from aqueduct.store.backends import open_editable
from aqueduct.work.workers import Workers
from servers.process import free_ports

lake = landings.lake  # a fixture


@pytest.fixture
def topic(lake: LandingFolder) -> str:
    name = clients.create(lake.broker, clients.unique("flights"), 3)
    lake.declare(name)
    return name


def test_each_record_becomes_row_or_bad_record(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)  # noqa: S311
    fill(lake, topic, chance, 2_500, poison=0.02)
    assert lake.land() == 0
    rows, bad = should_be(lake, topic)
    assert len(rows) > 7_000
    assert len(bad) > 100
    assert in_order(lake.rows()) == in_order(rows)
    found = {(row["k_partition"], row["k_offset"]): row for row in lake.rows("flights_bad")}
    assert sorted(found) == bad
    for message in messages(lake, topic):
        row = found.get((message.partition(), message.offset()))
        if row:
            assert (row["value"], row["key"]) == (message.value(), message.key())
            assert row["error"]
    assert f"{len(rows):,} rows" in (said := capsys.readouterr().out)
    assert f"{len(bad)} rejected records" in said
    group = clients.committed(lake.broker, "aqueduct-land-lake.flights")
    mine = {at: offset for at, offset in group.items() if at[0] == topic}  # the broker is others' tests', too
    assert mine == {(topic, partition): 2_500 for partition in range(3)}
    assert main(lake.command("verify")) == 0


def test_what_came_since_and_nothing_twice(lake: LandingFolder, topic: str) -> None:
    chance = random.Random(2)  # noqa: S311
    fill(lake, topic, chance, 100)
    assert lake.land() == 0
    assert lake.land() == 0
    assert len(lake.commits()) == 1
    clients.grow(lake.broker, topic, 4)
    clients.produce(lake.broker, topic, flights(chance, 50), 3)
    fill(lake, topic, chance, 10)
    assert lake.land() == 0
    first, second = lake.commits()
    assert (
        first["positions"]["next"] == second["positions"]["before"] == {topic: {"0": 100, "1": 100, "2": 100}}
    )
    assert second["positions"]["next"] == {topic: {"0": 110, "1": 110, "2": 110, "3": 50}}
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])


def test_killed_at_any_moment(lake: LandingFolder, topic: str) -> None:
    chance = random.Random(3)  # noqa: S311
    kills = 0
    for _ in range(6):
        fill(lake, topic, chance, 400, poison=0.01)
        run = lake.start("--until-caught-up")
        time.sleep(chance.uniform(0.3, 1.6))
        run.send_signal(signal.SIGKILL)
        run.communicate()
        kills += run.returncode != 0
        placed = lake.placed() + lake.placed("flights_bad")
        assert max(Counter(placed).values(), default=1) == 1
    assert kills
    assert lake.land() == 0
    rows, bad = should_be(lake, topic)
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad
    assert overdue(str(path) for path in lake.table.rglob("*.*")) == []
    assert main(lake.command("verify")) == 0


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_landing_never_loses_or_doubles_records(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Each round brings five files: days, and rejected records."""
    monkeypatch.setattr(table_log, "AHEAD", 3)
    chance = random.Random(4)  # noqa: S311
    interrupted = 0
    for at in steps():
        fill(lake, topic, chance, 20, poison=0.2)
        with monkeypatch.context() as patch:
            interruption = Interruption(patch, backends._Directory, at, after=after)
            code = lake.land()
        assert code == (130 if interruption.calls >= at else 0)
        interrupted += code == 130
        placed = lake.placed() + lake.placed("flights_bad")
        assert len(placed) == len(set(placed))
        if code == 0:
            break
    assert interrupted > 6
    rows, bad = should_be(lake, topic)
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad
    for _ in range(2):
        fill(lake, topic, chance, 20)
        assert lake.land() == 0
    assert not (lake.table / "_land" / "staged").exists() or not any(
        (lake.table / "_land" / "staged").iterdir()
    )
    assert main(lake.command("verify")) == 0


def test_committed_but_unpublished_files_are_reported_and_verified(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(4), 100, poison=0.1)  # noqa: S311
    with monkeypatch.context() as patch:
        patch.setattr(TableLog, "publish", unreachable)
        assert lake.land() == 1
    said = capsys.readouterr()
    assert f"{len(should_be(lake, topic)[0])} rows in" in said.out
    assert said.err.endswith("aqueduct: The store is away.\n")
    assert lake.rows() == []
    monkeypatch.setattr(verify, "PATIENCE", 0)
    assert main(lake.command("verify")) == 3
    said = capsys.readouterr()
    assert "lake.flights: every landed offset exists in its files exactly once" in said.out
    assert "of commit 1 are not published yet" in said.out
    assert lake.land() == 0
    assert main(lake.command("verify")) == 0
    assert len(lake.commits()) == 1
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])


def unreachable(*_: object) -> None:
    raise Failed("The store is away.")


@pytest.mark.usefixtures("each_task_twice")
def test_tasks_that_spark_runs_again_leave_nothing(lake: LandingFolder, topic: str) -> None:
    for _ in range(2):
        fill(lake, topic, random.Random(12), 100, poison=0.1)  # noqa: S311
        assert lake.land() == 0
    rows, bad = should_be(lake, topic)
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad


def test_killed_compaction_is_finished_without_new_records(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        fill(lake, topic, random.Random(4), 100)  # noqa: S311
        assert lake.land() == 0
    placed = lake.placed()
    order = LandOrder(
        end=End("cluster", lake.broker.plaintext, ClientConfig()),
        location=(lake.folder / "lake").as_uri(),
        tables=declaration.parse([lake.declared], "lake.yml"),
    )
    with Workers("test") as workers:
        lander = Lander(order, workers)
        with monkeypatch.context() as patch:
            interruption = Interruption(patch, backends._Directory, 10, after=True)
            assert main(lake.command("compact")) == 130
        assert interruption.calls >= 10
        assert lake.commits()[-1]["kind"] == "compact"
        assert lake.placed() != placed
        [done] = lander.until_caught_up()
    assert (done.commits, done.failed) == (0, None)
    assert lake.placed() == placed


def test_verify_during_compaction_reports_committed_rows(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        fill(lake, topic, random.Random(4), 100, poison=0.1)  # noqa: S311
        assert lake.land() == 0
    there = verify._there

    def beside(end: End, table: LandTable, state: State) -> object:
        assert main(lake.command("compact")) == 0
        return there(end, table, state)

    monkeypatch.setattr(verify, "_there", beside)
    assert main(lake.command("verify")) == 0
    assert "every landed offset exists there exactly once; compared 600 rows" in capsys.readouterr().out
    assert main(lake.command("status")) == 0
    assert "; last compaction at 20" in capsys.readouterr().out
    code = main([*lake.command("status"), "--json"])
    printed = capsys.readouterr().out
    [table] = json.loads(printed)["tables"]
    declared = [{"table": table["table"], "topics": [topic]}]
    found = judged("lake-land-1", "land", printed, code, land_tables=declared)
    [landing] = [each for each in found.objects if each.declared.kind == ObjectKind.LANDING]
    assert landing.state == ObjectState.WELL
    assert landing.figures["lag"] == 0


def test_the_second_of_two_landers_ends(lake: LandingFolder, topic: str) -> None:
    chance = random.Random(5)  # noqa: S311
    ended: list[subprocess.Popen[str]] = []
    landers = [lake.start("--every", "1s") for _ in range(2)]
    try:

        def ended_one() -> bool:
            fill(lake, topic, chance, 50)
            return any(each.poll() is not None for each in landers)

        clients.wait_for("the end of one", ended_one)
        ended = [each for each in landers if each.poll() is not None]
    finally:
        for each in landers:
            each.kill()
    said = ended[0].communicate()[1]
    assert ended[0].returncode == 1
    assert printed(said) == ["landers-compete"]
    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])


def test_each_table_has_its_own_rounds(lake: LandingFolder, topic: str) -> None:
    lake.others = [{**lake.declared, "table": "lake.seldom", "every": "1h"}]
    chance = random.Random(30)  # noqa: S311
    fill(lake, topic, chance, 10)
    [port] = free_ports(1)
    run = lake.start("--every", "1s", "--metrics-port", str(port))
    try:
        clients.wait_for("the first round", lambda: len(lake.placed("seldom")) == len(lake.placed()) == 30)
        fill(lake, topic, chance, 10)
        clients.wait_for("a round of one table", lambda: len(lake.placed()) == 60)
        assert len(lake.placed("seldom")) == 30
        # What it serves for Prometheus is what is in the tables; of the other one as its last round left it.
        told = clients.wait_for("figures", lambda: figures(port, rows=60))
        tables = {name: f'{{table="lake.{name}"}}' for name in ("flights", "seldom")}
        assert told[f"aqueduct_land_rows_total{tables['seldom']}"] == 30
        # While a busy machine answers so late that a server counts as silent, no lag is exported.
        lags = [f"aqueduct_land_lag{each}" for each in tables.values()]
        clients.wait_for(
            "no lag", lambda: [(figures(port, rows=60) or {}).get(name) for name in lags] == [0, 0]
        )
    finally:
        run.kill()
        run.communicate()


def test_failed_round_is_retried_before_table_interval_ends(lake: LandingFolder, topic: str) -> None:
    lake.others = [{**lake.declared, "table": "lake.seldom", "every": "1h"}]
    fill(lake, topic, random.Random(31), 10)  # noqa: S311
    assert lake.land() == 0
    [commit] = (lake.folder / "lake/lake/seldom/_land/commits").glob("*.json")
    kept = commit.read_bytes()
    commit.write_bytes(b"{")
    fill(lake, topic, random.Random(32), 10)  # noqa: S311
    run = lake.start("--every", "1s")
    try:
        clients.wait_for("a round of the other table", lambda: len(lake.placed()) == 60)
        assert len(lake.placed("seldom")) == 30
        commit.write_bytes(kept)
        clients.wait_for("a round of this one", lambda: len(lake.placed("seldom")) == 60)
    finally:
        run.kill()
        run.communicate()


def figures(port: int, rows: int) -> dict[str, float] | None:
    """Return what is served, once so many rows are told of some table."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }
    landed = [value for name, value in found.items() if name.startswith("aqueduct_land_rows_total{")]
    return found if rows in landed else None


class BrokenAt:
    """Records, of which one piece can't be read."""

    def __init__(self, at: int) -> None:
        self.pieces = 0
        self._at = at

    def of(self, batches: Sequence[Batch], payloads: Sequence[bytes]) -> RecordArrays:
        self.pieces += 1
        if self.pieces == self._at:
            raise Damaged("It is damaged.")
        return RecordArrays.of(batches, payloads)


def test_unreadable_batch_does_not_affect_other_records(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither other partitions, nor what was before it in the same answer, which must not come twice."""
    chance = random.Random(15)  # noqa: S311
    monkeypatch.setattr(task, "RECORDS", 100)
    monkeypatch.setattr(run, "TASK_OFFSETS", (100, 100))  # so that some tasks are in vain
    for partition in range(3):
        settings = {"batch.num.messages": 50}
        clients.produce(lake.broker, topic, flights(chance, 500), partition, **settings)
    for at in (1, 3, 5):
        with monkeypatch.context() as patch:
            patch.setattr(task, "RecordArrays", BrokenAt(at))
            assert lake.land() == 3
        assert "It is damaged" in capsys.readouterr().out
        assert len(lake.placed()) == len(set(lake.placed()))
        clients.produce(lake.broker, topic, flights(chance, 500), 2, **settings)
        assert not [path for path in (lake.table / "_land/staged").rglob("*") if path.is_file()]
    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])


def test_a_topic_without_records_has_no_commit(lake: LandingFolder, topic: str) -> None:
    assert lake.land() == 0
    assert lake.commits() == []


def test_only_what_was_committed(lake: LandingFolder, topic: str) -> None:
    good = {"value": b'{"id": 1}', "key": b"k"}
    clients.transaction(lake.broker, topic, [good], "commit")
    clients.transaction(lake.broker, topic, [good], "abort")
    opened = clients.transaction(lake.broker, topic, [good], "leave")
    clients.produce(lake.broker, topic, [good])
    assert lake.land() == 0
    assert lake.placed() == [(0, 0)]
    opened.commit_transaction()
    clients.settle(lake.broker, topic, 0)
    assert lake.land() == 0
    assert lake.placed() == [(0, 0), (0, 4), (0, 5)]
    assert main(lake.command("verify")) == 0


@pytest.mark.parametrize("kept", [False, True])
def test_tombstones_are_as_declared(lake: LandingFolder, topic: str, kept: bool) -> None:
    lake.declare(topic, tombstones="keep" if kept else "drop")
    values = [
        {"value": b'{"id": 1}', "key": b"a"},
        {"value": None, "key": b"a"},
        {"value": b"{}", "key": b"b"},
    ]
    clients.produce(lake.broker, topic, values)
    assert lake.land() == 0
    assert [row["k_offset"] for row in lake.rows()] == ([0, 1, 2] if kept else [0, 2])
    if kept:
        assert [row["k_tombstone"] for row in lake.rows()] == [False, True, False]
    assert main(lake.command("verify")) == 0


def test_what_retention_deleted_is_a_gap(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(6)  # noqa: S311
    fill(lake, topic, chance, 10)
    assert lake.land() == 0
    fill(lake, topic, chance, 20)
    clients.delete_records(lake.broker, topic, 15)
    report = lake.folder / "report.json"
    assert lake.land("--report", str(report)) == 3
    [told] = json.loads(report.read_text())["tables"]
    assert told["gaps"] == [{"topic": topic, "partition": 0, "from": 10, "to": 15}]
    assert f"{topic}-0, offsets 10 to 14" in capsys.readouterr().out
    assert [offset for partition, offset in lake.placed() if partition == 0] == [*range(10), *range(15, 30)]
    assert lake.land() == 0
    for verb in ("status", "verify"):  # for whoever missed the report, or was killed before it
        capsys.readouterr()
        assert main(lake.command(verb, "--report", str(report))) == 0
        assert (
            f"Deleted in Kafka before the landing read it: {topic}-0, 5 offsets: 10 to 14"
        ) in capsys.readouterr().out
        [told] = json.loads(report.read_text())["tables"]
        assert told["deleted"] == {f"{topic}-0": [[10, 14]]}


def test_recreated_topic_is_not_landed(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(7), 10)  # noqa: S311
    assert lake.land() == 0
    clients.recreate(lake.broker, topic, 3)
    fill(lake, topic, random.Random(7), 20)  # noqa: S311
    for command in (lake.command("--until-caught-up"), lake.command("status")):
        capsys.readouterr()
        assert main(command) == 3
        assert printed(capsys.readouterr().out) == ["landed-topic-recreated"]
    assert len(lake.placed()) == 30
    clients.delete(lake.broker, topic)
    for command in (lake.command("--until-caught-up"), lake.command("status")):
        assert main(command) == 3
        assert printed(capsys.readouterr().out) == ["landed-topic-missing"]
    lake.declare(clients.create(lake.broker, clients.unique("flights"), 1))
    for command in (lake.command("--until-caught-up"), lake.command("status")):
        assert main(command) == 0
        assert printed(capsys.readouterr().out) == []


def test_columns_are_added_and_nothing_else(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(8), 10)  # noqa: S311
    assert lake.land() == 0
    lake.declare(topic, columns=[*COLUMNS, {"name": "x", "type": "int", "from": "flight.x"}])
    clients.produce(lake.broker, topic, [b'{"flight": {"x": 7}}'])
    assert lake.land() == 0
    assert [commit["schema"] for commit in lake.commits()] == [1, 2]
    assert [row["x"] for row in lake.rows() if "x" in row] == [7]
    lake.declare(topic, columns=[{"name": "id", "type": "string"}, *COLUMNS[1:]])
    capsys.readouterr()
    assert lake.land() == 2
    said = capsys.readouterr().err
    assert printed(said) == ["table-change-unsupported"]
    assert "id is string instead of bigint" in said
    assert "column x" in said
    assert len(lake.commits()) == 2


def test_column_without_values_is_reported_once(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a run that ends, and once by one that goes on; a tombstone is no record that lacks it."""
    wrong = {"name": "x", "type": "int", "from": "flight.y"}
    lake.declare(topic, columns=[*COLUMNS, wrong], tombstones="keep")
    chance = random.Random(10)  # noqa: S311
    fill(lake, topic, chance, 20)
    clients.produce(lake.broker, topic, [{"value": None, "key": b"k"}])
    report = lake.folder / "report.json"
    assert lake.land(f"--report={report}") == 0
    said = "  Warning: column x of lake.flights: none of 60 records contains a value for flight.y.\n"
    assert said in capsys.readouterr().out
    [told] = json.loads(report.read_text())["tables"]
    assert told["unseen"] == [{"column": "x", "from": "flight.y", "records": 60}]
    assert lake.land(f"--report={report}") == 0
    assert json.loads(report.read_text())["tables"][0]["unseen"] == []
    assert "Warning" not in capsys.readouterr().out

    lander = lake.start("--every", "1s")
    try:
        for rows in (61 + 30, 61 + 60):
            fill(lake, topic, chance, 10)
            clients.wait_for("rows", lambda rows=rows: len(lake.placed()) == rows)
    finally:
        lander.terminate()
        said = lander.communicate()[0]
    assert said.count("Warning: column x of lake.flights: none of ") == 1


def test_verify_notices_what_is_wrong(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(topic, partition_by=None)
    fill(lake, topic, random.Random(9), 100)  # noqa: S311
    assert lake.land() == 0
    fill(lake, topic, random.Random(9), 100)  # noqa: S311
    assert lake.land() == 0
    one, other = sorted(lake.table.glob("*.orc"))
    whole = one.read_bytes()
    one.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    assert main(lake.command("verify")) == 3
    assert "its digest differs" in (said := capsys.readouterr().out)
    assert "Missing" in said
    one.unlink()
    assert main(lake.command("verify")) == 3
    assert "has no object" in capsys.readouterr().out
    one.write_bytes(whole)
    assert main(lake.command("verify")) == 0
    # Who lists the folder reads these rows twice.
    for stray in ("flights/copied.orc", "flights_bad/day=2024-01-01/copied.orc"):
        at = lake.table.parent / stray
        at.parent.mkdir(exist_ok=True, parents=True)
        at.write_bytes(whole)
        capsys.readouterr()
        assert main(lake.command("verify")) == 3
        assert f"Unknown file: lake/{stray}: " in capsys.readouterr().out
        at.rename(at.with_name("_copied.orc"))
    assert main(lake.command("verify")) == 0
    # A log that says of records that they landed again, and of others that they didn't.
    newest = sorted((lake.table / "_land" / "commits").glob("*.json"))[-1]
    commit = json.loads(newest.read_text())
    [added] = commit["added"]
    other.write_bytes(whole)
    [first] = lake.commits()[0]["added"]
    commit["added"] = [{**first, "path": added["path"]}]
    newest.write_text(json.dumps(commit))
    capsys.readouterr()
    assert main(lake.command("verify")) == 3
    said = capsys.readouterr().out
    assert f"Twice or more: {topic}-0, 100 offsets: 0 to 99" in said
    assert f"Missing: {topic}-0, 100 offsets: 100 to 199" in said


def test_verify_reports_files_that_java_misreads(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier version wrote files as pyarrow does, which reads them. A reset lands the records again."""
    lake.declare(topic, columns=[{"name": "at", "type": "timestamp"}], partition_by=None)
    times = ("1969-12-31T23:59:57.5", "2020-01-01T00:00:00")
    clients.produce(lake.broker, topic, [json.dumps({"at": time}) for time in times])
    assert lake.land() == 0
    assert main(lake.command("verify")) == 0
    rows = lake.rows()
    [path] = lake.table.glob("*.orc")
    orc.write_table(orc.read_table(path), path, compression="zstd")
    [newest] = (lake.table / "_land" / "commits").glob("*.json")
    commit = json.loads(newest.read_text())
    [added] = commit["added"]
    content = path.read_bytes()
    added |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    newest.write_text(json.dumps(commit))
    capsys.readouterr()
    report = lake.folder / "report.json"
    assert main(lake.command("verify", f"--report={report}")) == 3
    assert "[table-file-misread]" in capsys.readouterr().out
    [table] = json.loads(report.read_text())["tables"]
    assert [damaged["id"] for damaged in table["damaged"]] == ["table-file-misread"]
    assert table["damaged"][0]["path"].endswith(path.name)
    assert (table["right"], table["missing"], table["doubled"]) == (False, {}, {})
    assert main(lake.command("reset", f"--to-offsets={topic}:0:0", "--execute")) == 0
    assert lake.land() == 0
    assert main(lake.command("verify")) == 0
    assert lake.rows() == rows


def test_verify_accepts_records_removed_by_compaction(lake: LandingFolder) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    topic = clients.create(lake.broker, clients.unique("compacted"), 1, **settings)
    lake.declare(topic)
    clients.produce(lake.broker, topic, ({"key": b"k", "value": b'{"id": %d}' % n} for n in range(20)))
    assert lake.land() == 0

    def compacted() -> bool:
        time.sleep(0.2)
        clients.produce(lake.broker, topic, [{"key": b"other", "value": b"{}"}])
        return not any(each.offset() == 5 for each in clients.read(lake.broker, topic))

    clients.wait_for("compaction", compacted)
    assert main(lake.command("verify")) == 0
    assert lake.land() == 0
    assert main(lake.command("verify")) == 0


def test_two_landings_do_not_share_a_table(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(13), 5)  # noqa: S311
    assert lake.land() == 0
    for changes in ({"table": "lake.other", "poison": "lake.flights_bad"}, {"table": "lake.flights_bad"}):
        lake.declare(topic, **changes)
        assert lake.land() == 2
        assert "table-folder-taken" in printed(capsys.readouterr().err)


def test_damaged_log_stops_landing_of_its_table_only(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(14), 5)  # noqa: S311
    assert lake.land() == 0
    (lake.table / "_land" / "commits" / f"{1:020d}.json").write_bytes(b"{}")
    lake.others = [{**lake.declared, "table": "lake.other"}]
    assert lake.land() == 1
    said = capsys.readouterr()
    assert printed(said.err) == ["landing-log-damaged"]
    assert_printed(said.err, "landing-log-damaged", f"{1:020d}.json")
    assert "lake.other: 15 rows" in said.out
    assert len(lake.rows("other")) == 15


def test_verify_reports_table_where_nothing_landed(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(lake.command("verify")) == 3
    assert capsys.readouterr().out == "lake.flights: nothing has landed.\n"


def test_status_tells_how_far_it_is(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(lake.command("status")) == 0
    assert "nothing has landed" in capsys.readouterr().out
    fill(lake, topic, random.Random(10), 10)  # noqa: S311
    clients.produce(lake.broker, topic, [b"poison"])
    assert lake.land() == 0
    fill(lake, topic, random.Random(10), 5)  # noqa: S311
    capsys.readouterr()
    assert main(lake.command("status")) == 0
    said = capsys.readouterr().out
    assert f"{topic}-0: position 11; lag 5" in said
    assert "30 rows" in said
    assert "1 rejected record;" in said


def test_a_pattern_takes_topics_that_come_later(
    lake: LandingFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = clients.unique("many")
    lake.declare(f"{prefix}-[a-z]+")
    assert lake.land() == 3
    assert f"topics {prefix}-[a-z]+: no whole topic name" in capsys.readouterr().out
    for name in ("a", "b"):
        clients.create(lake.broker, f"{prefix}-{name}", 1)
        clients.produce(lake.broker, f"{prefix}-{name}", [b'{"id": 1}'])
        assert lake.land() == 0
    clients.create(lake.broker, f"{prefix}-0", 1)
    clients.produce(lake.broker, f"{prefix}-0", [b'{"id": 1}'])
    assert lake.land() == 0
    assert sorted(row["k_topic"] for row in lake.rows()) == [f"{prefix}-a", f"{prefix}-b"]


def test_refusals(lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    lake.declare("no-such-topic")
    assert lake.land() == 2
    assert_printed(capsys.readouterr().err, "topic-unknown", "no-such-topic")
    lake.declare(topic)
    lake.table.mkdir(parents=True)
    (lake.table / "of-others.orc").write_bytes(b"x")
    assert lake.land() == 2
    assert "table-folder-taken" in printed(capsys.readouterr().err)
    assert lake.commits() == []


def test_landing_log_matches_sizes_and_rows_of_files(lake: LandingFolder, topic: str) -> None:
    """By the contract: names, digests and counts of files, bad ones with their table."""
    fill(lake, topic, random.Random(11), 50, poison=0.1)  # noqa: S311
    assert lake.land() == 0
    [commit] = lake.commits()
    assert (commit["kind"], commit["number"], commit["removed"]) == ("land", 1, [])
    rows: Counter[str | None] = Counter()
    for file in commit["added"]:
        folder = lake.table if file["table"] is None else lake.table.parent / "flights_bad"
        data = (folder / file["path"]).read_bytes()
        assert len(data) == file["bytes"]
        assert orc.ORCFile(folder / file["path"]).nrows == file["rows"]
        rows[file["table"]] += file["rows"]
    assert rows["lake.flights_bad"] == commit["bad"]
    assert rows.total() == 150
    state = TableLog(open_editable((lake.folder / "lake").as_uri()), "lake.flights").read()
    assert len(state.live) + len(state.bad) == len(commit["added"])


def test_a_reset_replaces_what_lands_again(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(21)  # noqa: S311
    for _ in range(2):
        fill(lake, topic, chance, 200, poison=0.1)
        assert lake.land() == 0
    rows, bad = should_be(lake, topic)
    to = f"--to-offsets={topic}:0:150,{topic}:1:0,{topic}:2:400"
    kept = {0: 150, 1: 0, 2: 400}
    stay = [row for row in rows if row["k_offset"] < kept[row["k_partition"]]]
    capsys.readouterr()
    assert main(lake.command("reset", to)) == 0
    said = capsys.readouterr().out
    assert f"{len(rows) - len(stay)} rows and " in said
    assert f"{topic}-0: the position would be set to 150 (now: 400)\n" in said
    assert f"{topic}-2" not in said
    assert said.endswith("Nothing was changed. To change the table, pass --execute.\n")
    assert len(lake.commits()) == 2
    assert in_order(lake.rows()) == in_order(rows)

    report = lake.folder / "report.json"
    assert main(lake.command("reset", to, "--execute", f"--report={report}")) == 0
    assert in_order(lake.rows()) == in_order(stay)
    left = [(partition, offset) for partition, offset in bad if offset < kept[partition]]
    assert lake.placed("flights_bad") == left
    [told] = json.loads(report.read_text())["tables"]
    assert (told["rows"], told["bad"]) == (len(rows) - len(stay), len(bad) - len(left))
    commit = lake.commits()[-1]
    assert (commit["kind"], commit["positions"]["next"]) == ("reset", {topic: {"0": 150, "1": 0, "2": 400}})
    assert main(lake.command("verify")) == 0

    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad
    assert main(lake.command("verify")) == 0
    # Once more, of files that a reset and a compaction wrote.
    assert main(lake.command("compact")) == 0
    assert main(lake.command("reset", f"--to-offsets={topic}:0:1", "--execute")) == 0
    assert [offset for partition, offset in lake.placed() + lake.placed("flights_bad") if not partition] == [
        0
    ]
    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(rows)
    assert lake.placed("flights_bad") == bad
    assert main(lake.command("verify")) == 0


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_reset_never_loses_or_doubles_records(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    fill(lake, topic, random.Random(22), 60, poison=0.2)  # noqa: S311
    assert lake.land() == 0
    rows, bad = should_be(lake, topic)
    interrupted = 0
    for at in steps():
        with monkeypatch.context() as patch:
            interruption = Interruption(patch, backends._Directory, at, after=after)
            code = main(lake.command("reset", f"--to-offsets={topic}:0:30,{topic}:1:10", "--execute"))
        placed = lake.placed() + lake.placed("flights_bad")
        assert len(placed) == len(set(placed))
        assert code == (130 if interruption.calls >= at else 0)
        interrupted += code == 130
        assert lake.land() == 0
        assert in_order(lake.rows()) == in_order(rows)
        assert lake.placed("flights_bad") == bad
        if code == 0:
            break
    assert interrupted > 4
    assert main(lake.command("verify")) == 0


def test_a_reset_to_a_time_and_ahead(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records' times are one millisecond apart, in each partition."""
    fill(lake, topic, random.Random(23), 100)  # noqa: S311
    assert lake.land() == 0
    rows = in_order(lake.rows())
    when = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=40)
    assert main(lake.command("reset", f"--to-time={when.isoformat()}", "--execute")) == 0
    assert lake.placed() == [(partition, offset) for partition in range(3) for offset in range(40)]
    assert lake.land() == 0
    assert in_order(lake.rows()) == rows
    fill(lake, topic, random.Random(24), 10)  # noqa: S311
    capsys.readouterr()
    assert main(lake.command("reset", f"--to-offsets={topic}:0:105", "--execute")) == 0
    assert "offsets 100 to 104 will not land" in capsys.readouterr().out
    assert lake.land() == 0
    assert [offset for partition, offset in lake.placed() if not partition][95:] == [
        *range(95, 100),
        *range(105, 110),
    ]
    capsys.readouterr()
    assert main(lake.command("verify")) == 0
    assert f"Skipped by a reset: {topic}-0, 5 offsets: 100 to 104" in capsys.readouterr().out
    # Back over what was left out: now it lands.
    assert main(lake.command("reset", f"--to-offsets={topic}:0:98", "--execute")) == 0
    assert lake.land() == 0
    assert [offset for partition, offset in lake.placed() if not partition] == [*range(110)]
    assert main(lake.command("verify")) == 0
    assert "Skipped by a reset" not in capsys.readouterr().out


def test_recreated_topic_lands_after_reset(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(25), 50)  # noqa: S311
    assert lake.land() == 0
    clients.recreate(lake.broker, topic, 3)
    fill(lake, topic, random.Random(26), 20)  # noqa: S311
    assert lake.land() == 3
    capsys.readouterr()
    assert main(lake.command("reset", f"--to-offsets={topic}:0:0", "--execute")) == 2
    assert printed(said := capsys.readouterr().err) == ["landed-topic-recreated"]
    assert f"{topic}-1" in said
    every = ",".join(f"{topic}:{partition}:0" for partition in range(3))
    assert main(lake.command("reset", f"--to-offsets={every}", "--execute")) == 0
    assert lake.rows() == []
    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])
    assert main(lake.command("verify")) == 0


def test_of_the_topic_of_before_nothing_stays(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(lake, topic, random.Random(31), 50)  # noqa: S311
    assert lake.land() == 0
    clients.recreate(lake.broker, topic, 2)
    for partition in range(2):
        clients.produce(lake.broker, topic, flights(random.Random(32), 60), partition)  # noqa: S311
    capsys.readouterr()
    assert main(lake.command("reset", "--to-time=2023-11-14T22:13:20Z", "--execute")) == 3
    assert printed(capsys.readouterr().out) == ["landed-topic-recreated"]
    assert len(lake.rows()) == 150
    assert main(lake.command("reset", f"--to-offsets={topic}:0:37,{topic}:1:0", "--execute")) == 0
    assert f"{topic}-0: the position was set to 37 (before: 50); offsets 0 to 36 will not land" in (
        capsys.readouterr().out
    )
    assert lake.rows() == []
    assert lake.land() == 0
    assert lake.placed() == [
        *((0, offset) for offset in range(37, 60)),
        *((1, offset) for offset in range(60)),
    ]
    capsys.readouterr()
    assert main(lake.command("verify")) == 0
    assert f"Skipped by a reset: {topic}-0, 37 offsets: 0 to 36" in capsys.readouterr().out


def test_a_compacted_topic_is_not_set_back(lake: LandingFolder, capsys: pytest.CaptureFixture[str]) -> None:
    topic = clients.create(lake.broker, clients.unique("flights"), 3, cleanup_policy="compact")
    lake.declare(topic)
    fill(lake, topic, random.Random(33), 20)  # noqa: S311
    assert lake.land() == 0
    capsys.readouterr()
    assert main(lake.command("reset", f"--to-offsets={topic}:0:3", "--execute")) == 2
    assert "landed-topic-compacted" in printed(capsys.readouterr().err)
    assert main(lake.command("reset", "--to-time=2023-11-14T22:13:20Z", "--execute")) == 3
    assert len(lake.placed()) == 60


def test_a_new_table_begins_where_a_reset_says(lake: LandingFolder, topic: str) -> None:
    fill(lake, topic, random.Random(27), 20)  # noqa: S311
    clients.delete_records(lake.broker, topic, 5)
    assert main(lake.command("reset", f"--to-offsets={topic}:1:15", "--execute")) == 0
    assert lake.land() == 0
    assert [offset for partition, offset in lake.placed() if partition == 1] == [*range(15, 20)]
    assert [offset for partition, offset in lake.placed() if partition == 0] == [*range(5, 20)]
    assert [offset for partition, offset in lake.placed() if partition == 2] == [*range(20)]
    assert main(lake.command("verify")) == 0


@pytest.mark.parametrize(
    ("to", "id_", "fact"),
    [
        ("{topic}:0:21", "reset-offset-unavailable", "{topic}-0 has the offsets 5 to 20, but not 21"),
        ("{topic}:0:4", "reset-offset-unavailable", "{topic}-0 has the offsets 5 to 20, but not 4"),
        ("{topic}:3:0", "partition-unknown", "{topic}-3"),
        ("other:0:0", "topic-unknown", " other"),
        ("{topic}:0", "usage-error", "'{topic}:0'"),
        ("{topic}:0:9,{topic}:0:8", "usage-error", "{topic}-0"),
    ],
)
def test_a_reset_that_can_t_be_is_refused(
    lake: LandingFolder, topic: str, capsys: pytest.CaptureFixture[str], to: str, id_: str, fact: str
) -> None:
    fill(lake, topic, random.Random(28), 20)  # noqa: S311
    clients.delete_records(lake.broker, topic, 5)
    assert lake.land() == 0
    assert refused(lake.command("reset", f"--to-offsets={to.format(topic=topic)}", "--execute")) == 2
    said = capsys.readouterr().err
    assert f"[{id_}] " in said
    assert fact.format(topic=topic) in said
    assert len(lake.commits()) == 1


def refused(argv: list[str]) -> int:
    try:
        return main(argv)
    except SystemExit as ended:
        return int(str(ended.code))


def test_what_was_committed_before_a_failure_is_told(
    lake: LandingFolder, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gaps above all: the positions have passed them, so no later landing tells."""
    chance = random.Random(31)  # noqa: S311
    fill(lake, topic, chance, 10)
    assert lake.land() == 0
    fill(lake, topic, chance, 30)
    clients.delete_records(lake.broker, topic, 15)
    end = End("cluster", lake.broker.plaintext, ClientConfig())
    tables = declaration.parse([lake.declared], "declarations.yml")
    survey = Lander._survey
    surveys = count()

    def away(self: Lander, tables: Sequence[LandTable]) -> SourceTopics:
        if next(surveys) == 1:
            raise Failed("The broker is away.")
        return survey(self, tables)

    monkeypatch.setattr(Lander, "_survey", away)
    monkeypatch.setattr("aqueduct.land.run.plan", partial(plan, at_most=30))
    with Workers("land") as workers:
        [done] = Lander(
            LandOrder(end=end, location=(lake.folder / "lake").as_uri(), tables=tables), workers
        ).until_caught_up()
    assert (done.commits, str(done.failed)) == (1, "The broker is away.")
    assert [(gap.start, gap.stop) for gap in done.gaps] == [(10, 15)]
    monkeypatch.undo()
    assert lake.land() == 0


def test_a_lander_ends_when_its_table_was_reset(lake: LandingFolder, topic: str) -> None:
    fill(lake, topic, random.Random(29), 20)  # noqa: S311
    end = End("cluster", lake.broker.plaintext, ClientConfig())
    order = LandOrder(
        end=end,
        location=(lake.folder / "lake").as_uri(),
        tables=declaration.parse([lake.declared], "declarations.yml"),
    )
    with Workers("land") as workers:
        lander = Lander(order, workers)
        assert not lander.until_caught_up()[0].failed
        assert main(lake.command("reset", f"--to-offsets={topic}:0:3", "--execute")) == 0
        assert (failed := lander.until_caught_up()[0].failed)
        assert failed.id == "landers-compete"
    assert lake.land() == 0
    assert in_order(lake.rows()) == in_order(should_be(lake, topic)[0])
