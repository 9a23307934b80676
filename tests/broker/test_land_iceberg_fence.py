"""How an Iceberg table follows its log, beside others: no broker, for its files are only named."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit.iceberg_log import IcebergLog
from kit.iceberg_reader import said
from kit.identifiers import raises
from kit.lakes import client, wait
from kit.tcp_proxy import TcpProxy
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pymetastore.hive_metastore import ttypes

from aqueduct.errors import Failed
from aqueduct.land import iceberg
from aqueduct.land import metastore as metastores
from aqueduct.land.catalogue import COMPARE_SECONDS, Catalogue
from aqueduct.land.iceberg import IcebergTables
from aqueduct.land.metastore import Away, Metastore, Moved
from servers.hive_metastore import HiveMetastore

ALTER = b"alter_table_with_environment_context"


@pytest.fixture
def iceberg_log(metastore: HiveMetastore, tmp_path: Path) -> IcebergLog:
    return IcebergLog(metastore, tmp_path)


def test_a_stale_updater_is_refused(iceberg_log: IcebergLog) -> None:
    """It read the table, and another one changed it before it said what it is now."""
    first, stale = iceberg_log.updater(), iceberg_log.updater()
    first.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    stale.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    wanted = iceberg.iceberg_table.tables(
        iceberg_log.folder.as_uri(), iceberg_log.table, iceberg_log.state(2, [1, 2])
    )[0]
    known = stale._load(wanted)
    assert known
    first.follow(iceberg_log.table, iceberg_log.state(3, [2, 3]))
    with pytest.raises(Moved):
        stale._change(wanted, known, iceberg_log.state(2, [1, 2]), 3600, tidy=False)
    assert iceberg_log.read() == (3, ["2", "3"])
    metadata = iceberg_log.metadata
    assert len(list(metadata.glob("snap-*.avro"))) == 2  # what it had staged went


def test_concurrent_updaters_converge_on_newer_log(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One waits just before it changes what the table is, until the other one did."""
    older, newer = iceberg_log.updater(), iceberg_log.updater()
    older.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    point = Metastore.point
    asked: list[str] = []

    def overtaken(self: Metastore, wanted: Any, place: str, *, read: str) -> None:
        asked.append(place)
        if len(asked) == 1:
            newer.follow(iceberg_log.table, iceberg_log.state(3, [1, 2, 3]))
        point(self, wanted, place, read=read)

    monkeypatch.setattr(Metastore, "point", overtaken)
    older.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert len(asked) == 2
    assert iceberg_log.read() == (3, ["1", "2", "3"])
    older.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert iceberg_log.read() == (3, ["1", "2", "3"])


