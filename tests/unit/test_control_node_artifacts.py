"""versitygw and files on the control node: what is not as the lock or the inventory says is refused."""

import hashlib
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.control_node import artifacts
from aqueduct.errors import AqueductError, Failed, Refused

ROOT = Path(__file__).resolve().parents[2]
BINARY = b"#!/bin/sh\necho versitygw\n"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Make an archive like the vendor's, with a folder around the binary."""
    folder = tmp_path / "versitygw_v1.8.0_Linux"
    folder.mkdir()
    (folder / "versitygw").write_bytes(BINARY)
    (folder / "LICENSE").write_text("free")
    path = tmp_path / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as members:
        members.add(folder, folder.name)
    return path


def have(cache: Path, **given: Any) -> artifacts.Artifact:
    defaults: dict[str, Any] = {
        "version": "1.8.0",
        "source": "archive",
        "archive_url": None,
        "archive_sha256": None,
        "lock": str(ROOT / "artifacts/versitygw-1.8.0.sha256"),
        "toolchain": str(ROOT / "artifacts/go.txt"),
        "cache": str(cache),
    }
    return artifacts.versitygw(**(defaults | given))


def refusal(cache: Path, id_: str, **given: Any) -> str:
    with raises(AqueductError, id_) as raised:
        have(cache, **given)
    return str(raised.value)


def test_the_archive_is_fetched_once(archive: Path, tmp_path: Path) -> None:
    wanted = {"archive_url": archive.as_uri(), "archive_sha256": sha256(archive)}
    first = have(tmp_path / "cache", **wanted)
    assert first.fetched
    assert first.path.read_bytes() == BINARY
    assert os.access(first.path, os.X_OK)
    archive.unlink()
    assert have(tmp_path / "cache", **wanted) == artifacts.Artifact(
        first.path, fetched=False, sha256=first.sha256
    )


def test_a_wrong_archive_is_refused(archive: Path, tmp_path: Path) -> None:
    said = refusal(
        tmp_path / "cache",
        "artifact-digest-mismatch",
        archive_url=archive.as_uri(),
        archive_sha256="0" * 64,
    )
    assert f"{archive.as_uri()} has SHA-256 {sha256(archive)}" in said
    assert "artifact_versitygw_archive_sha256" in said
    assert not list((tmp_path / "cache").glob("*.tgz"))


def test_changed_archive_in_cache_is_refused(archive: Path, tmp_path: Path) -> None:
    wanted = {"archive_url": archive.as_uri(), "archive_sha256": sha256(archive)}
    have(tmp_path / "cache", **wanted)
    (kept,) = (tmp_path / "cache").glob("*.tgz")
    kept.write_bytes(b"something else")
    assert str(kept) in refusal(tmp_path / "cache", "artifact-digest-mismatch", **wanted)


def test_an_archive_without_the_binary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.tar.gz"
    tarfile.open(path, "w:gz").close()
    declared = {"archive_url": path.as_uri(), "archive_sha256": sha256(path)}
    assert path.as_uri() in refusal(tmp_path / "cache", "artifact-content-wrong", **declared)


def test_an_archive_that_is_not_there_is_refused(tmp_path: Path) -> None:
    declared = {"archive_url": (tmp_path / "none.tar.gz").as_uri(), "archive_sha256": "0" * 64}
    assert "artifact_versitygw_archive_url" in refusal(tmp_path, "artifact-unavailable", **declared)


def test_changed_binary_in_cache_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("".join(f"{'a' * 64}  versitygw-linux-{name}\n" for name in ("amd64", "arm64")))
    kept = tmp_path / f"versitygw-1.8.0-{'a' * 12}"
    kept.write_bytes(BINARY)
    assert str(kept) in refusal(tmp_path, "artifact-digest-mismatch", source="go", lock=str(lock))


@pytest.mark.parametrize("lock", ["none", "empty"])
def test_what_no_lock_names_is_not_built(lock: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    path = str(tmp_path / lock)
    assert path in refusal(tmp_path, "artifact-digest-unknown", source="go", lock=path)


def file_of(tmp_path: Path, **given: str | None) -> artifacts.Artifact:
    wanted: dict[str, str | None] = {"maven": None, "url": None, "sha256": None, **given}
    lock = tmp_path / "files.sha256"
    lock.touch()
    return artifacts.single_file(**wanted, lock=str(lock), cache=str(tmp_path / "cache"))  # type: ignore[arg-type]


def test_a_file_is_fetched_once_and_checked_again(archive: Path, tmp_path: Path) -> None:
    wanted = {"url": archive.as_uri(), "sha256": sha256(archive)}
    fetched = file_of(tmp_path, **wanted)
    assert fetched.fetched
    assert fetched.path.name == archive.name
    archive.unlink()
    assert not file_of(tmp_path, **wanted).fetched
    fetched.path.write_text("changed")
    with raises(Failed, "artifact-digest-mismatch", fetched.path, sha256(fetched.path), wanted["sha256"]):
        file_of(tmp_path, **wanted)


def test_a_file_with_another_digest_is_not_kept(archive: Path, tmp_path: Path) -> None:
    with raises(Failed, "artifact-digest-mismatch", archive.name, sha256(archive), "0" * 64):
        file_of(tmp_path, url=archive.as_uri(), sha256="0" * 64)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name == archive.name]


def test_a_file_without_a_known_digest_is_refused(tmp_path: Path) -> None:
    with raises(Refused, "artifact-digest-unknown") as caught:
        file_of(tmp_path, maven="a:b:1:tar.gz:plugin")
    assert "b-1-plugin.tar.gz" in str(caught.value)


@pytest.mark.parametrize("coordinates", ["a:b", "a:b:1:jar:x:y", "b"])
def test_coordinates_that_are_none_are_refused(coordinates: str, tmp_path: Path) -> None:
    with raises(Refused, "maven-coordinates-invalid"):
        file_of(tmp_path, maven=coordinates, sha256="0" * 64)
