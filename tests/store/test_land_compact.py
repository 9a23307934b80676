"""Small files of a table become larger ones, and no reader sees an offset twice."""

import io
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kit.identifiers import assert_printed, printed, raises
from kit.interruption import EITHER, Interruption, steps
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client_config import ClientConfig, End
from aqueduct.land import compact, declaration, files, log, orc_times, rows, table_log
from aqueduct.land.files import RowBuffer, orc_writer
from aqueduct.land.log import AddedFile, Commit, Staging, Step
from aqueduct.land.order import LandOrder
from aqueduct.land.records import RecordArrays
from aqueduct.land.rows import RowReader
from aqueduct.land.table_log import Lost, TableLog, commit_number, stage
from aqueduct.store import backends
from aqueduct.store.backends import open_editable
from aqueduct.store.objects import EditableObjects
from aqueduct.work.workers import Workers
from servers.object_store import Gateway

DECLARED = {
    "table": "lake.numbers",
    "topics": ["t"],
    "columns": [{"name": "n", "type": "int"}, {"name": "at", "type": "timestamp", "unit": "s"}],
    "partition_by": [{"name": "day", "of": "at", "every": "day"}],
}
MORE = {**DECLARED, "columns": [*DECLARED["columns"], {"name": "s", "type": "string"}]}  # type: ignore[misc]
MORE_FIELDS = {"s": "x"}
Groups = list[tuple[AddedFile, ...]]
DAY = 86_400
FAR = 253_402_300_799