def test_who_lost_its_lock_changes_nothing(iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one took it for dead, and is done, when it wakes up after it looked."""
    stale, other = iceberg_log.updater(), iceberg_log.updater()
    stale.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    look = Metastore._table
    looked: list[Any] = []

    def asleep(self: Metastore, database: str, name: str) -> Any:
        found = look(self, database, name)
        if len(looked) < 1 and sys._getframe(1).f_code.co_name == "point":
            looked.append(found)
            monkeypatch.setattr(metastores, "DEAD_SECONDS", -1)
            other.follow(iceberg_log.table, iceberg_log.state(3, [1, 3]))
        return found

    monkeypatch.setattr(Metastore, "_table", asleep)
    stale.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert looked
    assert iceberg_log.read() == (3, ["1", "3"])


def test_a_lock_of_another_program_is_waited_for(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    monkeypatch.setattr(metastores, "LOCK_SECONDS", 1)
    monkeypatch.setattr(metastores, "DEAD_SECONDS", -1)
    what = ttypes.LockComponent(ttypes.LockType.EXCLUSIVE, ttypes.LockLevel.TABLE, "lake", iceberg_log.name)
    with client(iceberg_log.metastore) as hive:
        held = hive.lock(ttypes.LockRequest([what], user="spark", hostname="there"))
        with raises(Failed, "catalogue-table-locked", iceberg_log.name):
            updater.follow(iceberg_log.table, iceberg_log.state(2, [2]))
        hive.unlock(ttypes.UnlockRequest(held.lockid))
    updater.follow(iceberg_log.table, iceberg_log.state(2, [2]))
    assert iceberg_log.read() == (2, ["2"])


def test_lock_of_dead_run_is_waited_for_longer(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run waits longer for locks of earlier runs than for those of other programs."""
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    monkeypatch.setattr(metastores, "LOCK_SECONDS", 0)
    monkeypatch.setattr(metastores, "DEAD_SECONDS", 2)
    what = ttypes.LockComponent(ttypes.LockType.EXCLUSIVE, ttypes.LockLevel.TABLE, "lake", iceberg_log.name)
    with client(iceberg_log.metastore) as hive:
        hive.lock(ttypes.LockRequest([what], user="land", hostname="here", agentInfo=metastores.AGENT))
    updater.follow(iceberg_log.table, iceberg_log.state(2, [2]))
    assert iceberg_log.read() == (2, ["2"])


def test_a_round_without_news_asks_for_nothing(iceberg_log: IcebergLog) -> None:
    catalogue = Catalogue([("127.0.0.1", iceberg_log.metastore.port)], iceberg_log.folder.as_uri())
    assert catalogue.follow([(iceberg_log.table, iceberg_log.state(1, [1]))]) == {}
    iceberg_log.metastore.process.kill()
    try:
        assert catalogue.follow([(iceberg_log.table, iceberg_log.state(2, [1]))]) == {}
    finally:
        iceberg_log.metastore.process.start()
    assert catalogue.lacks(iceberg_log.table, iceberg_log.state(2, [1])) == ""
    lacks = catalogue.lacks(iceberg_log.table, iceberg_log.state(3, [1, 2]))
    assert lacks == f"the table lake.{iceberg_log.name} lacks 1 file"


def test_dropped_table_is_registered_again_within_one_hour(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue([("127.0.0.1", iceberg_log.metastore.port)], iceberg_log.folder.as_uri())
    assert catalogue.follow([(iceberg_log.table, iceberg_log.state(1, [1]))]) == {}
    with client(iceberg_log.metastore) as hive:
        hive.drop_table("lake", iceberg_log.name, False)
    assert catalogue.follow([(iceberg_log.table, iceberg_log.state(1, [1]))]) == {}
    assert (
        catalogue.lacks(iceberg_log.table, iceberg_log.state(1, [1]))
        == f"the table lake.{iceberg_log.name} does not exist"
    )
    in_an_hour = SimpleNamespace(**vars(time) | {"monotonic": lambda: time.monotonic() + COMPARE_SECONDS + 1})
    for module in ("iceberg", "catalogue"):
        monkeypatch.setattr(f"aqueduct.land.{module}.time", in_an_hour)
    assert catalogue.follow([(iceberg_log.table, iceberg_log.state(1, [1]))]) == {}
    assert iceberg_log.read() == (1, ["1"])


def test_metadata_that_is_gone_is_named(iceberg_log: IcebergLog) -> None:
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]))
    newest_file = max(iceberg_log.metadata.glob("*.metadata.json"))
    for file in iceberg_log.metadata.iterdir():
        file.unlink()
    with raises(Failed, "iceberg-table-unreadable", iceberg_log.name, newest_file.name):
        iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    with client(iceberg_log.metastore) as hive:
        hive.drop_table("lake", iceberg_log.name, False)
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert iceberg_log.read() == (2, ["1", "2"])


def test_damaged_metadata_is_a_sentence(iceberg_log: IcebergLog) -> None:
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]))
    metadata = iceberg_log.metadata
    newest_file = max(metadata.glob("*.metadata.json"))
    newest_file.write_text("{")
    with raises(Failed, "iceberg-table-unreadable", iceberg_log.name):
        iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))


