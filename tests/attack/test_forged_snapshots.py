"""Somebody who may write into the store, but has no key: no snapshot of his is believed."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stores
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kit import clients
from kit.identifiers import printed
from kit.signing_keys import PEM, PKCS8, Key

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.store import names, signing
from servers.broker import Broker

Said = pytest.CaptureFixture[str]
Run = Callable[..., None]
Restore = Callable[..., dict[str, Any]]
SIGNATURE_BYTES = 108
NOWHERE = ["--bootstrap-server", "localhost:1", "--topics", "flights"]  # a cluster that is never asked


@pytest.fixture
def other(tmp_path: Path) -> Key:
    return Key(tmp_path, "another")


@pytest.fixture
def store(tmp_path: Path, key: Key) -> Path:
    return stores.signed(tmp_path / "signed", *[key.signing] * 3)


def verify(store: Path, *more: str) -> int:
    return main(["verify", "--store", store.as_uri(), *more])


def refused(store: Path, key: Key, capsys: Said, why: str, *more: str) -> None:
    """Hold that every verb says why, and writes nothing."""
    before = stores.files(store)
    capsys.readouterr()
    trusted = [*key.trusted, *more]
    sign = ["--signing-key", str(key.private)]
    for argv in (
        ["verify"],
        ["backup", *NOWHERE, *sign],
        ["backup", *NOWHERE],
        ["restore", "--bootstrap-server", os.environ["TARGET"]],
    ):
        assert main([*argv, "--store", store.as_uri(), *trusted]) == ExitCode.FAILED
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(
            ("aqueduct: [snapshot-not-trusted] Snapshot ", "aqueduct: [snapshot-unusable] Snapshot ")
        )
        assert why in said
    assert main(["snapshots", "--store", store.as_uri(), *trusted]) == ExitCode.FAILED
    assert re.sub(r"^Snapshot \d+ ", "", why) in capsys.readouterr().out  # where the number has a column
    assert stores.files(store) == before


@pytest.fixture(autouse=True)
def target_in_environment(target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET", target.plaintext)


def test_signed_snapshots_verify_with_and_without_key(store: Path, key: Key) -> None:
    assert verify(store, *key.trusted) == verify(store) == ExitCode.DONE
    assert main(["snapshots", "--store", store.as_uri(), *key.trusted]) == ExitCode.DONE


def test_a_forged_manifest(store: Path, key: Key, capsys: Said) -> None:
    """The signature of the true one is still there."""
    path = stores.snapshot(store, 3)
    signature = path.read_bytes()[-SIGNATURE_BYTES:]
    forged = stores.forge(store, lambda told: told.update(acls=[]))
    path.write_bytes(forged + signature)
    refused(store, key, capsys, "Snapshot 3 has an invalid signature of the key")


@pytest.mark.parametrize("at", [0, 20, 100, -1, -64, -80])
def test_a_flipped_bit_anywhere(store: Path, key: Key, capsys: Said, at: int) -> None:
    path = stores.snapshot(store, 3)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    refused(store, key, capsys, "Snapshot 3 ")


def test_a_signature_that_was_removed(store: Path, key: Key, capsys: Said) -> None:
    path = stores.snapshot(store, 3)
    path.write_bytes(path.read_bytes()[:-SIGNATURE_BYTES])
    assert verify(store) == ExitCode.DONE
    refused(store, key, capsys, "Snapshot 3 is not signed")


def test_a_snapshot_that_somebody_adds(store: Path, key: Key, capsys: Said) -> None:
    """It fits in all that digests tell."""
    catalog = stores.Catalog.open(stores.open_store(store.as_uri()))
    parent = catalog.parent()
    assert parent.manifest
    catalog.commit(stores.replace(parent.manifest, chain=parent.follow(), segments=(), gaps=()))
    assert verify(store) == ExitCode.DONE
    refused(store, key, capsys, "Snapshot 4 is not signed")


def test_a_snapshot_that_another_key_signed(tmp_path: Path, key: Key, other: Key, capsys: Said) -> None:
    store = stores.signed(tmp_path / "other", key.signing, key.signing, other.signing)
    refused(store, key, capsys, "not a trusted key")


def test_snapshots_that_change_places(store: Path, key: Key, capsys: Said) -> None:
    older, newer = (stores.snapshot(store, number) for number in (2, 3))
    two, three = older.read_bytes(), newer.read_bytes()
    older.write_bytes(three)
    newer.write_bytes(two)
    refused(store, key, capsys, "contains snapshot 2")


def test_older_snapshot_in_place_of_newest_is_refused(store: Path, key: Key, capsys: Said) -> None:
    stores.snapshot(store, 3).write_bytes(stores.snapshot(store, 2).read_bytes())
    refused(store, key, capsys, "contains snapshot 2")


def test_chain_without_middle_snapshot_is_refused(store: Path, key: Key, capsys: Said) -> None:
    stores.snapshot(store, 2).unlink()
    refused(store, key, capsys, "snapshot 2")


def test_signed_snapshot_of_other_chain_is_refused(
    store: Path, tmp_path: Path, key: Key, capsys: Said
) -> None:
    """Signed by the same key, in a copy that went its own way."""
    copy = stores.signed(tmp_path / "copy", key.signing)
    catalog = stores.Catalog.open(stores.open_store(copy.as_uri()))
    parent = catalog.parent()
    assert parent.manifest
    catalog.commit(stores.replace(parent.manifest, chain=parent.follow(), segments=(), run="f"), key.signing)
    stores.snapshot(store, 2).write_bytes(stores.snapshot(copy, 2).read_bytes())
    refused(store, key, capsys, "snapshot 2")


def test_at_least_option_detects_removed_newest_snapshot(
    store: Path, key: Key, target: Broker, capsys: Said
) -> None:
    stores.snapshot(store, 3).unlink()
    assert verify(store, *key.trusted) == ExitCode.DONE  # the store alone can't tell
    restore = ["restore", "--bootstrap-server", target.plaintext, "--store", store.as_uri(), *key.trusted]
    for argv in (["verify", "--store", store.as_uri(), *key.trusted], restore):
        assert main([*argv, "--at-least", "3"]) == ExitCode.FAILED
        assert "Snapshot 2 is older than snapshot 3" in capsys.readouterr().err
    assert verify(store, "--at-least", "2") == ExitCode.DONE


def test_a_new_key_follows_the_former_one(tmp_path: Path, key: Key, other: Key, capsys: Said) -> None:
    store = stores.signed(tmp_path / "both", key.signing, key.signing, other.signing)
    both = tmp_path / "both.pem"
    both.write_bytes(key.public.read_bytes() + other.public.read_bytes())
    assert verify(store, *key.trusted, *other.trusted) == ExitCode.DONE
    assert verify(store, "--trusted-key", str(both)) == ExitCode.DONE
    capsys.readouterr()
    assert verify(store, *other.trusted) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert "builds on snapshot 1, which is signed by the key" in said
    assert signing.name(key.signing.public) in said


def test_a_store_that_begins_to_be_signed(tmp_path: Path, key: Key, capsys: Said) -> None:
    store = stores.signed(tmp_path / "late", None, None, key.signing)
    assert verify(store, *key.trusted) == ExitCode.FAILED
    assert "is not signed" in capsys.readouterr().err
    assert verify(store, *key.trusted, "--unsigned-before", "3") == ExitCode.DONE
    # What is signed vouches for what it builds on.
    stores.forge(store, lambda told: told.update(acls=[]), 2)
    assert verify(store, *key.trusted, "--unsigned-before", "3") == ExitCode.FAILED
    assert "snapshot 2" in capsys.readouterr().err


def test_unsigned_backup_is_refused_in_signed_store(store: Path, capsys: Said) -> None:
    before = stores.files(store)
    assert main(["backup", *NOWHERE, "--store", store.as_uri()]) == ExitCode.REFUSED
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "--signing-key" in error) == (["backup-option-missing"], True)
    assert stores.files(store) == before


def test_unsigned_before_means_nothing_without_a_key(store: Path, capsys: Said) -> None:
    assert verify(store, "--unsigned-before", "3") == ExitCode.REFUSED
    assert "needs --trusted-key" in capsys.readouterr().err


def test_keys_that_are_no_use(store: Path, tmp_path: Path, key: Key, capsys: Said) -> None:
    key.private.chmod(0o640)
    curve = tmp_path / "curve.pem"
    curve.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PKCS8, serialization.NoEncryption())
    )
    curve.chmod(0o600)
    for option, path, why in (
        ("--signing-key", key.private, "can read the key"),
        ("--signing-key", curve, "has no Ed25519 key"),
        ("--signing-key", tmp_path / "none", "Cannot read the key"),
        ("--trusted-key", key.private, "is not a public key"),
        ("--trusted-key", store / "store.json", "is not a public key"),
    ):
        assert main(["backup", *NOWHERE, "--store", store.as_uri(), option, str(path)]) == ExitCode.REFUSED
        said = capsys.readouterr().err
        assert why in said
        assert str(path) in said


def test_what_was_signed_comes_back(
    source: Broker,
    target: Broker,
    name: str,
    folder: Path,
    backup: Run,
    restore: Restore,
    key: Key,
    other: Key,
) -> None:
    clients.create(source, name)
    for number in range(2):
        clients.produce(source, name, [f"{number}"])
        backup(name, "--signing-key", str(key.private))
    backup(name, code=ExitCode.REFUSED)
    backup(name, "--signing-key", str(other.private), code=ExitCode.FAILED)
    backup(name, "--signing-key", str(other.private), *key.trusted)
    restore(name, *key.trusted, code=ExitCode.FAILED)
    assert name not in clients.topics(target)
    restore(name, *key.trusted, *other.trusted, "--at-least", "3")
    assert [message.value() for message in clients.read(target, name)] == [b"0", b"1"]
    assert sorted(path.name for path in (folder / "snapshots").iterdir()) == [
        Path(names.snapshot(number)).name for number in (1, 2, 3)
    ]
