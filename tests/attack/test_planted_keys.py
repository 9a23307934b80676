"""Somebody who may write into an encrypted store plants keys, so that new recipients can read nothing."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
import stores
from kit.identifiers import raises
from kit.key_pairs import Pair
from kit.manifests import SEGMENTS, manifest
from kit.signing_keys import Key

from aqueduct.cli import main
from aqueduct.errors import ExitCode, Failed
from aqueduct.snapshots.prune.sample import open_sample
from aqueduct.store import names
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKey, DataKind
from aqueduct.store.keyring import Keyring, Locked
from aqueduct.store.snapshots import follow

Said = pytest.CaptureFixture[str]
LAST = 999_999_999


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def old(tmp_path: Path) -> Pair:
    return Pair(tmp_path, "old")


@pytest.fixture
def new(tmp_path: Path) -> Pair:
    return Pair(tmp_path, "new")


@pytest.fixture
def keys(store: Path, old: Pair) -> list[DataKey]:
    """Return the keys of a store, each wrapped for the old recipient."""
    ring = Keyring(open_store(store.as_uri()))
    return [ring.create(kind, [old.key.public]) for kind in DataKind for _ in range(2)]


def plant(store: Path, key: DataKey, number: int, *recipients: Pair, content: bytes | None = None) -> Path:
    """Write an object that claims to wrap a key for recipients; this needs no key."""
    garbage = base64.b64encode(bytes(1200)).decode()
    wrapped = [[each.fingerprint, garbage] for each in recipients]
    told = json.dumps({"format": 1, "kind": key.kind, "wrapped": wrapped}).encode()
    path = store / names.key(key.id, number)
    path.write_bytes(told if content is None else content)
    return path


def rewrap(store: Path, *more: str) -> int:
    return main(["rewrap", "--store", store.as_uri(), *more])


def check(store: Path, keys: list[DataKey], reader: Pair) -> None:
    """Check that a recipient opens every key, from the store as it is."""
    ring = Keyring(open_store(store.as_uri()), [reader.key])
    assert [ring.open(key.id, key.kind, "it") for key in keys] == keys


@pytest.mark.parametrize("number", [2, 7, LAST - 1])
def test_planted_list_of_new_recipients_is_not_trusted(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, number: int
) -> None:
    for key in keys:
        plant(store, key, number, new)
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.DONE
    check(store, keys, new)


def test_copied_seal_does_not_authenticate_other_recipient_list(
    store: Path, keys: list[DataKey], old: Pair, new: Pair
) -> None:
    for key in keys:
        told = json.loads((store / names.key(key.id, 1)).read_bytes())
        told["wrapped"][0] = [new.fingerprint, base64.b64encode(bytes(1200)).decode()]
        plant(store, key, 2, content=json.dumps(told).encode())
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.DONE
    check(store, keys, new)


def test_rewrap_skips_and_reports_planted_highest_key_number(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, capsys: Said
) -> None:
    planted = [plant(store, key, LAST, old) for key in keys]
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.INCOMPLETE
    said = capsys.readouterr().out
    assert all(f"[key-object-planted] keys/{path.name}: " in said for path in planted)
    assert all(names.key_number(path.relative_to(store).as_posix()) for path in store.glob("keys/*"))
    check(store, keys, new)
    for path in planted:
        path.unlink()
    before = stores.files(store)
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.DONE
    assert stores.files(store) == before
    check(store, keys, new)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":1,"kind":"records","wrapped":[]}', b"[" * 9_000])
@pytest.mark.parametrize("number", [2, LAST])
def test_other_planted_objects_stop_nothing(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, number: int, content: bytes
) -> None:
    for key in keys:
        plant(store, key, number, content=content)
    code = rewrap(store, *old.opens, "--recipient", str(new.public))
    assert code == (ExitCode.INCOMPLETE if number == LAST else ExitCode.DONE)
    check(store, keys, new)


def test_second_rewrap_verifies_keys_and_writes_nothing(
    store: Path, keys: list[DataKey], old: Pair, new: Pair
) -> None:
    argv = [*old.opens, "--recipient", str(new.public)]
    assert rewrap(store, *argv) == ExitCode.DONE
    before = stores.files(store)
    assert rewrap(store, *argv) == ExitCode.DONE
    assert rewrap(store, *argv, *new.opens) == ExitCode.DONE
    assert stores.files(store) == before
    check(store, keys, old)
    check(store, keys, new)


def test_rewrap_fails_when_written_key_is_replaced(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    """Somebody replaces what was written, in a store that lets him."""
    wrapped = Keyring._store

    def replaced(ring: Keyring, key: DataKey, recipients: list[object], number: int) -> None:
        wrapped(ring, key, recipients, number)  # type: ignore[arg-type]
        plant(store, key, number, new)

    monkeypatch.setattr(Keyring, "_store", replaced)
    before = stores.files(store)
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.FAILED
    assert "[key-not-rewrapped] " in capsys.readouterr().err
    assert before.items() <= stores.files(store).items()
    check(store, keys, old)


def invented(store: Path, *recipients: Pair, kind: DataKind = DataKind.RECORDS) -> Path:
    """Plant a key object under an id that is no key's."""
    return plant(store, DataKey.generate(kind), 1, *recipients)