def test_clock_set_back_creates_no_older_snapshot(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    hour_ago = SimpleNamespace(time=lambda: time.time() - 3600)
    monkeypatch.setattr("pyiceberg.table.snapshots.time", hour_ago)
    updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    found = iceberg_log.found()
    first, second = found.snapshots()
    assert first.timestamp_ms <= second.timestamp_ms <= found.metadata.last_updated_ms


def test_manifests_are_joined(iceberg_log: IcebergLog) -> None:
    updater = iceberg_log.updater()
    for number in range(1, 106):
        updater.follow(iceberg_log.table, iceberg_log.state(number, range(number)))
    commit, names = iceberg_log.read()
    assert (commit, len(names)) == (105, 105)
    found = iceberg_log.found()
    snapshot = found.current_snapshot()
    assert snapshot
    assert len(snapshot.manifests(found.io)) < 100


def test_a_table_with_other_partitions_is_refused(iceberg_log: IcebergLog) -> None:
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]))
    with iceberg_log.found().update_spec() as change:
        change.add_field("k_timestamp", "day", "of_kafka")
    with raises(Failed, "catalogue-table-exists", iceberg_log.name, "k_timestamp"):
        iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    with raises(Failed, "catalogue-table-exists", iceberg_log.name, "k_timestamp"):
        iceberg_log.updater().lacks(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert iceberg_log.read() == (1, ["1"])


@pytest.mark.parametrize("value", [None, "[]", "{"])
def test_a_name_mapping_comes_back(iceberg_log: IcebergLog, value: str | None) -> None:
    """Without it readers find no column in a file that Arrow wrote: all would be NULL."""
    name = "schema.name-mapping.default"
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]))
    ours = iceberg_log.found().properties[name]
    with iceberg_log.found().transaction() as change:
        if value is None:
            change.remove_properties(name)
        else:
            change.set_properties({name: value})
    lacks = iceberg_log.updater().lacks(iceberg_log.table, iceberg_log.state(1, [1]))
    assert lacks == (
        f"the table lake.{iceberg_log.name} lacks the property {name}, which readers need to find columns"
    )
    [n] = iceberg_log.table.columns
    iceberg_log.table = replace(iceberg_log.table, columns=(n, replace(n, name="more", path=("more",))))
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]))
    healed = iceberg_log.found()
    assert healed.properties[name].startswith(ours.rstrip("]"))
    assert healed.name_mapping() == create_mapping_from_schema(healed.schema())
    assert iceberg_log.updater().lacks(iceberg_log.table, iceberg_log.state(1, [1])) == ""


def operations(iceberg_log: IcebergLog) -> list[tuple[str, str, str]]:
    """Return what snapshots did, their newest commits, and how many rows the table had then."""
    names = ("operation", "aqueduct.commit", "total-records")
    return [tuple(each[name] for name in names) for each in said(iceberg_log.found())]  # type: ignore[misc]


def test_rows_landed_during_compaction_are_append_snapshot(iceberg_log: IcebergLog) -> None:
    """Who follows a table's rows passes over the one, and reads the other."""
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    updater.follow(iceberg_log.table, iceberg_log.state(4, {"3-compacted": 2, 4: 5}))
    assert operations(iceberg_log) == [("append", "2", "2"), ("replace", "2", "2"), ("append", "4", "7")]
    joined, landed = iceberg_log.found().snapshots()[1:]
    assert joined.summary
    assert joined.summary["added-data-files"] == "1"
    assert {Path(file.file.file_path).stem for file in iceberg_log.found().scan().plan_files()} == {
        "3-compacted",
        "4",
    }
    assert landed.parent_snapshot_id == joined.snapshot_id


def test_compaction_of_files_unknown_to_table_is_overwrite(iceberg_log: IcebergLog) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    updater.follow(iceberg_log.table, iceberg_log.state(3, {"3-compacted": 2}))
    assert operations(iceberg_log) == [("append", "1", "1"), ("overwrite", "3", "2")]


