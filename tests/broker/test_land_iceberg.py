"""Tables that land as Iceberg's, in a real Hive metastore, read by PyIceberg's own catalogue and by Spark."""

import json
import subprocess
import sys
import time
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from kit import clients
from kit.iceberg_reader import expected, newest, rows, said, table
from kit.identifiers import assert_printed, printed
from kit.lakes import HiveLake, client, create, table_of
from pyarrow import dataset
from pymetastore.hive_metastore import ttypes

from aqueduct.cli import main
from aqueduct.land import compact, iceberg
from aqueduct.land import metastore as metastores
from servers import hdfs

LATER = timedelta(days=2)


@pytest.fixture
def iceberg_lake(lake: HiveLake) -> HiveLake:
    lake.more = {"kind": "iceberg"}
    return lake


def files(lake: HiveLake, beside: str = "") -> list[Path]:
    """Return the data files that are there, whoever names them."""
    return sorted((lake.folder / "lake" / "lake" / f"{lake.table}{beside}" / "_iceberg").rglob("*.orc"))


def test_readers_of_iceberg_find_the_rows_that_landed(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(3), 30)
    clients.produce(lake.broker, lake.topic, [b"{", b'{"n": 1.5}'], 0)
    assert lake.land() == 0
    read = table(lake)
    assert rows(read) == expected(lake)
    assert read.format_version == 2
    assert [field.name for field in read.spec().fields] == ["day"]
    day = read.scan(row_filter="day = '2023-11-02'")
    assert {file.file.partition[0] for file in day.plan_files()} == {
        (date(2023, 11, 2) - date(1970, 1, 1)).days
    }
    assert len(day.to_arrow()) == 20
    last = newest(read)
    assert (last["operation"], last["aqueduct.commit"], last["total-records"]) == ("append", "1", "60")
    assert json.loads(last["aqueduct.positions"]) == {lake.topic: {"0": 32, "1": 30}}
    bad = table(lake, "_bad").scan().to_arrow().sort_by("k_offset")
    assert bad.column("value").to_pylist() == [b"{", b'{"n": 1.5}']
    # Who lists the folder finds nothing, and so nothing twice.
    assert dataset.dataset(lake.folder / "lake" / "lake" / lake.table, format="orc").files == []
    assert main(lake.arguments("verify")) == 0


