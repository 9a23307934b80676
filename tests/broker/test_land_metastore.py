"""Tables that land are external tables of a real Hive metastore, where Spark finds them by their names."""

import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from kit import clients, hive_reader, landing_service
from kit.hive_reader import HiveReader
from kit.identifiers import printed, raises
from kit.lakes import PARTITIONS, HiveLake, client, create, table_of, wait
from pymetastore.hive_metastore import ttypes

from aqueduct.cli import main
from aqueduct.errors import Failed, Refused
from aqueduct.land import declaration, log, verify
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import AddedFile, State
from aqueduct.land.metastore import Metastore
from aqueduct.land.run import Lander
from servers import hdfs
from servers.hive_metastore import HiveMetastore
from servers.process import free_ports

HERE = "where the table lands"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, metastore: HiveMetastore) -> Iterator[HiveReader]:
    with hive_reader.running(tmp_path_factory.mktemp("reader"), metastore.url) as started:
        yield started


def test_hive_has_the_rows_that_landed(lake: HiveLake, reader: HiveReader) -> None:
    lake.produce(range(3), 30)
    clients.produce(lake.broker, lake.topic, [b"{", b'{"n": 1.5}'], 0)
    assert lake.land() == 0
    assert lake.read(reader) == lake.expected()
    where = f"lake.{lake.table}"
    bad = reader.rows(f"select k_offset, cast(value as string) value from {where}_bad order by 1")  # noqa: S608
    assert bad == [{"k_offset": 30, "value": "{"}, {"k_offset": 31, "value": '{"n": 1.5}'}]
    [found] = reader.rows(f"select count(*) rows, min(day) day from {where} where day > '2023-11-02'")  # noqa: S608
    assert found == {"rows": 20, "day": "2023-11-03"}
    told = {row["col_name"]: row.get("data_type") for row in reader.rows(f"describe formatted {where}")}
    assert told["Type"] == "EXTERNAL"
    assert f"/{where.replace('.', '/')}/_land" in told["Table Properties"]
    assert {"numRows", "Statistics"}.isdisjoint(told)


def test_columns_and_days_are_added(lake: HiveLake, reader: HiveReader) -> None:
    lake.produce(range(2), 10)
    assert lake.land() == 0
    lake.columns.insert(1, {"name": "more", "type": "string"})
    lake.produce(range(1, 4), 10, more="x")
    # Rows of the first commit are NULL in the new column.
    assert lake.land() == 0
    assert lake.read(reader, "more") == lake.expected()
    # The same through Hive's own reader of ORC, which goes by each partition's columns.
    reader.rows("set spark.sql.hive.convertMetastoreOrc=false")
    try:
        assert lake.read(reader, "more") == lake.expected()
    finally:
        reader.rows("set spark.sql.hive.convertMetastoreOrc=true")


def test_late_rows_are_readable_in_hive_table(lake: HiveLake, reader: HiveReader) -> None:
    """All are late once that is declared: their days were in 2023, and Kafka got the records now."""
    lake.produce(range(2), 10)
    assert lake.land() == 0
    before = lake.expected()
    lake.more = {"late": {"table": f"lake.{lake.table}_late", "after": "7d"}}
    lake.produce(range(1, 4), 30)
    late = [each for each in lake.expected() if each not in before]
    assert lake.land() == 0
    assert lake.read(reader, beside="_late") == late
    assert lake.read(reader) == before
    # Days of which nothing is left go, and come again.
    every = ",".join(f"{lake.topic}:{partition}:10" for partition in range(PARTITIONS))
    assert main(lake.arguments("reset", f"--to-offsets={every}", "--execute")) == 0
    assert lake.land() == 0
    assert lake.read(reader, beside="_late") == late


def test_a_day_without_a_time_and_compaction(lake: HiveLake, reader: HiveReader) -> None:
    for _ in range(3):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    clients.produce(lake.broker, lake.topic, [b'{"n": 7}'], 1)
    assert lake.land() == 0
    before = lake.read(reader)
    assert [each for each in before if "day" not in each] == [{"k_partition": 1, "k_offset": 18, "n": 7}]
    assert [each for each in before if "day" in each] == lake.expected()
    files = len(list((lake.folder / "lake").rglob("day=*/*.orc")))
    assert main(lake.arguments("compact", "--metastore", lake.metastore.url)) == 0
    assert len([*(lake.folder / "lake" / "lake" / lake.table).glob("day=*/*.orc")]) < files
    assert lake.read(reader) == before


