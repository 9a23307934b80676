"""The own authority is replaced in three steps, each of which waits until all hosts have the one before."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from kit.identifiers import raises

from aqueduct.control_node import certificates
from aqueduct.control_node.certificates import CLIENT, Wanted
from aqueduct.control_node.replacement import STEPS, note_rolled_out, take_step
from aqueduct.errors import Refused

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADMIN = Wanted(principal="admin", names=(), usages=CLIENT, validity_days=365, renewal_days=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates.have_authority(tmp_path, NOW)
    return tmp_path


def trusted(folder: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates((folder / "ca.pem").read_bytes())


def client(folder: Path) -> str:
    """Return an administrator's key and certificate, as the control node makes them by now."""
    certificates.have_client(folder, ADMIN, certificates.load_authority(folder), folder / "ca.pem", NOW)
    return (folder / "admin.pem").read_text()


def is_trusted(folder: Path, pem: str) -> bool:
    """By what OpenSSL says, as brokers' clients and `ca.pem` meet."""
    (folder / "shown.pem").write_text(pem[pem.index("-----BEGIN CERT") :])
    when = f"{int(NOW.timestamp())}"
    command = ["openssl", "verify", "-x509_strict", "-attime", when, "-CAfile", "ca.pem", "shown.pem"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_certificates_stay_trusted_until_old_authority_is_retired(folder: Path) -> None:
    old = client(folder)
    assert take_step("introduce", folder, NOW)
    assert len(trusted(folder)) == 2
    assert client(folder) == old, "the old one still signs"
    note_rolled_out(folder)
    assert take_step("switch", folder, NOW)
    new = client(folder)
    assert new != old
    keys = [load_pem_private_key(pem.encode(), None).private_bytes(*FORM) for pem in (old, new)]
    assert keys[0] != keys[1], "the old key would serve whoever has it"
    assert is_trusted(folder, old)
    assert is_trusted(folder, new)
    note_rolled_out(folder)
    assert take_step("retire", folder, NOW)
    assert is_trusted(folder, new)
    assert not is_trusted(folder, old)
    assert client(folder) == new
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".key") == ["admin.key", "ca.key"]


FORM = (
    certificates.PEM,
    certificates.serialization.PrivateFormat.PKCS8,
    certificates.serialization.NoEncryption(),
)


def test_a_step_that_was_taken_is_none_again(folder: Path) -> None:
    for step in STEPS:
        assert take_step(step, folder, NOW)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        assert not take_step(step, folder, NOW)
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        assert note_rolled_out(folder)
        assert not note_rolled_out(folder)


def test_step_is_refused_before_hosts_have_previous_one(folder: Path) -> None:
    with raises(Refused, "authority-step-early") as caught:
        take_step("switch", folder, NOW)
    assert "step introduce" in str(caught.value)
    note_rolled_out(folder)  # of the state before
    take_step("introduce", folder, NOW)
    with raises(Refused, "authority-step-early") as caught:
        take_step("switch", folder, NOW)
    assert "step introduce" in str(caught.value)
    with raises(Refused, "authority-step-early") as caught:
        take_step("retire", folder, NOW)
    assert "step switch" in str(caught.value)
    note_rolled_out(folder)
    take_step("switch", folder, NOW)
    with raises(Refused, "authority-step-early") as caught:
        take_step("retire", folder, NOW)
    assert "step switch" in str(caught.value)
    with raises(Refused, "authority-step-early") as caught:
        take_step("introduce", folder, NOW)
    assert "step retire" in str(caught.value)


def test_interrupted_introduction_continues_with_same_key(folder: Path) -> None:
    before = (folder / "ca.pem").read_bytes()
    take_step("introduce", folder, NOW)
    key = (folder / "next.key").read_bytes()
    (folder / "ca.pem").write_bytes(before)  # the key was there, and nobody trusted it yet
    assert take_step("introduce", folder, NOW)
    assert (folder / "next.key").read_bytes() == key
    assert len(trusted(folder)) == 2