def test_columns_are_added_to_an_iceberg_table(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    assert lake.land() == 0
    lake.columns.insert(1, {"name": "more", "type": "array<int>"})
    lake.produce(range(1, 4), 10, more=[1, 2])
    assert lake.land() == 0
    assert rows(table(lake), "more") == expected(lake)
    # Hive takes no columns that change places.
    names = [field.name for field in table(lake).schema().fields]
    assert (names[-1], names.index("price") - names.index("n")) == ("more", 1)
    with client(lake.metastore) as hive:
        assert [each.name for each in table_of(hive, lake.table).sd.cols] == names


def test_late_rows_are_in_an_iceberg_table_too(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    assert lake.land() == 0
    before = expected(lake)
    lake.more["late"] = {"table": f"lake.{lake.table}_late", "after": "7d"}
    lake.produce(range(1, 4), 30)
    assert lake.land() == 0
    assert rows(table(lake)) == before
    assert rows(table(lake, "_late")) == [each for each in expected(lake) if each not in before]


def test_a_row_without_a_day_and_all_types(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    values = {
        "b": ("boolean", True),
        "t": ("tinyint", -7),
        "s": ("smallint", 300),
        "l": ("bigint", 1 << 60),
        "f": ("float", 0.5),
        "d": ("double", 1e300),
        "x": ("date", "2020-02-29"),
        "a": ("array<timestamp>", ["2020-02-29T12:00:00Z"]),
    }
    lake.columns += [{"name": name, "type": type_} for name, (type_, _) in values.items()]
    lake.columns.append({"name": "raw", "type": "binary", "from": "$value"})
    value = json.dumps({name: each for name, (_, each) in values.items()}).encode()
    clients.produce(lake.broker, lake.topic, [value], 0)
    assert lake.land() == 0
    [found] = table(lake).scan().to_arrow().to_pylist()
    assert found["day"] is None
    assert found["raw"] == value
    assert {name: found[name] for name in values} == {
        **{name: each for name, (_, each) in values.items()},
        "x": date(2020, 2, 29),
        "a": [datetime(2020, 2, 29, 12)],
    }


def test_who_reads_while_files_are_joined_reads_on(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    for _ in range(3):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    before = table(lake)
    many = len(files(lake))
    assert main(lake.arguments("compact", "--metastore", lake.metastore.url)) == 0
    assert rows(before) == expected(lake)
    after = table(lake)
    assert rows(after) == expected(lake)
    assert len(list(after.scan().plan_files())) == 2
    assert newest(after)["operation"] == "replace"
    assert len(files(lake)) == many + 2  # for snapshots name them
    lake.produce(range(1, 3), 6)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    assert main(lake.arguments("verify")) == 0


def test_compaction_without_metastore_reaches_table_at_next_landing(
    iceberg_lake: HiveLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = iceberg_lake
    for _ in range(2):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    assert main(lake.arguments("compact")) == 3
    assert_printed(capsys.readouterr().out, "catalogue-not-given", f"lake.{lake.table}", "--metastore")
    assert rows(table(lake)) == expected(lake)
    lake.produce(range(2), 6)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    assert len(list(table(lake).scan().plan_files())) == 4
    assert [each["operation"] for each in said(table(lake))] == ["append", "append", "replace", "append"]


@pytest.mark.parametrize("told", [False, True])
def test_what_lands_again_is_there_once(iceberg_lake: HiveLake, told: bool) -> None:
    """A reset is seen at once where it is told of the metastore, else with the next round."""
    lake = iceberg_lake
    lake.produce(range(3), 30)
    assert lake.land() == 0
    before = table(lake)
    where = ["--metastore", lake.metastore.url] if told else []
    assert main([*lake.arguments("reset", f"--to-offsets={lake.topic}:0:10", "--execute"), *where]) == 0
    stays = [row for row in expected(lake) if row["k_partition"] == 1 or row["k_offset"] < 10]
    assert rows(table(lake)) == (stays if told else expected(lake))
    assert rows(before) == expected(lake)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    assert newest(table(lake))["operation"] == ("append" if told else "overwrite")
    assert rows(before) == expected(lake)
    assert main(lake.arguments("verify")) == 0


def test_bad_records_that_fit_later_are_rows(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    clients.produce(lake.broker, lake.topic, [b'{"n": 3000000000, "at": 1698796800}', b"{"], 0)
    assert lake.land() == 0
    lake.columns[0] = {"name": "n", "type": "int", "from": "m"}
    replayed = lake.arguments("replay", "--bad", "--execute", "--metastore", lake.metastore.url)
    assert main(replayed) == 0
    assert len(table(lake).scan().to_arrow()) == 21
    assert table(lake, "_bad").scan().to_arrow().column("value").to_pylist() == [b"{"]


@pytest.mark.long
def test_iceberg_has_what_lands_in_hdfs(iceberg_lake: HiveLake, tmp_path: Path) -> None:
    lake = iceberg_lake
    with hdfs.running(tmp_path / "hdfs") as store:
        lake.location = f"{store.url}/lake"
        lake.produce(range(3), 30)
        assert lake.land() == 0
        lake.produce(range(2, 4), 30)
        assert lake.land() == 0
        assert main(lake.arguments("compact", "--metastore", lake.metastore.url)) == 0
        objects = iceberg.open_editable(lake.location)
        # PyIceberg's own readers of HDFS want libhdfs; our files are what they are below any store.
        with client(lake.metastore) as hive:
            place = table_of(hive, lake.table).parameters["metadata_location"]
        io = iceberg._StoreIO(objects, lake.location)
        metadata = iceberg.FromInputFile.table_metadata(io.new_input(place))
        snapshot = metadata.current_snapshot()
        assert snapshot
        named = [entry for each in snapshot.manifests(io) for entry in each.fetch_manifest_entry(io)]
        assert sum(entry.data_file.record_count for entry in named) == 120
        for entry in named:
            path = entry.data_file.file_path.removeprefix(f"{lake.location}/")
            assert objects.head(path) == entry.data_file.file_size_in_bytes


KILLED = """
import os, signal, sys
from aqueduct.land import iceberg
from aqueduct.land.metastore import Metastore
where, arguments = sys.argv[1], sys.argv[2:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
point = Metastore.point
def after(*arguments, **named):
    point(*arguments, **named)
    die()
if where == "before":
    Metastore.point = die
elif where == "locked":
    from pymetastore.hive_metastore.ThriftHiveMetastore import Client
    Client.heartbeat = die
else:
    Metastore.point = after
from aqueduct.cli import main
sys.exit(main(arguments))
"""


@pytest.mark.parametrize("where", ["before", "locked", "after"])
def test_next_run_completes_iceberg_snapshot_of_killed_run(
    iceberg_lake: HiveLake, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    assert lake.land() == 0
    lake.produce(range(1, 3), 10)
    given = lake.arguments("--until-caught-up", "--metastore", lake.metastore.url)
    killed = subprocess.run([sys.executable, "-c", KILLED, where, *given], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert len(table(lake).scan().to_arrow()) == (40 if where == "after" else 20)
    monkeypatch.setattr(metastores, "DEAD_SECONDS", 1)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    with client(lake.metastore) as hive:
        assert not hive.show_locks(ttypes.ShowLocksRequest(dbname="lake", tablename=lake.table)).locks


def test_iceberg_table_is_updated_after_metastore_outage(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    assert lake.land() == 0
    lake.metastore.process.kill()
    try:
        lake.produce(range(1, 3), 10)
        assert lake.land() == 3
        [left] = lake.report()["left_out"]
        assert (left["what"], lake.report()["rows"]) == (f"lake.{lake.table} in the metastore", 20)
        assert left["id"] == "metastore-unreachable"
    finally:
        lake.metastore.process.start()
    status = lake.arguments("status", "--metastore", lake.metastore.url)
    assert main(status) == 3, "Hive does not have the new files yet"
    assert lake.land() == 0
    assert main(status) == 0
    assert rows(table(lake)) == expected(lake)


def test_replaced_files_go_when_no_snapshot_names_them(
    iceberg_lake: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = iceberg_lake
    for _ in range(3):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    compacted = lake.arguments("compact", "--metastore", lake.metastore.url)
    monkeypatch.setattr(compact, "KEPT", timedelta(0))
    before, many = table(lake), len(files(lake))
    for _ in range(2):
        assert main(compacted) == 0
        assert len(files(lake)) == many + 2  # the snapshots that name them are young
    assert rows(before) == expected(lake)
    now = time.time
    monkeypatch.setattr(iceberg.time, "time", lambda: now() + LATER.total_seconds())
    assert main(compacted) == 0
    read = table(lake)
    assert len(read.snapshots()) == 1
    assert len(files(lake)) == 2
    assert rows(read) == expected(lake)
    metadata = lake.folder / "lake" / "lake" / lake.table / "_iceberg" / "metadata"
    named = {Path(each.manifest_path).name for each in read.current_snapshot().manifests(read.io)}  # type: ignore[union-attr]
    assert {path.name for path in metadata.glob("*-m*.avro")} == named
    assert len(list(metadata.glob("snap-*.avro"))) == 1
    lake.produce(range(1, 3), 6)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    assert main(lake.arguments("verify")) == 0


def rename(lake: HiveLake) -> None:
    """Rename the table in the catalogue, as `ALTER TABLE ... RENAME TO` does: what it has is kept."""
    with client(lake.metastore) as hive:
        renamed = hive.get_table("lake", lake.table)
        renamed.tableName = f"{lake.table}_before"
        location = renamed.parameters["metadata_location"]
        hive.alter_table("lake", lake.table, renamed)
        assert hive.get_table("lake", f"{lake.table}_before").parameters["metadata_location"] == location


def test_what_another_one_wrote_is_named_and_left(iceberg_lake: HiveLake) -> None:
    lake = iceberg_lake
    lake.produce(range(2), 10)
    assert lake.land() == 0
    with table(lake).transaction() as change:
        change.set_properties({"write.format.default": "parquet"})  # PyIceberg writes no ORC
    theirs = table(lake)
    theirs.append(theirs.scan().to_arrow().slice(0, 1))
    lake.produce(range(2), 10)
    assert lake.land() == 3
    [left] = lake.report()["left_out"]
    assert left["id"] == "iceberg-writer-unknown"
    rename(lake)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)


@pytest.mark.parametrize("suffix", ["", "_bad"])
def test_a_table_of_hive_is_no_iceberg_table(
    iceberg_lake: HiveLake, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = iceberg_lake
    lake.produce(range(1), 3)
    name = f"{lake.table}{suffix}"
    create(lake.metastore, name, location=(lake.folder / "lake" / "lake" / name).as_uri())
    assert lake.land() == 2
    assert f"has another table lake.{name}: it is not an Iceberg table" in capsys.readouterr().err
    lake.more = {}
    with client(lake.metastore) as hive:
        hive.drop_table("lake", name, False)
    create(
        lake.metastore,
        name,
        location=(lake.folder / "lake" / "lake" / name).as_uri(),
        parameters={"EXTERNAL": "TRUE", "table_type": "ICEBERG"},
    )
    assert lake.land() == 2
    assert "it is an Iceberg table" in capsys.readouterr().err


def test_table_kind_is_fixed_and_iceberg_requires_metastore(
    iceberg_lake: HiveLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = iceberg_lake
    lake.produce(range(1), 3)
    assert main(lake.arguments("--until-caught-up")) == 2
    assert_printed(capsys.readouterr().err, "option-required", "--metastore")
    assert lake.land() == 0
    lake.more = {}
    assert lake.land() == 2
    assert printed(capsys.readouterr().err) == ["table-change-unsupported"]


def test_table_ahead_of_its_log_lands_nothing(
    iceberg_lake: HiveLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log was restored from before: what lands again would be in no snapshot for long."""
    lake = iceberg_lake
    for _ in range(2):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    verify = lake.arguments("verify", "--metastore", lake.metastore.url)
    assert main(verify) == 0
    commits = lake.folder / "lake" / "lake" / lake.table / "_land" / "commits"
    newest_commit = max(commits.iterdir())
    kept = newest_commit.read_bytes()
    newest_commit.unlink()
    assert lake.land() == 1
    assert lake.report()["failed_id"] == "iceberg-table-ahead"
    assert not newest_commit.exists()
    capsys.readouterr()
    assert main(verify) == 3
    [line, *_] = capsys.readouterr().out.splitlines()
    assert f"lake.{lake.table} " in line
    assert "commit 2" in line
    assert "ends at 1." in line
    for verb in (["compact"], ["replay", "--bad", "--execute"]):
        assert main(lake.arguments(*verb, "--metastore", lake.metastore.url)) == 1
        assert printed(capsys.readouterr().err) == ["iceberg-table-ahead"]
    assert [path.name for path in commits.iterdir()] == [f"{1:020d}.json"]
    newest_commit.write_bytes(kept)
    lake.produce(range(2), 6)
    assert lake.land() == main(verify) == 0
    assert rows(table(lake)) == expected(lake)
    before = rows(table(lake))
    newest_commit.unlink()
    max(commits.iterdir()).unlink()
    rename(lake)
    lake.produce(range(2), 6)
    assert lake.land() == 0
    assert rows(table(lake)) == expected(lake)
    # The numbers of the missing commits came again, and no file of theirs was overwritten.
    assert rows(table(lake, "_before")) == before


@pytest.mark.parametrize("kind", ["hive", "iceberg"])
def test_compaction_with_other_kind_is_refused_before_changes(
    iceberg_lake: HiveLake, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables that are declared before the wrong one are not compacted either."""
    lake = iceberg_lake
    lake.more = {"kind": kind}
    for _ in range(2):
        lake.produce(range(2), 6)
        assert lake.land() == 0
    declared = yaml.safe_load((lake.folder / "tables.yml").read_text())
    other = {**declared[0], "table": f"lake.{lake.table}_first"}
    given = lake.arguments("--until-caught-up", "--metastore", lake.metastore.url)
    file = lake.folder / "tables.yml"
    file.write_text(yaml.safe_dump([other]))
    for _ in range(2):
        assert main(given) == 0
        lake.produce(range(2), 6)
        file.write_text(yaml.safe_dump([other]))
    before = sorted(path for path in (lake.folder / "lake").rglob("*") if path.is_file())
    another = {"hive": "iceberg", "iceberg": "hive"}[kind]
    compacted = lake.arguments("compact", "--metastore", lake.metastore.url)
    file.write_text(yaml.safe_dump([other, {**declared[0], "kind": another}]))
    capsys.readouterr()
    assert main(compacted) == 2
    assert printed(capsys.readouterr().err) == ["table-change-unsupported"]
    assert sorted(path for path in (lake.folder / "lake").rglob("*") if path.is_file()) == before