def test_hive_has_what_lands_in_hdfs(lake: HiveLake, reader: HiveReader, tmp_path: Path) -> None:
    with hdfs.running(tmp_path / "hdfs") as files:
        lake.location = f"{files.url}/lake"
        lake.produce(range(3), 30)
        assert lake.land() == 0
        assert lake.read(reader) == lake.expected()
        lake.produce(range(2, 4), 30)
        assert lake.land() == 0
        assert lake.read(reader) == lake.expected()


def test_metastore_killed_during_landing_is_updated_later(lake: HiveLake, reader: HiveReader) -> None:
    lake.produce(range(1), 10)
    assert lake.land() == 0
    report = lake.folder / "report.json"
    command = [sys.executable, "-m", "aqueduct.cli", *lake.arguments("--every", "1s")]
    command += ["--metastore", lake.metastore.url, "--report", str(report)]
    lander = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait(lambda: lake.report()["commits"] == 0, "a round of the lander")
        lake.metastore.process.kill()
        lake.produce(range(1, 5), 10)
        wait(lambda: bool(lake.report()["left_out"]), "a catalogue that is behind")
        left = lake.report()["left_out"]
        assert left[0]["what"] == f"lake.{lake.table} in the metastore"
        assert left[0]["id"] == "metastore-unreachable"
        assert json.loads(report.read_text())["exit_code"] == 3
        lake.produce(range(4, 7), 10)
        wait(lambda: landed_records(lake) == len(lake.produced), "rows that land meanwhile")
        lake.metastore.process.start()
        wait(lambda: not lake.report()["left_out"], "a catalogue that is whole")
    finally:
        lander.kill()
        lander.communicate()
    assert lake.land() == 0
    assert lake.read(reader) == lake.expected()


def landed_records(lake: HiveLake) -> int:
    """Return how many records have landed by the newest commit of the table's log."""
    commits = lake.folder / "lake/lake" / lake.table / "_land/commits"
    positions = json.loads(max(commits.glob("*.json")).read_text())["positions"]["next"]
    return sum(positions[lake.topic].values())


