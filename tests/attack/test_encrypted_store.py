"""An encrypted store in the hands of those who have it and lack a key, or have a captured backup host's."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stores
from kit import clients
from kit.identifiers import assert_printed, printed
from kit.key_pairs import Pair
from kit.signing_keys import Key

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.store import manifest, signing
from aqueduct.store.backends import open_store
from aqueduct.store.encryption import DataKind, key_id
from aqueduct.store.keyring import Keyring, Locked
from servers.broker import Broker

Said = pytest.CaptureFixture[str]
Run = Callable[..., None]
Restore = Callable[..., dict[str, Any]]
VALUES = [f"the secret {number}" * 9 for number in range(300)]


@pytest.fixture
def recipient(tmp_path: Path) -> Pair:
    return Pair(tmp_path, "recipient")


@pytest.fixture
def host(tmp_path: Path) -> Pair:
    return Pair(tmp_path, "host")


@pytest.fixture
def encrypt(recipient: Pair, host: Pair) -> list[str]:
    return ["--recipient", str(recipient.public), *host.opens]


@pytest.fixture
def made(source: Broker, name: str, folder: Path, backup: Run, encrypt: list[str]) -> Path:
    """Return a store: a plain snapshot, and two that are encrypted."""
    clients.create(source, name)
    for some in (VALUES[:100], VALUES[100:200], VALUES[200:]):
        clients.produce(source, name, some)
        backup(name, *(encrypt if some != VALUES[:100] else ()))
    return folder


def values(broker: Broker, name: str) -> list[str]:
    return [message.value().decode() for message in clients.read(broker, name)]


def encrypted(store: Path) -> list[Path]:
    return sorted(store.rglob("*.enc"))


def verify(store: Path, *more: str) -> int:
    return main(["verify", "--store", store.as_uri(), *more])


def test_second_estate_restores_with_recipient_key_alone(
    made: Path, name: str, target: Broker, restore: Restore, recipient: Pair
) -> None:
    assert len(encrypted(made)) >= 4
    assert not any(b"secret" in path.read_bytes() for path in encrypted(made))
    assert verify(made, *recipient.opens) == ExitCode.DONE
    restore(name, *recipient.opens)
    assert values(target, name) == VALUES


def test_without_a_key_and_with_a_wrong_one(
    made: Path, name: str, target: Broker, recipient: Pair, host: Pair, tmp_path: Path, capsys: Said
) -> None:
    before, other = stores.files(made), Pair(tmp_path, "other")
    restoring = ["restore", "--bootstrap-server", target.plaintext, "--topics", name]
    for argv in (restoring, ["verify"], ["snapshots"]):
        for given, why in (([], "no private key was passed"), (other.opens, other.fingerprint)):
            capsys.readouterr()
            assert main([*argv, "--store", made.as_uri(), *given]) == ExitCode.REFUSED
            said = capsys.readouterr().err.splitlines()[-1]
            assert "is encrypted for" in said
            assert why in said
            assert "--private-key" in said
            assert {recipient.fingerprint, host.fingerprint} <= set(re.findall("[0-9a-f]{32}", said))
    assert name not in clients.topics(target)
    assert stores.files(made) == before


def test_captured_backup_host_opens_manifests_but_no_records(
    made: Path, name: str, target: Broker, restore: Restore, host: Pair, recipient: Pair, capsys: Said
) -> None:
    assert main(["snapshots", "--store", made.as_uri(), *host.opens]) == ExitCode.DONE
    capsys.readouterr()
    assert verify(made, *host.opens) == ExitCode.INCOMPLETE, "records that nobody opened are unknown"
    said = capsys.readouterr().out
    assert_printed(said, "records-not-opened", made.as_uri())
    assert verify(made, *host.opens, "--digests-only") == ExitCode.DONE
    restore(name, *host.opens, code=ExitCode.REFUSED)
    assert f"records in {made.as_uri()} is encrypted for {recipient.fingerprint}" in capsys.readouterr().err
    assert name not in clients.topics(target)
    objects = open_store(made.as_uri())
    ring = Keyring(objects, [host.key])
    for path in encrypted(made):
        run = str(key_id(path.read_bytes()))
        for kind in DataKind:
            with pytest.raises(Locked):
                ring.open(run, kind, "It")
        # Nor are a manifest's keys those of records.
        assert not any(run in other.name for other in made.glob("snapshots/*"))


def flip(path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def swap(path: Path, other: Path) -> None:
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


@pytest.mark.parametrize("change", [flip, cut, swap])
def test_damaged_object_is_reported_before_restore_writes(
    made: Path,
    name: str,
    target: Broker,
    restore: Restore,
    recipient: Pair,
    host: Pair,
    change: Callable[[Path, Path], None],
    capsys: Said,
) -> None:
    first, *_, last = sorted(made.rglob("*.log*.enc"))
    change(last, first)
    restore(name, *recipient.opens, code=ExitCode.FAILED)
    assert f"/{last.relative_to(made)} is damaged" in capsys.readouterr().err
    assert name not in clients.topics(target)
    assert verify(made, *host.opens) == ExitCode.FAILED  # digests alone tell it, too


def test_restore_refuses_segment_exchanged_under_forged_manifest(
    made: Path, name: str, target: Broker, restore: Restore, recipient: Pair, host: Pair, capsys: Said
) -> None:
    """He has the backup host's key, so digests fit; frames tell that the object is another place's."""
    objects = open_store(made.as_uri())
    ring = Keyring(objects, [host.key])
    path = stores.snapshot(made, 3)
    stored = path.read_bytes()
    opened = manifest.unpack(ring.decrypt_manifest("snapshots/0000000003.json.zst", memoryview(stored)), "it")
    plain, one, two = opened.segments
    assert (plain.encrypted, one.encrypted, two.encrypted) == (False, True, True)
    there = (made / two.path).read_bytes()
    (made / one.path).write_bytes(there)
    changed = one._replace(stored_bytes=len(there), sha256=hashlib.sha256(there).hexdigest())
    forged = stores.replace(opened, segments=(plain, changed, two))
    key = ring.open(str(key_id(stored)), DataKind.MANIFEST, "It")
    path.unlink()
    stores.Catalog(objects, opened.store, keys=ring).commit(forged, None, key)
    restore(name, *recipient.opens, code=ExitCode.FAILED)
    assert f"{one.path} is damaged: " in capsys.readouterr().err
    assert name not in clients.topics(target)


@pytest.mark.parametrize("kind", ["segment", "index"])
def test_swapped_objects_of_same_run_do_not_open(
    kind: str, source: Broker, target: Broker, name: str, folder: Path, backup: Run, restore: Restore,
    encrypt: list[str], recipient: Pair, host: Pair, capsys: Said,
) -> None:  # fmt: skip
    """They are of one key and as long as each other, and the manifest is made to fit."""
    clients.create(source, name, 2)
    for partition in (0, 1):
        clients.produce(source, name, [f"of {partition}"] * 9, partition=partition)
    backup(name, *encrypt)
    objects = open_store(folder.as_uri())
    ring = Keyring(objects, [host.key])
    path = stores.snapshot(folder, 1)
    stored = path.read_bytes()
    opened = manifest.unpack(ring.decrypt_manifest("snapshots/0000000001.json.zst", memoryview(stored)), "it")
    first, second = opened.segments
    if kind == "segment":
        (folder / first.path).write_bytes((folder / second.path).read_bytes())
        changed = first._replace(stored_bytes=second.stored_bytes, sha256=second.sha256)
    else:
        (folder / first.index_path).write_bytes((folder / second.index_path).read_bytes())
        changed = first._replace(index_bytes=second.index_bytes, index_sha256=second.index_sha256)
    key = ring.open(str(key_id(stored)), DataKind.MANIFEST, "It")
    path.unlink()
    forged = stores.replace(opened, segments=(changed, second))
    stores.Catalog(objects, opened.store, keys=ring).commit(forged, None, key)
    assert verify(folder, *host.opens, "--digests-only") == ExitCode.DONE, "the control: digests fit"
    assert verify(folder, *recipient.opens) == ExitCode.FAILED
    damaged = first.path if kind == "segment" else first.index_path
    assert f"{damaged} is damaged: frame 1 of 1 was changed" in capsys.readouterr().out
    if kind == "segment":
        restore(name, *recipient.opens, code=ExitCode.FAILED)
        assert name not in clients.topics(target)


def test_a_damaged_or_lost_key_is_named(made: Path, recipient: Pair, capsys: Said) -> None:
    needed = {key_id(path.read_bytes()) for path in (*encrypted(made), stores.snapshot(made, 3))}
    assert len(needed) == 3
    for path in (made / "keys" / f"{each}.1.json" for each in needed):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"A", b"B"))
        assert verify(made, *recipient.opens) == ExitCode.FAILED
        assert path.name in capsys.readouterr().err
        path.unlink()
        assert verify(made, *recipient.opens) == ExitCode.FAILED
        assert path.name.partition(".")[0] in capsys.readouterr().err
        path.write_bytes(content)
    assert verify(made, *recipient.opens) == ExitCode.DONE


def test_other_recipients_without_writing_anything_again(
    made: Path, name: str, target: Broker, restore: Restore, recipient: Pair, host: Pair, tmp_path: Path,
    backup: Run, capsys: Said,
) -> None:  # fmt: skip
    new, before = Pair(tmp_path, "new"), stores.files(made)
    rewrap = ["rewrap", "--store", made.as_uri(), "--recipient", str(new.public)]
    assert main(rewrap) == main([*rewrap, *host.opens]) == ExitCode.REFUSED
    assert stores.files(made) == before
    assert main([*rewrap, *recipient.opens]) == ExitCode.DONE
    after = stores.files(made)
    assert before.items() <= after.items()
    assert {path.rpartition("/")[0] for path in after.keys() - before.keys()} == {"keys"}
    assert main([*rewrap, *recipient.opens]) == ExitCode.DONE
    assert stores.files(made) == after
    for path in (made / "keys").glob("*.1.json"):
        path.unlink()
    capsys.readouterr()
    assert verify(made, *recipient.opens) == ExitCode.REFUSED
    restore(name, *new.opens)
    assert values(target, name) == VALUES


def test_backup_without_encryption_options_leaves_encrypted_store_unchanged(
    made: Path, name: str, backup: Run, host: Pair, recipient: Pair, capsys: Said
) -> None:
    before = stores.files(made)
    backup(name, *host.opens, code=ExitCode.REFUSED)
    assert printed(capsys.readouterr().err)[-1:] == ["backup-option-missing"]
    backup(name, "--recipient", str(recipient.public), code=ExitCode.REFUSED)
    assert_printed(capsys.readouterr().err, "option-required", "--recipient", "--private-key")
    backup(name, code=ExitCode.REFUSED)
    assert stores.files(made) == before


def test_keys_that_are_no_use(made: Path, host: Pair, recipient: Pair, capsys: Said) -> None:
    assert verify(made, "--private-key", str(recipient.public)) == ExitCode.REFUSED
    assert "Pass a receiver's private key" in capsys.readouterr().err
    recipient.private.chmod(0o640)
    assert verify(made, *recipient.opens) == ExitCode.REFUSED
    assert_printed(capsys.readouterr().err, "key-file-permissions")


def test_signatures_are_looked_at_first(
    source: Broker, target: Broker, name: str, folder: Path, tmp_path: Path, backup: Run, restore: Restore,
    encrypt: list[str], recipient: Pair, capsys: Said,
) -> None:  # fmt: skip
    key = Key(tmp_path, "signing")
    clients.create(source, name)
    clients.produce(source, name, VALUES)
    backup(name, *encrypt, "--signing-key", str(key.private))
    restore(name, *key.trusted, *recipient.opens)
    assert values(target, name) == VALUES
    path = stores.snapshot(folder, 1)
    stored = bytearray(path.read_bytes())
    assert signing.split(bytes(stored)).signature
    stored[100] ^= 1
    path.write_bytes(stored)
    capsys.readouterr()
    assert verify(folder, *key.trusted) == ExitCode.FAILED  # without a private key
    assert "has an invalid signature of the key" in capsys.readouterr().err


@pytest.mark.long
def test_tasks_of_spark_are_lent_keys(
    source: Broker, target: Broker, name: str, folder: Path, tmp_path: Path, backup: Run, restore: Restore,
    encrypt: list[str], recipient: Pair,
) -> None:  # fmt: skip
    log = tmp_path / "events"
    log.mkdir()
    spark = ["--master", "local[2]", "--conf", "spark.eventLog.enabled=true"]
    spark += ["--conf", f"spark.eventLog.dir={log.as_uri()}"]
    clients.create(source, name)
    clients.produce(source, name, VALUES)
    backup(name, *encrypt, *spark)
    restore(name, *recipient.opens, *spark)
    assert values(target, name) == VALUES
    secrets = {recipient.private.read_text().split()[-1]}
    ring = Keyring(open_store(folder.as_uri()), [recipient.key])
    for path in encrypted(folder):
        secret = ring.open(str(key_id(path.read_bytes())), DataKind.RECORDS, "It").secret
        secrets |= {secret.hex(), str(secret)}
    told = b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "events" in str(path)
    )
    told += (tmp_path / "report.json").read_bytes()
    assert told
    assert not any(each.encode() in told for each in secrets)