class StoredTable:
    """A table in a store, of which each commit brings a file for each of two days."""

    def __init__(self, location: str) -> None:
        self.order = LandOrder(end=End("cluster", "nowhere:1", ClientConfig()), location=location, tables=())
        self.objects = open_editable(location)
        self.log = TableLog(self.objects, "lake.numbers")
        self.offset = 0
        self.declare(DECLARED)

    def declare(self, declared: dict[str, Any]) -> None:
        self.order = LandOrder(
            end=self.order.end, location=self.order.location, tables=declaration.parse([declared], "lake.yml")
        )

    def commit(
        self,
        rows: int = 4,
        *,
        far: bool = False,
        extra: Mapping[str, object] = MORE_FIELDS,
        staging: Staging | None = None,
    ) -> Commit:
        """Stage rows, and return the commit that lands them; `far`: of the year 9999.

        `staging`: elsewhere than below the number of the commit.
        """
        [table] = self.order.tables
        state = self.log.follow()
        numbers = range(self.offset, self.offset + rows)
        values = (json.dumps({"n": n, "at": FAR if far else n % 2 * DAY, **extra}).encode() for n in numbers)
        batch = build(
            Records.listed(Record(0, n, body(None, value)) for n, value in zip(numbers, values, strict=True))
        )
        buffer = RowBuffer(table)
        buffer.add(RowReader(table).read(TopicPartition("t", 0), RecordArrays.of(list(walk(batch)))))
        number = state.number + 1
        objects = open_editable(self.order.location)
        added = [
            stage(objects, table, staging or Staging(number), f"{number:020d}-{n}", file)
            for n, file in enumerate(buffer.files())
        ]
        step = Step(state.positions, {"t": {"0": self.offset + rows}})
        return Commit(
            number=number,
            kind=log.LAND,
            positions=step,
            added=tuple(added),
            removed=(),
            bad=0,
            schema=1,
            created="2024-01-01T00:00:00+00:00",
            topic_ids={},
        )

    def land(self, rows: int = 4, *, far: bool = False, extra: Mapping[str, object] = MORE_FIELDS) -> None:
        commit = self.commit(rows, far=far, extra=extra)
        self.log.commit(commit)
        self.log.publish()
        self.offset += rows

    def compact(self) -> compact.CompactedTable:
        with Workers("test") as workers:
            [done] = compact.compact(self.order, workers)
        return done

    def again(self) -> "StoredTable":
        """Return another one's view of it."""
        other = StoredTable(self.order.location)
        other.offset = self.offset
        return other

    def paths(self, folder: str = "") -> list[str]:
        """Return files below the table's folder, by their paths there."""
        below = f"lake/numbers/{folder}"
        return [entry.path.removeprefix("lake/numbers/") for entry in self.objects.list(below)]

    def files(self) -> list[str]:
        """Return those that a plain reader sees."""
        return [path for path in self.paths() if not path.startswith("_")]

    def read(self, path: str) -> pa.Table:
        return orc.ORCFile(io.BytesIO(self.objects.read(f"lake/numbers/{path}"))).read()

    def numbers(self) -> list[int]:
        """Return what a plain reader sees."""
        return sorted(n for path in self.files() for n in self.read(path).column("n").to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the table's folder."""
    return tmp_path / "store/lake/numbers"


@pytest.fixture
def lake(folder: Path) -> StoredTable:
    return StoredTable(folder.parents[1].as_uri())


@pytest.fixture
def in_s3(s3: Gateway) -> StoredTable:
    return StoredTable(f"s3://store/{secrets.token_hex(4)}")


def test_a_start_needs_no_commit_before_a_checkpoint(
    lake: StoredTable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "CHECKPOINT", 3)
    for _ in range(7):
        lake.land()
    for number in range(1, 6):
        (folder / f"_land/commits/{number:020d}.json").unlink()
    again = lake.again()
    assert again.log.follow() == lake.log.state
    assert again.log.newest == lake.log.newest
    newest, renamed = (folder / f"_land/checkpoints/{number:020d}.json" for number in (6, 7))
    newest.rename(renamed)
    with raises(Failed, "landing-checkpoint-damaged", renamed.name, "commit 6"):
        lake.again().log.read()
    newest.write_bytes(renamed.read_bytes()[:-1])
    renamed.unlink()
    with raises(Failed, "landing-checkpoint-damaged", newest.name):
        lake.again().log.read()


def test_checkpoint_is_written_by_process_that_finishes_commit(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "CHECKPOINT", 2)
    lake.land()
    lake.log.commit(lake.commit())
    assert lake.paths("_land/checkpoints") == []
    lake.again().log.follow()
    assert len(lake.paths("_land/checkpoints")) == 1
    lake.log.publish()  # after all, by who committed it


def test_small_files_of_a_folder_become_one(lake: StoredTable) -> None:
    for _ in range(5):
        lake.land()
    lake.declare(MORE)
    lake.land()
    before = lake.numbers()
    done = lake.compact()
    assert (done.before, done.after, done.commits) == (12, 2, 1)
    assert [path.partition("/")[0] for path in lake.files()] == ["day=1970-01-01", "day=1970-01-02"]
    assert lake.numbers() == before == list(range(24))
    first = lake.read(lake.files()[0])
    assert first.column("k_offset").to_pylist() == list(range(0, 24, 2))
    assert first.column("s").to_pylist() == [None] * 10 + ["x"] * 2
    assert {file.path for file in lake.log.follow().live.values()} == set(lake.files())
    assert (lake.log.state.compacted or "") > "2024"
    assert lake.compact().commits == 0


def test_files_that_are_large_enough_stay(lake: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        lake.land()
    size = max(file.bytes for file in lake.log.state.live.values())
    live = lake.log.state.live.values()
    assert compact.groups(live, size) == []
    assert [len(files) for files in compact.groups(live, 2 * size)] == [2, 2]
    assert [len(files) for files in compact.groups(live, 10 * size)] == [3, 3]


def test_removed_files_are_kept_for_running_readers(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.land()
    lake.land()
    assert lake.compact().expired == 0
    assert len(lake.paths("_land/removed")) == 4
    monkeypatch.setattr(compact, "KEPT", timedelta(0))
    assert lake.compact().expired == 4
    assert lake.compact().expired == 0
    assert lake.numbers() == list(range(8))
    # A process that begins now, when files that the newest commit removed have gone.
    assert TableLog(lake.objects, "lake.numbers").follow().number == lake.log.follow().number


def test_compaction_leaves_file_that_arrow_cannot_read(lake: StoredTable) -> None:
    lake.declare({**DECLARED, "partition_by": None})
    for _ in range(3):
        lake.land()
    lake.land(far=True)
    done = lake.compact()
    assert (done.before, done.after, done.left) == (3, 1, 1)
    assert len(lake.files()) == 2


def test_compaction_stops_at_damaged_or_missing_file(lake: StoredTable, folder: Path) -> None:
    lake.land()
    lake.land()
    path = folder / lake.files()[0]
    path.write_bytes(path.read_bytes() + b"x")
    assert f"{lake.files()[0]} is damaged" in str(lake.compact().failed)
    path.unlink()
    assert (failed := lake.compact().failed)
    assert failed.id == "table-file-missing"
    assert lake.log.follow().number == 2


def test_without_room_for_a_joined_file_nothing_changes(
    lake: StoredTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.land()
    lake.land()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    failed = lake.compact().failed
    assert failed is not None
    assert re.fullmatch(
        r"Files of lake.numbers cannot be joined in .*/nowhere of this host: No such file or directory. "
        r"Free 2 MB in this folder, or set TMPDIR to another folder.", str(failed),
    )  # fmt: skip
    assert lake.log.follow().number == 2


def test_a_lander_that_commits_meanwhile_makes_nothing_vain(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was joined is committed after it, under names of the commit that it became."""
    lake.land()
    lake.land()
    join, commit = compact.join, TableLog.commit
    joined, commits = count(), count()

    def beside_a_lander(share: compact.CompactShare) -> object:
        next(joined)
        if share.share == 0:
            lake.land()
        return join(share)

    def overtaken_twice(of_table: TableLog, wanted: Commit, *staging: Staging) -> None:
        if wanted.kind == log.COMPACT and next(commits) < 2:
            lake.land()
        commit(of_table, wanted, *staging)

    monkeypatch.setattr(compact, "join", beside_a_lander)
    monkeypatch.setattr(TableLog, "commit", overtaken_twice)
    monkeypatch.setattr(compact, "groups", once(compact.groups))
    done = lake.compact()
    assert (done.before, done.after, done.commits, done.failed) == (4, 2, 1, None)
    assert (next(joined), next(commits)) == (2, 3)
    state = lake.log.follow()
    assert state.number == 2 + 1 + 2 + 1
    assert [path.rpartition("/")[2][:20] for path in lake.files() if "compacted" in path] == [f"{6:020d}"] * 2
    assert lake.numbers() == list(range(lake.offset))
    assert set(lake.files()) == {file.path for file in state.live.values()}


def once(groups: Callable[..., Groups]) -> Callable[..., Groups]:
    """Return what finds the same files of the first time only."""
    calls = count()
    return lambda live: groups(live) if next(calls) == 0 else []


def test_a_compaction_makes_no_landing_vain(lake: StoredTable) -> None:
    lake.land()
    lake.land()
    staging = lake.log.begin()
    commit = lake.commit(staging=staging)
    lake.again().compact()
    committed = lake.log.commit_beside(staging, lambda state: replace(commit, number=state.number + 1))
    assert committed.number == 4
    lake.log.publish()
    lake.offset += 4
    assert lake.numbers() == list(range(12))
    staging = lake.log.begin()
    commit = lake.commit(staging=staging)
    lake.again().land()
    with pytest.raises(Lost):
        lake.log.commit_beside(staging, lambda state: replace(commit, number=state.number + 1))
    assert lake.paths("_land/staged") == []


def test_commit_is_lost_after_rival_landing_was_reset(lake: StoredTable) -> None:
    """Both staged the same files, which have gone with the other's rows; positions are as they were."""
    lake.land()
    lake.land()
    staging = lake.log.begin()
    commit = lake.commit(staging=staging)
    other = lake.again()
    other.compact()
    before = other.log.follow().positions
    other.land()
    state = other.log.state
    taken = tuple(path for path in state.live if commit_number(path) == state.number)
    other.log.commit(log.next_commit(state, log.RESET, "2024-01-01", before, added=(), removed=taken))
    other.log.publish()
    with pytest.raises(Lost):
        lake.log.commit_beside(staging, lambda state: replace(commit, number=state.number + 1))
    assert lake.again().log.follow().positions == before


@pytest.mark.parametrize(("landed", "commits"), [(3, 2), (4, 1)])
def test_files_staged_too_long_ago_are_made_again(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch, landed: int, commits: int
) -> None:
    """The commit of its number takes it away: nothing names it then."""
    monkeypatch.setattr(table_log, "AHEAD", 4)
    lake.land()
    lake.land()
    join, calls = compact.join, count()

    def after_many_commits(share: compact.CompactShare) -> object:
        joined = join(share)
        if next(calls) == 1:
            for _ in range(landed):
                lake.land()
        return joined

    monkeypatch.setattr(compact, "join", after_many_commits)
    done = lake.compact()
    assert (done.failed, done.commits, len(lake.files())) == (None, commits, 2)
    assert next(calls) == 4
    assert lake.numbers() == list(range(lake.offset))


def test_compaction_gives_up_after_losing_files_repeatedly(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.land()
    join, attempts = compact.join, count()

    def beside_a_busy_compactor(share: compact.CompactShare) -> object:
        joined = join(share)
        if share.share == 1:
            next(attempts)
            with monkeypatch.context() as patch:
                patch.setattr(compact, "join", join)
                lake.again().compact()
            lake.land()
        return joined

    lake.land()
    monkeypatch.setattr(compact, "join", beside_a_busy_compactor)
    assert (failed := lake.compact().failed)
    assert failed.id == "table-changed-meanwhile"
    assert next(attempts) == compact.ATTEMPTS
    lake.log.follow()
    assert lake.numbers() == list(range(lake.offset))


def test_second_compactor_retries_after_losing_its_files(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        lake.land()
    join = compact.join
    calls = count()

    def beside_another(share: compact.CompactShare) -> object:
        if next(calls) == 0:
            assert lake.again().compact().before == 6
        return join(share)

    monkeypatch.setattr(compact, "join", beside_another)
    done = lake.compact()
    assert (done.commits, done.failed) == (0, None)
    assert lake.numbers() == list(range(12))
    assert len(lake.files()) == 2


def test_who_makes_a_commit_visible_late_disturbs_nobody(lake: StoredTable) -> None:
    lake.land()
    lake.log.commit(lake.commit())
    lake.offset += 4
    lake.again().compact()
    lake.log.publish()
    assert lake.numbers() == list(range(8))
    lake.log.rejoin()
    lake.land()
    other = lake.again()
    other.land()
    other.compact()
    with pytest.raises(Lost):
        lake.log.rejoin()


def test_failed_publication_of_commit_is_retried(lake: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of the log publishes the commit of another process, and retries after a failure."""
    lake.land()
    other = lake.again()
    other.land()
    other.log.commit(other.commit())
    with monkeypatch.context() as patch:
        patch.setattr(backends._Directory, "move", unreachable)
        with pytest.raises(Failed):
            lake.log.follow()
    lake.log.follow()
    assert lake.numbers() == list(range(12))


def unreachable(*_: object) -> None:
    raise Failed("The store can't be reached.")


def test_few_files_are_exchanged_at_once(
    lake: StoredTable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(7):
        lake.land()
    monkeypatch.setattr(compact, "EXCHANGED", 3)
    done = lake.compact()
    assert (done.before, done.after, done.failed) == (14, 2, None)
    assert done.bytes == sum(file.bytes for file in lake.log.follow().live.values())
    commits = [json.loads((folder / path).read_text()) for path in lake.paths("_land/commits")]
    assert max(len(commit["removed"]) for commit in commits) == 3
    assert lake.numbers() == list(range(28))


def test_compact_command_names_failed_table_and_compacts_others(
    lake: StoredTable, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.land()
    lake.land()
    broken = folder.parent / f"broken/_land/commits/{1:020d}.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{}")
    names = ("lake.broken", "lake.nothing", "lake.numbers")
    declarations, report = tmp_path / "tables.yml", tmp_path / "report.json"
    declarations.write_text(json.dumps([{**DECLARED, "table": name} for name in names]))
    options = ["--declarations", str(declarations), "--location", lake.order.location]
    command = ["land", "compact", "--bootstrap-server", "nowhere:1", *options]
    assert main([*command, "--report", str(report)]) == 1
    said = capsys.readouterr()
    assert printed(said.err) == ["landing-log-damaged"]
    assert_printed(said.err, "landing-log-damaged", f"broken/_land/commits/{1:020d}.json")
    assert "lake.nothing: nothing has landed." in said.out
    assert "lake.numbers: 4 files became 2 files" in said.out
    content = json.loads(report.read_text())
    assert (content["verb"], content["exit_code"]) == ("land compact", 1)
    assert [(each["table"], each["after"], bool(each["failed"])) for each in content["tables"]] == [
        ("lake.broken", 0, True),
        ("lake.nothing", 0, False),
        ("lake.numbers", 2, False),
    ]
    assert main([*command, "--tables", "lake.numbers"]) == 0


def test_no_value_changes(lake: StoredTable) -> None:
    times = (
        "1677-09-22T00:00:00Z",
        "1969-12-31T23:59:58.999999Z",
        "1899-12-31T23:59:59.5Z",
        "2262-04-11T00:00:00Z",
    )
    kinds: dict[str, list[Any]] = {
        "boolean": [True, False],
        "tinyint": [-128, 127],
        "bigint": [-(2**63), 2**63 - 1],
        "float": [1.5, -0.0, 3.4e38],
        "double": [5e-324, -1.7976931348623157e308],
        "decimal(38,10)": ["-9999999999999999999999999999.9999999999", "0.0000000001"],
        "string": ["", "ü\n\u0000", "x" * 100_000],
        "date": ["0001-01-01", "9999-12-31", "1969-12-31"],
        "timestamp": list(times),
        "array<string>": [[], ["", None, "x"]],
        "array<timestamp>": [[None, *times]],
        "array<decimal(5,2)>": [["1.5", None]],
    }
    columns = [{"name": f"c{number}", "type": type_} for number, type_ in enumerate(kinds)]
    lake.declare({**DECLARED, "columns": [*DECLARED["columns"], *columns]})  # type: ignore[misc]
    for number, values in enumerate(kinds.values()):
        for value in values:
            lake.land(extra={f"c{number}": value})
    before = pa.concat_tables(map(lake.read, lake.files())).sort_by("k_offset")
    assert len(before) == 4 * sum(map(len, kinds.values()))
    assert all(len(before) - before.column(each["name"]).null_count >= 4 for each in columns)
    done = lake.compact()
    assert (done.after, done.left) == (2, 0)
    assert pa.concat_tables(map(lake.read, lake.files())).sort_by("k_offset").equals(before)


def test_files_of_former_versions_are_corrected(lake: StoredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow alone wrote them; one with a time that no file can have stays as it is."""

    def faults() -> list[bool]:
        paths = sorted(lake.files(), key=commit_number)
        found = (memoryview(lake.objects.read(f"lake/numbers/{path}")) for path in paths)
        return [
            bool(orc_times.fault(each, rows=orc.ORCFile(pa.BufferReader(each)).nrows, iceberg=False))
            for each in found
        ]

    def as_before(table: pa.Table, _: object) -> memoryview:
        written = io.BytesIO()
        with orc_writer(written) as writer:
            writer.write(table)
        return memoryview(written.getvalue())

    exact = {"name": "exact", "type": "timestamp"}
    columns = [*DECLARED["columns"], exact]  # type: ignore[misc]
    lake.declare({**DECLARED, "columns": columns, "partition_by": None})
    with monkeypatch.context() as former:
        former.setattr(files, "orc_of", as_before)
        former.setattr(rows, "_note_unwritable", lambda *_: None)
        for time in ("58.5", "57.000001", "59.5"):
            lake.land(extra={"exact": f"1969-12-31T23:59:{time}"})
    assert faults() == [True, True, True]
    done = lake.compact()
    assert (done.before, done.after, done.left) == (2, 1, 1)
    assert faults() == [True, False]
    assert lake.numbers() == list(range(12))


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_at_every_step(lake: StoredTable, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    interrupted_at_every_step(lake, monkeypatch, backends._Directory, after)


@pytest.mark.parametrize("after", EITHER)
def test_interrupted_at_every_step_in_s3(
    in_s3: StoredTable, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    interrupted_at_every_step(in_s3, monkeypatch, backends._Cloud, after)


def interrupted_at_every_step(
    lake: StoredTable, monkeypatch: pytest.MonkeyPatch, store: type[EditableObjects], after: bool
) -> None:
    monkeypatch.setattr(table_log, "AHEAD", 3)
    for at in steps():
        lake.land()
        lake.land()
        with monkeypatch.context() as patch:
            Interruption(patch, store, at, after=after)
            try:
                lake.compact()
            except KeyboardInterrupt:
                pass
            else:
                break
        assert len(lake.numbers()) == len(set(lake.numbers()))
        lake.again().log.follow()
        assert lake.numbers() == list(range(lake.offset))
    assert at > 8
    for _ in range(2):
        lake.land()
    assert lake.paths("_land/staged") == []
    assert lake.compact().failed is None
    assert lake.numbers() == list(range(lake.offset))
    assert len(lake.files()) == 2


def age(folder: Path, hours: float) -> int:
    """Make files of a folder so old; return their size in bytes."""
    files = list(folder.glob("*.orc"))
    for each in files:
        os.utime(each, (time.time() - hours * 3600,) * 2)
    return sum(each.stat().st_size for each in files)


def test_what_a_killed_run_staged_goes_hours_later(lake: StoredTable, folder: Path) -> None:
    """Only once nothing of it is younger than six hours: who stages on is alive, and commits."""
    lake.land()
    killed, alive = lake.log.begin(), lake.log.begin()
    lake.commit(staging=killed)
    commit = lake.commit(staging=alive)
    size = age(folder / killed.folder, hours=5.9)
    first, *_ = (folder / alive.folder).glob("*.orc")
    os.utime(first, (0, 0))
    before = lake.log.staged_bytes(time.time())
    assert before == (2 * size, 0)
    assert lake.compact().buried == 0
    age(folder / killed.folder, hours=6.1)
    assert lake.log.staged_bytes(time.time()) == (2 * size, size)
    assert lake.compact().buried == size
    assert {path.rpartition("/")[0] for path in lake.paths("_land/staged")} == {alive.folder}
    lake.log.commit_beside(alive, lambda state: replace(commit, number=state.number + 1))
    lake.log.publish(alive)
    assert lake.paths("_land/staged") == lake.paths("_land/clock") == []
    assert lake.numbers() == list(range(8))


def test_what_a_former_version_staged_goes_too(lake: StoredTable, folder: Path) -> None:
    lake.land()
    lake.commit(staging=Staging(100))
    size = age(folder / "_land/staged" / f"{100:020d}", hours=7)
    assert lake.compact().buried == size > 0
    assert lake.paths("_land/staged") == []


def test_age_of_staged_files_is_known_in_s3(in_s3: StoredTable) -> None:
    in_s3.land()
    in_s3.commit(staging=in_s3.log.begin())
    staged, dead = in_s3.log.staged_bytes(time.time())
    assert staged > dead == 0
    assert in_s3.compact().buried == 0
    assert in_s3.log.staged_bytes(time.time() + 7 * 3600) == (staged, staged)
    assert in_s3.paths("_land/clock") == []


def test_who_was_taken_for_dead_commits_nothing(
    lake: StoredTable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.land()
    staging = lake.log.begin()
    commit = lake.commit(staging=staging)
    age(folder / staging.folder, hours=7)
    assert lake.again().compact().buried
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) + 7 * 3600
    monkeypatch.setattr(table_log, "_clock", lambda: asleep)
    with raises(Failed, "staged-files-missing"):
        lake.log.commit_beside(staging, lambda state: replace(commit, number=state.number + 1))
    assert lake.again().log.follow().number == 1


def test_publishing_commit_removes_its_unused_staged_files(lake: StoredTable) -> None:
    lake.land()
    staging = lake.log.begin()
    commit = lake.commit(staging=staging)
    lake.commit(rows=6, staging=staging)  # as a task of which another attempt counts
    lake.log.commit_beside(staging, lambda state: replace(commit, number=state.number + 1))
    lake.log.publish(staging)
    assert lake.paths("_land/staged") == []
    assert lake.numbers() == list(range(8))