@pytest.mark.parametrize(
    ("suffix", "changes", "why"),
    [
        (
            "",
            {"tableType": "MANAGED_TABLE", "parameters": {}},
            ("it is a managed table, not an external table"),
        ),
        ("", {}, "its location is file:"),
        ("_bad", {}, "its location is file:"),
        ("", {"input": "org.apache.hadoop.mapred.TextInputFormat", "location": HERE}, "not ORC"),
        ("", {"location": HERE}, "it is partitioned by nothing, not by day string"),
    ],
)
def test_foreign_catalogue_table_is_refused_before_landing(
    lake: HiveLake, suffix: str, changes: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.produce(range(1), 3)
    name = f"{lake.table}{suffix}"
    here = {"location": (lake.folder / "lake" / "lake" / name).as_uri()} if "location" in changes else {}
    create(lake.metastore, name, **changes | here)
    there = sorted((lake.folder / "lake").rglob("*"))
    assert lake.land() == 2
    assert printed(said := capsys.readouterr().err) == ["catalogue-table-exists"]
    assert f"lake.{name}: " in said
    assert why in said
    assert sorted((lake.folder / "lake").rglob("*")) == there


def test_verify_names_what_readers_by_the_catalogue_miss(
    lake: HiveLake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "PATIENCE", 0)
    report = lake.folder / "verify.json"
    command = lake.arguments("verify", "--metastore", lake.metastore.url, "--report", str(report))
    lake.produce(range(3), 6)
    assert lake.land() == 0
    assert main(command) == 0
    with client(lake.metastore) as hive:
        hive.drop_partition("lake", lake.table, ["2023-11-02"], False)
    capsys.readouterr()
    assert main(command) == 3
    said = capsys.readouterr().out
    assert f"lake.{lake.table}: every landed offset exists in its files exactly once" in said
    why = f"the table lake.{lake.table} lacks 1 partition"
    assert f"Readers may see other rows: Hive metastore: {why}." in said
    [told] = json.loads(report.read_text())["tables"]
    assert (told["right"], told["readers"]) == (True, f"Hive metastore: {why}")
    # A lander that tells the catalogue of its round meanwhile.
    monkeypatch.setattr(verify, "PATIENCE", 60)
    monkeypatch.setattr(verify, "time", Meanwhile(lambda: lake.land()))
    assert main(command) == 0
    monkeypatch.setattr(verify, "PATIENCE", 0)
    lake.metastore.process.kill()
    try:
        assert main(command) == 3
        said = capsys.readouterr().out
        assert "Readers may see other rows: Hive metastore: " in said
        assert "does not answer" in said
    finally:
        lake.metastore.process.start()


@dataclass
class Meanwhile:
    """A clock, by which something else is done while somebody sleeps."""

    done: Callable[[], object]

    def sleep(self, _: float) -> None:
        self.done()

    @staticmethod
    def monotonic() -> float:
        return time.monotonic()


def test_dropped_tables_and_partitions_are_registered_again(lake: HiveLake) -> None:
    lake.produce(range(5), 10)
    assert lake.land() == 0
    with client(lake.metastore) as hive:
        names = hive.get_partition_names("lake", lake.table, -1)
        assert names == [f"day=2023-11-0{day}" for day in range(1, 6)]
        hive.drop_partition("lake", lake.table, ["2023-11-03"], False)
        hive.drop_table("lake", f"{lake.table}_bad", False)
        assert lake.land() == 0  # without a record that is new
        assert hive.get_partition_names("lake", lake.table, -1) == names
        assert table_of(hive, f"{lake.table}_bad").sd.location.endswith(f"{lake.table}_bad")
        hive.drop_table("lake", lake.table, False)
        assert lake.land() == 0
        assert hive.get_partition_names("lake", lake.table, -1) == names


@dataclass
class Landed:
    """A table of days in a folder, of which a log is thought: no broker is needed for the catalogue."""

    catalogue: Catalogue
    columns: list[dict[str, str]]
    folder: Path
    name: str = field(default_factory=lambda: f"t_{secrets.token_hex(4)}")

    @property
    def table(self) -> LandTable:
        declared = {
            "table": f"lake.{self.name}",
            "topics": ["t"],
            "columns": [*self.columns, {"name": "at", "type": "timestamp"}],
            "partition_by": [{"name": "day", "of": "at", "every": "day"}],
        }
        [table] = declaration.parse([declared], "lake.yml")
        return table

    def state(self, days: Iterable[int]) -> State:
        paths = [f"day=2023-11-{day:02d}/{day}.orc" for day in days]
        live = {path: AddedFile(path=path, rows=1, bytes=1, sha256="") for path in paths}
        return State(number=1, live=live, definition=log.definition(self.table))

    def follow(self, days: Iterable[int]) -> Failed | None:
        """Bring the catalogue up; return why it is behind."""
        return self.catalogue.follow([(self.table, self.state(days))]).get(f"lake.{self.name}")


@pytest.fixture
def landed(metastore: HiveMetastore, tmp_path: Path) -> Landed:
    columns = [{"name": "n", "type": "int"}]
    return Landed(Catalogue([("127.0.0.1", metastore.port)], tmp_path.as_uri()), columns, tmp_path)


def days(hive: Any, landed: Landed) -> list[int]:
    return [int(name[-2:]) for name in hive.get_partition_names("lake", landed.name, -1)]


def test_columns_are_added_to_partitions_that_are_there(landed: Landed, metastore: HiveMetastore) -> None:
    file = landed.folder / "lake" / landed.name / "day=2023-11-01" / "1.orc"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"first")
    assert landed.follow([1, 2]) is None
    landed.columns.insert(0, {"name": "more", "type": "string"})
    assert landed.follow([1, 2, 3]) is None
    names = ["k_topic", "k_partition", "k_offset", "k_timestamp", "n", "at", "more"]
    with client(metastore) as hive:
        assert [each.name for each in table_of(hive, landed.name).sd.cols] == names
        for day in ("2023-11-01", "2023-11-03"):
            found = hive.get_partition("lake", landed.name, [day])
            assert [each.name for each in found.sd.cols] == names
            assert found.sd.location == f"file:{landed.folder}/lake/{landed.name}/day={day}"
            # Else the size of a day's first file stays that of the day, and readers plan joins by it.
            assert int(found.parameters["totalSize"]) <= 0
            assert "totalSize" not in table_of(hive, landed.name).parameters


