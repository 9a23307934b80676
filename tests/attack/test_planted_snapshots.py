"""Whoever may create objects plants snapshots of ZooKeeper, so that the good ones go, or are not restored."""

from dataclasses import replace
from pathlib import Path

import pytest
from kit.signing_keys import Key

from aqueduct.cli import main
from aqueduct.common import timestamps
from aqueduct.errors import ExitCode, Failed, Refused
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot, ZnodeSnapshots, encode
from aqueduct.recovery.zookeeper.znodes import Right, Znode
from aqueduct.store import numbered_snapshots
from aqueduct.store.backends import open_editable
from aqueduct.store.numbered_snapshots import Kept
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust

Said = pytest.CaptureFixture[str]
DAY = 86_400_000
KEEP = 3
FAR = 10**20 - 1  # the last number that there can be


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def snapshot(created: int = 0, cluster: str = "ours") -> ZnodeSnapshot:
    right = (Right(31, "world", "anyone"),)
    znodes = {path: Znode(path, b"", right, 0) for path in ("/", "/a", "/b")}
    return ZnodeSnapshot(
        number=0,
        created=created or timestamps.now(),
        connect="host:2181",
        cluster=cluster,
        zxid=1,
        znodes=znodes,
    )


def keep(store: Path, key: SigningKey | None = None) -> Kept[ZnodeSnapshot]:
    objects = open_editable(store.as_uri(), private=True)
    return numbered_snapshots.keep_snapshot(ZnodeSnapshots, objects, snapshot(), KEEP, EVERYBODY, key)


def plant(store: Path, number: int, created: int = 0, cluster: str = "ours", data: bytes = b"") -> None:
    """Write what anybody may write: a snapshot that is whole, under any number that is free."""
    forged = replace(snapshot(created, cluster), number=number)
    open_editable(store.as_uri(), private=True).create(ZnodeSnapshots.path(number), data or encode(forged))


def numbers(store: Path) -> list[int]:
    return ZnodeSnapshots(open_editable(store.as_uri(), private=True)).numbers()


def test_planted_snapshots_take_no_place_of_signed_ones(store: Path, key: Key) -> None:
    for _ in range(KEEP):
        keep(store, key.signing)
    for number in range(KEEP + 1, 2 * KEEP + 1):
        plant(store, number)
    kept = keep(store, key.signing)
    assert kept.removed == (1,)
    assert numbers(store) == [2, 3, *range(KEEP + 1, 2 * KEEP + 1), kept.snapshot.number]
    assert "[snapshot-unusable] snapshots 4, 5, 6: " in kept.not_removed


@pytest.mark.parametrize("signed", [True, False])
def test_damaged_ones_take_no_place(signed: bool, store: Path, key: Key) -> None:
    signing = key.signing if signed else None
    for _ in range(KEEP):
        keep(store, signing)
    for number in range(KEEP + 1, 2 * KEEP + 1):
        plant(store, number, data=b"nothing that anybody kept")
    kept = keep(store, signing)
    assert kept.removed == (1,)
    assert "[snapshot-unusable]" in kept.not_removed


def test_back_dated_ones_take_no_place(store: Path) -> None:
    for _ in range(KEEP):
        keep(store)
    for number in range(KEEP + 1, 2 * KEEP + 1):
        plant(store, number, created=timestamps.now() - 2 * DAY)
    kept = keep(store)
    assert kept.removed == ()  # times run backwards
    assert "[snapshot-time-backwards]" in kept.not_removed
    assert "[snapshot-times-disagree] snapshots 4, 5, 6: " in kept.not_removed
    assert numbers(store) == [*range(1, 2 * KEEP + 2)]


def test_signed_ones_go_as_before(store: Path, key: Key) -> None:
    for _ in range(KEEP + 2):
        kept = keep(store, key.signing)
    assert numbers(store) == [3, 4, 5]
    assert kept.not_removed == ""


@pytest.mark.parametrize("cluster", ["ours", "another"])
def test_planted_number_or_cluster_stops_no_signed_backup(cluster: str, store: Path, key: Key) -> None:
    keep(store, key.signing)
    plant(store, 2, cluster=cluster)
    plant(store, FAR, cluster=cluster)
    assert keep(store, key.signing).snapshot.number == 3


@pytest.mark.parametrize("number", [5, FAR])
def test_copied_signed_snapshot_stops_no_backup(number: int, store: Path, key: Key) -> None:
    """Whoever can read the store has objects that a trusted key signed."""
    for _ in range(KEEP):
        keep(store, key.signing)
    plant(store, number, data=(store / ZnodeSnapshots.path(KEEP)).read_bytes())
    made = [keep(store, key.signing) for _ in range(2)]
    assert [kept.snapshot.number for kept in made] == [4, 6 if number == 5 else 5]
    assert [kept.removed for kept in made] == [(1,), (2,)]
    assert number in numbers(store)


@pytest.mark.parametrize("how", ["unsigned", "another key's", "changed", "of another kind", "renamed"])
def test_what_no_trusted_key_signed_is_not_restored(how: str, store: Path, key: Key, tmp_path: Path) -> None:
    keep(store, key.signing)
    good = (store / ZnodeSnapshots.path(1)).read_bytes()
    packed = encode(replace(snapshot(), number=2))
    forged = {
        "unsigned": packed,
        "another key's": Key(tmp_path, "another").signing.signed(packed, ZnodeSnapshots.context()),
        "changed": packed + good[-108:],
        "of another kind": key.signing.signed(packed),
        "renamed": good,
    }[how]
    plant(store, 2, data=forged)
    stored = ZnodeSnapshots.open(
        open_editable(store.as_uri(), private=True), Trust(frozenset({key.signing.public}))
    )
    with pytest.raises(Failed) as error:
        stored.read()
    assert how == "renamed" or error.value.id == "snapshot-not-trusted"
    assert stored.read(1).number == 1


def test_backup_with_trusted_keys_adds_no_unsigned_snapshot(store: Path, key: Key) -> None:
    keep(store, key.signing)
    objects = open_editable(store.as_uri(), private=True)
    with pytest.raises(Refused) as error:
        numbered_snapshots.keep_snapshot(
            ZnodeSnapshots, objects, snapshot(), KEEP, Trust(frozenset({key.signing.public}))
        )
    assert error.value.id == "option-required"
    assert numbers(store) == [1]


def test_the_commands_take_the_keys_of_backups(store: Path, key: Key, capsys: Said) -> None:
    keep(store, key.signing)
    plant(store, 2)
    argv = ["zookeeper", "snapshots", "--store", store.as_uri()]
    assert main(argv) == ExitCode.DONE
    assert main([*argv, *key.trusted]) == ExitCode.FAILED
    assert "[snapshot-not-trusted] " in capsys.readouterr().err
    restore = ["zookeeper", "restore", "--store", store.as_uri(), "--connect", "localhost:1", *key.trusted]
    assert main(restore) == ExitCode.FAILED
    assert "[snapshot-not-trusted] " in capsys.readouterr().err
    assert main([*restore, "--snapshot", "1", "--at-least", "2"]) == ExitCode.FAILED
    assert "[snapshot-too-old] " in capsys.readouterr().err