def snapshot(
    store: Path, key: DataKey, signing_key: Key | None = None, *, records: DataKey | None = None
) -> None:
    """Commit a snapshot whose manifest is encrypted with a key, and records with another one."""
    objects = open_store(store.as_uri())
    catalog = Catalog.open_or_make(objects, keys=Keyring(objects))
    number = max(catalog.numbers(), default=0) + 1
    segments = tuple(
        segment._replace(run=records.id, encrypted=True, unpacked_bytes=100, stored_bytes=100)
        for segment in SEGMENTS[:1]
        if records
    )
    made = manifest(chain=follow(None, number), store=catalog.id, segments=segments)
    catalog.commit(made, signing_key.signing if signing_key else None, encrypting=key)


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 9_000])
@pytest.mark.parametrize("number", [2, LAST])
def test_planted_key_object_makes_no_segment_damaged(
    store: Path, keys: list[DataKey], number: int, content: bytes, old: Pair, new: Pair
) -> None:
    """Prune without a recipient's key would refuse, and --past-damage would switch off its check."""
    key = next(key for key in keys if key.kind is DataKind.RECORDS)
    digest = hashlib.sha256(b"abc").hexdigest()
    segment = SEGMENTS[0]._replace(
        run=key.id, encrypted=True, stored_bytes=3, index_bytes=3, sha256=digest, index_sha256=digest
    )
    objects = open_store(store.as_uri())
    for path in (segment.path, segment.index_path):
        objects.create(path, b"abc")
    path = plant(store, key, number, content=content)
    for private in ([], [new.key]):
        opened = open_sample(store.as_uri(), Keyring(objects, private), [segment])
        assert (opened.faults, opened.digests_only) == ((), 1)
    with raises(Locked, "decryption-key-missing", old.fingerprint, path.name):
        Keyring(objects).open(key.id, key.kind, "it")
    (store / names.key(key.id, 1)).unlink()  # the real one
    with raises(Failed, "object-damaged", path.name):
        Keyring(objects).open(key.id, key.kind, "it")


def test_a_recipient_is_told_of_a_damaged_key(store: Path, keys: list[DataKey], old: Pair) -> None:
    path = plant(store, keys[0], 1, old)
    with raises(Failed, "object-damaged", path.name):
        Keyring(open_store(store.as_uri()), [old.key]).open(keys[0].id, keys[0].kind, "it")


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_an_invented_id_stops_no_rewrap(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, content: bytes | None, capsys: Said
) -> None:
    snapshot(store, next(key for key in keys if key.kind is DataKind.MANIFEST))
    planted = [invented(store, pair, kind=kind) for pair in (old, new) for kind in DataKind]
    if content is not None:
        for path in planted:
            path.write_bytes(content)
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.INCOMPLETE
    said = capsys.readouterr().out
    assert all(f"[key-object-planted] keys/{path.name}: " in said for path in planted)
    assert said.count("[key-object-planted]") == len(planted)
    check(store, keys, new)


@pytest.mark.parametrize("kind", DataKind)
def test_rewrap_refuses_snapshot_key_it_cannot_open(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, kind: DataKind, tmp_path: Path, capsys: Said
) -> None:
    """Else its snapshot would stay with the former recipients."""
    other = Pair(tmp_path, "other")
    key = Keyring(open_store(store.as_uri())).create(kind, [other.key.public])
    if kind is DataKind.MANIFEST:
        snapshot(store, key)
    else:
        snapshot(store, next(key for key in keys if key.kind is DataKind.MANIFEST), records=key)
    before = stores.files(store)
    assert rewrap(store, *old.opens, "--recipient", str(new.public)) == ExitCode.REFUSED
    assert "[decryption-key-missing] " in capsys.readouterr().err
    assert stores.files(store) == before
    assert rewrap(store, *old.opens, *other.opens, "--recipient", str(new.public)) == ExitCode.DONE
    check(store, [*keys, key], new)


def test_rewrap_with_trusted_key_skips_planted_snapshot(
    store: Path, keys: list[DataKey], old: Pair, new: Pair, tmp_path: Path
) -> None:
    ours, theirs = Key(tmp_path, "ours"), Key(tmp_path, "theirs")
    snapshot(store, next(key for key in keys if key.kind is DataKind.MANIFEST), ours)
    wrong = DataKey.generate(DataKind.MANIFEST)
    plant(store, wrong, 1, new)
    snapshot(store, wrong, theirs)
    argv = [*old.opens, "--recipient", str(new.public)]
    assert rewrap(store, *argv) == ExitCode.REFUSED  # who planted it is not known
    assert rewrap(store, *argv, "--trusted-key", str(ours.public)) == ExitCode.INCOMPLETE
    check(store, keys, new)