def test_partitions_go_in_lists(
    landed: Landed, metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.land.catalogue.PARTITIONS", 4)
    lists: list[int] = []
    add = Metastore.add

    def counted(self: Metastore, table: Any, partitions: Any, columns: Any) -> None:
        lists.append(len(partitions))
        add(self, table, partitions, columns)

    monkeypatch.setattr(Metastore, "add", counted)
    assert landed.follow(range(1, 11)) is None
    assert landed.follow(range(1, 12)) is None
    assert landed.follow(range(1, 12)) is None
    assert lists == [4, 4, 2, 1]
    with client(metastore) as hive:
        assert days(hive, landed) == list(range(1, 12))


def test_what_others_change_is_seen_within_an_hour(
    landed: Landed, metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert landed.follow([1, 2]) is None
    with client(metastore) as hive:
        hive.drop_partition("lake", landed.name, ["2023-11-01"], False)
        assert landed.follow([1, 2]) is None
        assert days(hive, landed) == [2]
        monkeypatch.setattr("aqueduct.land.catalogue.COMPARE_SECONDS", -1)
        assert landed.follow([1, 2]) is None
        assert days(hive, landed) == [1, 2]
        # Also in between, when something is to be changed.
        monkeypatch.setattr("aqueduct.land.catalogue.COMPARE_SECONDS", 3600)
        hive.drop_table("lake", landed.name, False)
        assert (failed := landed.follow([1, 2, 3]))
        assert failed.id == "catalogue-table-missing"
        assert landed.follow([1, 2, 3]) is None
        assert days(hive, landed) == [1, 2, 3]


def test_empty_day_leaves_metastore_without_deleting_files(landed: Landed, metastore: HiveMetastore) -> None:
    file = landed.folder / "lake" / landed.name / "day=2023-11-02" / "kept.orc"
    file.parent.mkdir(parents=True)
    file.touch()
    assert landed.follow([1, 2]) is None
    assert landed.follow([1]) is None
    with client(metastore) as hive:
        assert days(hive, landed) == [1]
    assert file.exists()
    assert (
        Catalogue([("127.0.0.1", metastore.port)], landed.folder.as_uri()).lacks(
            landed.table, landed.state([1, 2])
        )
        == f"the table lake.{landed.name} lacks 1 partition"
    )


def test_what_a_lander_added_meanwhile_stays(landed: Landed, metastore: HiveMetastore) -> None:
    """Who read the log before that, as a replay does, adds its days and drops none."""
    assert landed.follow([1, 3]) is None
    late = Catalogue([("127.0.0.1", metastore.port)], landed.folder.as_uri())
    assert late.follow([(landed.table, landed.state([1, 2]))], drop=lambda _: False) == {}
    with client(metastore) as hive:
        assert days(hive, landed) == [1, 2, 3]
    assert "has 1 partition more" in late.lacks(landed.table, landed.state([1, 2]))
    assert landed.follow([1, 2, 3]) is None


def test_round_keeps_days_landed_after_log_was_read(lake: HiveLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.produce(range(2), 6)
    assert lake.land() == 0
    bring, calls = Lander._bring_catalogue_up, count()

    def after_another(*arguments: Any) -> None:
        if next(calls) == 0:
            lake.produce(range(2, 3), 6)
            assert lake.land() == 0
        bring(*arguments)

    monkeypatch.setattr(Lander, "_bring_catalogue_up", after_another)
    assert lake.land() == 0
    assert next(calls) == 2
    with client(lake.metastore) as hive:
        assert hive.get_partition_names("lake", lake.table, -1) == [
            f"day=2023-11-0{day}" for day in (1, 2, 3)
        ]


def test_a_silent_metastore_is_let_alone(
    landed: Landed, metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    reach = Metastore._client

    def counted(self: Metastore, seconds: float) -> Any:
        asked.append(seconds)
        return reach(self, seconds)

    assert landed.follow([1]) is None
    with monkeypatch.context() as patch, metastore.process.silent():
        patch.setattr(Metastore, "_client", counted)
        patch.setattr("aqueduct.land.metastore.ANSWER_SECONDS", 0.5)
        patch.setattr("aqueduct.land.catalogue.PAUSE", 3600)
        assert (failed := landed.follow([1, 2]))
        assert failed.id == "metastore-unreachable"
        assert asked == [0.5] * 2
        for _ in range(5):
            assert "timed out)" in str(landed.follow([1, 2]))
        assert len(asked) == 2
    landed.catalogue = Catalogue([("127.0.0.1", metastore.port)], landed.folder.as_uri())
    wait(lambda: landed.follow([1, 2]) is None, "a catalogue that is whole")
    with client(metastore) as hive:
        assert days(hive, landed) == [1, 2]


def test_a_service_reports_a_silent_metastore(lake: HiveLake) -> None:
    lake.produce(range(2), 10)
    reached = ("--metastore", lake.metastore.url)
    landing_service.reports_an_outage(
        lake.arguments(*reached), f"aqueduct_land_lag lake.{lake.table}", "metastore", lake.metastore.process
    )


def test_table_is_behind_while_metastore_database_is_down(
    landed: Landed, metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert landed.follow([1]) is None
    metastore.database.kill()
    try:
        with monkeypatch.context() as patch:
            patch.setattr("aqueduct.land.metastore.ANSWER_SECONDS", 2)
            assert "The metastore thrift://" in str(landed.follow([1, 2]))
    finally:
        metastore.database.start()
    landed.catalogue = Catalogue([("127.0.0.1", metastore.port)], landed.folder.as_uri())
    wait(lambda: landed.follow([1, 2]) is None, "a catalogue that is whole")
    with client(metastore) as hive:
        assert days(hive, landed) == [1, 2]


def test_an_answer_that_is_lost_does_no_harm(
    landed: Landed, metastore: HiveMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Metastore._ask

    def lost(self: Metastore, call: Callable[[Any], Any], seconds: float | None = None) -> Any:
        """Do it, lose the answer, and ask again."""
        with suppress(Failed):
            ask(self, call, seconds)
        return ask(self, call, seconds)

    monkeypatch.setattr(Metastore, "_ask", lost)
    assert landed.follow([1, 2]) is None
    landed.columns.insert(0, {"name": "more", "type": "string"})
    assert landed.follow([1, 3]) is None
    with client(metastore) as hive:
        assert days(hive, landed) == [1, 3]


def test_addresses_are_taken_in_turn(landed: Landed, metastore: HiveMetastore) -> None:
    [closed] = free_ports(1)
    there, not_there = ("127.0.0.1", metastore.port), ("127.0.0.1", closed)
    landed.catalogue = Catalogue([not_there, there], landed.folder.as_uri())
    assert landed.follow([1]) is None
    landed.catalogue = Catalogue([not_there, ("no-such-host.invalid", 1)], landed.folder.as_uri())
    said = str(landed.follow([1]))
    assert f"thrift://127.0.0.1:{closed},thrift://no-such-host.invalid:1 does not answer (" in said
    landed.catalogue = Catalogue([not_there], landed.folder.as_uri())
    assert f"(127.0.0.1:{closed}: Connection refused)" in str(landed.follow([1]))
    # Who asks only whether a name is free is told of it when the table has landed.
    landed.catalogue.check([(landed.table, State())])


def test_what_is_no_metastore_is_told_apart(landed: Landed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=speak_http, args=(server,), daemon=True).start()
        landed.catalogue = Catalogue([server.getsockname()], landed.folder.as_uri())
        assert (failed := landed.follow([1]))
        assert failed.id == "metastore-unreachable"


def speak_http(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_landing_adopts_table_created_at_its_location(landed: Landed, metastore: HiveMetastore) -> None:
    location = (landed.folder / "lake" / landed.name).as_uri()
    keys = [ttypes.FieldSchema("day", "string", "")]
    create(metastore, landed.name, location=location, partitionKeys=keys)
    assert "lacks the columns k_topic" in landed.catalogue.lacks(landed.table, landed.state([1]))
    landed.catalogue.check([(landed.table, State())])
    assert landed.follow([1]) is None
    assert landed.catalogue.lacks(landed.table, landed.state([1])) == ""
    with client(metastore) as hive:
        found = table_of(hive, landed.name)
        assert [each.name for each in found.sd.cols][:2] == ["n", "k_topic"]
        assert found.parameters["aqueduct.log"] == f"{location}/_land"


def test_another_table_that_is_found_later_is_named(landed: Landed, metastore: HiveMetastore) -> None:
    create(metastore, f"{landed.name}_bad")
    assert (failed := landed.follow([1]))
    assert failed.id == "catalogue-table-exists"
    with raises(Refused, "catalogue-table-exists") as refused:
        landed.catalogue.check([(landed.table, State())])
    assert f"lake.{landed.name}_bad: its location is file:" in str(refused.value)
    landed.catalogue.check([(landed.table, landed.state([1]))])  # which lands on
    landed.columns[0]["type"] = "bigint"
    with client(metastore) as hive:
        hive.drop_table("lake", f"{landed.name}_bad", False)
    assert "column n is of type int, not bigint" in str(landed.follow([1]))