@pytest.mark.parametrize(("took_rows", "operation"), [(0, "replace"), (2, "replace"), (3, "overwrite")])
def test_replace_requires_no_row_removal_since_last_snapshot(
    iceberg_log: IcebergLog, took_rows: int, operation: str
) -> None:
    """Row counts alone do not suffice: as many rows may have been removed as were added."""
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    updater.follow(iceberg_log.table, iceberg_log.state(5, {"5-compacted": 2}, took_rows))
    assert operations(iceberg_log) == [("append", "2", "2"), (operation, "5", "2")]


def test_round_cost_is_independent_of_snapshot_count(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater, day = iceberg_log.updater(), iceberg_log.table.snapshots
    iceberg_log.table = replace(iceberg_log.table, snapshots=100 * day)
    copied, read = [], []
    copy, objects = TableMetadataV2.model_copy, type(updater._objects)
    look = objects.read

    def counted(self: TableMetadataV2, *, update: Any = None, deep: bool = False) -> TableMetadataV2:
        copied.extend([True] if deep else [])
        return copy(self, update=update, deep=deep)

    def looked(self: Any, path: str, **options: Any) -> memoryview:
        read.append(path)
        return look(self, path, **options)

    monkeypatch.setattr(TableMetadataV2, "model_copy", counted)
    monkeypatch.setattr(objects, "read", looked)

    def follow(number: int, *, tidy: bool = False) -> tuple[int, int]:
        copied.clear()
        read.clear()
        updater.follow(iceberg_log.table, iceberg_log.state(number, range(number)), tidy=tidy)
        return len(copied), len(read)

    first = [follow(number) for number in range(1, 20)]
    now = time.time
    monkeypatch.setattr(iceberg.time, "time", lambda: now() + 10 * 86_400)
    first += [follow(number) for number in range(20, 30)]
    assert set(first[2:]) == {(3, 2)}  # staged, and for the metastore; the list of before, and what was made
    iceberg_log.table = replace(iceberg_log.table, snapshots=day)
    # A list of each that goes, of the first that stays, and of the newest.
    assert follow(29, tidy=True) == (4, 20)  # one copy is of the bad table
    assert len(iceberg_log.found().snapshots()) == 11


def test_metadata_of_failed_change_is_removed(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    before = set(iceberg_log.metadata.iterdir())
    monkeypatch.setattr(metastores, "LOCK_SECONDS", 0)
    what = ttypes.LockComponent(ttypes.LockType.EXCLUSIVE, ttypes.LockLevel.TABLE, "lake", iceberg_log.name)
    with client(iceberg_log.metastore) as hive:
        held = hive.lock(ttypes.LockRequest([what], user="spark", hostname="there"))
        with raises(Failed, "catalogue-table-locked", iceberg_log.name):
            updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
        assert set(iceberg_log.metadata.iterdir()) == before
        hive.unlock(ttypes.UnlockRequest(held.lockid))


@pytest.fixture
def proxy(iceberg_log: IcebergLog) -> Iterator[TcpProxy]:
    """Yield a proxy of the metastore that lets a change pass when it is told."""
    with TcpProxy(iceberg_log.metastore.port) as started:
        yield started


def through(proxy: TcpProxy, iceberg_log: IcebergLog) -> IcebergTables:
    metastore = Metastore([("127.0.0.1", proxy.port)])
    return IcebergTables(lambda: metastore, iceberg_log.folder.as_uri())


def test_a_change_whose_answer_is_lost_is_found(iceberg_log: IcebergLog, proxy: TcpProxy) -> None:
    updater = through(proxy, iceberg_log)
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    proxy.loses = ALTER
    updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    assert proxy.lost == 1
    assert iceberg_log.read() == (2, ["1", "2"])
    with client(iceberg_log.metastore) as hive:
        assert not hive.show_locks(ttypes.ShowLocksRequest(dbname="lake", tablename=iceberg_log.name)).locks


def test_delayed_change_keeps_its_lock_against_other_updaters(
    iceberg_log: IcebergLog, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Hive 3 it would take the table back to what it was before another one changed it."""
    slow, other = through(proxy, iceberg_log), iceberg_log.updater()
    slow.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    proxy.holds = ALTER
    with monkeypatch.context() as patch, raises(Away, "metastore-unreachable"):
        patch.setattr(metastores, "ANSWER_SECONDS", 5)
        slow.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    with monkeypatch.context() as patch:
        patch.setattr(metastores, "OUR_LOCK_SECONDS", 0)
        with raises(Failed, "catalogue-table-locked", iceberg_log.name):
            other.follow(iceberg_log.table, iceberg_log.state(3, [1, 3]))
    proxy.release()
    wait(lambda: iceberg_log.read()[0] == 2, "the change came")
    monkeypatch.setattr(metastores, "DEAD_SECONDS", 0)
    other.follow(iceberg_log.table, iceberg_log.state(3, [1, 3]))
    assert iceberg_log.read() == (3, ["1", "3"])


def test_snapshots_expire_after_a_clock_was_ahead(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    now = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyiceberg.table.snapshots.time", SimpleNamespace(time=lambda: now() + 400 * 86_400))
        updater.follow(iceberg_log.table, iceberg_log.state(2, [1, 2]))
    for number in (3, 4):
        updater.follow(iceberg_log.table, iceberg_log.state(number, range(number)))
    assert len(iceberg_log.found().snapshots()) == 4
    updater.follow(iceberg_log.table, iceberg_log.state(4, range(4)), tidy=True)
    assert len(iceberg_log.found().snapshots()) == 4  # they ended now
    monkeypatch.setattr(iceberg.time, "time", lambda: now() + 2 * 86_400)
    updater.follow(iceberg_log.table, iceberg_log.state(4, range(4)), tidy=True)
    assert len(iceberg_log.found().snapshots()) == 1


def test_unremovable_manifests_are_reported_after_table_update(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    first = iceberg_log.found()
    snapshot = first.current_snapshot()
    assert snapshot
    [manifest] = snapshot.manifests(first.io)
    updater.follow(iceberg_log.table, iceberg_log.state(2, [2]))
    place = Path(manifest.manifest_path.removeprefix("file://"))
    place.unlink()
    (place / "in the way").mkdir(parents=True)
    now = time.time
    monkeypatch.setattr(iceberg.time, "time", lambda: now() + 2 * 86_400)
    with raises(Failed, "iceberg-manifests-left"):
        updater.follow(iceberg_log.table, iceberg_log.state(3, [2, 3]), tidy=True)
    assert iceberg_log.read() == (3, ["2", "3"])
    with client(iceberg_log.metastore) as hive:
        assert hive.get_table_req(ttypes.GetTableRequest(dbName="lake", tblName=f"{iceberg_log.name}_bad"))
    updater.follow(iceberg_log.table, iceberg_log.state(3, [2, 3]))


def test_a_quiet_round_writes_nothing(iceberg_log: IcebergLog) -> None:
    for _ in range(2):
        iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]), tidy=True)
        before = set(iceberg_log.metadata.iterdir())
    iceberg_log.updater().follow(iceberg_log.table, iceberg_log.state(1, [1]), tidy=True)
    assert set(iceberg_log.metadata.iterdir()) == before


def test_waiting_lock_of_dead_run_does_not_block(
    iceberg_log: IcebergLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    updater = iceberg_log.updater()
    updater.follow(iceberg_log.table, iceberg_log.state(1, [1]))
    what = ttypes.LockComponent(ttypes.LockType.EXCLUSIVE, ttypes.LockLevel.TABLE, "lake", iceberg_log.name)
    with client(iceberg_log.metastore) as hive:
        held = hive.lock(ttypes.LockRequest([what], user="spark", hostname="there"))
        dead = hive.lock(ttypes.LockRequest([what], user="us", hostname="here", agentInfo=metastores.AGENT))
        assert dead.state == ttypes.LockState.WAITING
        hive.unlock(ttypes.UnlockRequest(held.lockid))
        monkeypatch.setattr(metastores, "DEAD_SECONDS", -1)
        updater.follow(iceberg_log.table, iceberg_log.state(2, [2]))
    assert iceberg_log.read() == (2, ["2"])
