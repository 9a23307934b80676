"""A user of a host whose files are backed up, who is to become nobody else by what comes back."""

import multiprocessing
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from kit.root_folders import root_folder

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.recovery.file_backup import rsync, verify
from servers import ssh
from servers.ssh import SshServer

USER = 1
# What rsync's --fake-super would make of a file that has these: as it is written by `user.rsync.%stat`.
SETUID, LINK, DISK = b"104755 0,0 0:0", b"120777 0,0 0:0", b"60666 254,0 0:0"
SETUID_BY_CAPABILITY = bytes.fromhex("0100000280000000000000000000000000000000")  # VFS_CAP_REVISION_2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh.running(tmp_path_factory.mktemp("ssh")) as started:
        yield started


def plant(folder: Path, name: str, content: str, attributes: dict[str, bytes]) -> None:
    """Make a file as any user may."""
    (folder / name).write_text(content)
    os.chown(folder / name, USER, USER)
    for each, value in attributes.items():
        os.setxattr(folder / name, each, value)


@pytest.mark.parametrize("way", ["ssh", "local"])
@pytest.mark.parametrize("options", [[], ["--xattrs"]])
def test_restore_grants_no_privileges_from_planted_extended_attributes(
    server: SshServer, tmp_path: Path, way: str, options: list[str]
) -> None:
    folder, target = tmp_path / "etc", tmp_path / "target"
    folder.mkdir()
    for name, attribute, content in (
        ("suid", SETUID, "#!/bin/sh"), ("link", LINK, "/etc/shadow"), ("disk", DISK, "")
    ):  # fmt: skip
        plant(folder, name, content, {"user.rsync.%stat": attribute})
    disguised = {"user.rsync.security.capability": SETUID_BY_CAPABILITY, "user.rsync.trusted.mine": b"x"}
    plant(folder, "able", "#!/bin/sh", disguised)
    source = ["--source", str(folder)]
    if way == "ssh":
        key = server.reader(f"{tmp_path.name}", folder)
        at = ["--ssh-port", str(server.port), "--ssh-key", str(key), "--known-hosts", str(server.known_hosts)]
        source = ["--source", f"{server.login}:{folder}", *at]
    backups = ["--backups", str(tmp_path / "backups"), "--name", "etc"]
    assert main(["files", "backup", *backups, *source, *options]) == 0
    assert main(["files", "restore", *backups, "--to", str(target)]) == 0
    for name in ("suid", "link", "disk", "able"):
        found = (target / name).lstat()
        assert stat.S_ISREG(found.st_mode)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7000) == (USER, USER, 0)
        assert (target / name).read_text() == (folder / name).read_text()
        assert os.listxattr(target / name) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with root_folder() as folder:
        yield folder


@pytest.fixture
def victim(open_folder: Path) -> Iterator[Path]:
    """Yield a folder of root's of which nothing is to change."""
    folder = open_folder / "of-root"
    folder.mkdir(mode=0o755)
    (folder / "file").write_text("root's")
    before = state(folder)
    yield folder
    assert state(folder) == before


def state(folder: Path) -> dict[str, tuple[int, int, int, int, str]]:
    """Return what a folder has: modes, owners, times and contents."""
    return {
        path.relative_to(folder).as_posix(): (
            status.st_mode,
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            path.read_text() if path.is_file() else "",
        )
        for path in (folder, *folder.rglob("*"))
        for status in [path.lstat()]
    }


def given(folder: Path) -> Path:
    """Make a folder that is the service's."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, USER, USER)
    return folder


def backed_up(open_folder: Path, files: int = 1, owner: int = USER) -> list[str]:
    """Back up a folder, with files that a service named; return the options of a restore."""
    conf = given(given(open_folder / "source") / "conf")
    for number in range(files):
        plant(conf, f"file-{number}" if number else "file", f"the service's {number}", {})
    for path in (conf.parent, conf, *conf.iterdir()):
        os.chown(path, owner, owner)
    backups = ["--backups", str(open_folder / "backups"), "--name", "service"]
    assert main(["files", "backup", *backups, "--source", str(open_folder / "source")]) == ExitCode.DONE
    return backups


def as_service(act: Callable[..., None], *arguments: Path) -> BaseProcess:
    """Do something as the service's user."""

    def begin() -> None:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        act(*arguments)

    process = multiprocessing.get_context("fork").Process(target=begin)
    process.start()
    return process


def exchange(folder: Path, victim: Path) -> None:
    """Put a link in the place of a folder, and the folder back, again and again."""
    away = folder.with_name("away")
    while True:
        with suppress(OSError):
            folder.rename(away)
        with suppress(OSError):
            folder.symlink_to(victim)
        with suppress(OSError):
            folder.unlink()
        with suppress(OSError):
            away.rename(folder)


@pytest.mark.parametrize("way", ["target", "above"])
@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_restore_refuses_target_behind_symlink_of_service(
    open_folder: Path, victim: Path, way: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    backups = backed_up(open_folder)
    link = given(open_folder / "service") / "link"
    as_service(Path.symlink_to, link, victim if way == "target" else open_folder).join()
    assert link.is_symlink()
    target = link if way == "target" else link / "of-root"
    argv = ["files", "restore", *backups, "--to", str(target), "--path", "conf", *options]
    for dry in (["--dry-run"], []):
        assert main([*argv, *dry]) == ExitCode.REFUSED
        assert "[restore-folder-link] " in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["folder", "missing", "missing above"])
def test_root_restores_into_a_folder_of_a_service(open_folder: Path, kind: str) -> None:
    backups = backed_up(open_folder)
    service = given(open_folder / "service")
    target = service / "a/target" if kind == "missing above" else service / "target"
    if kind == "folder":
        given(given(target) / "conf").chmod(0o700)
        plant(target / "conf", "file", "another", {})
        plant(target / "conf", "own", "own", {})
    argv = ["files", "restore", *backups, "--to", str(target), "--overwrite"]
    assert main([*argv, "--dry-run"]) == ExitCode.DONE
    assert main(argv) == ExitCode.DONE
    assert main(argv[:-1]) == ExitCode.DONE  # all is as it was
    source, restored = state(open_folder / "source"), state(target)
    if kind == "folder":  # which stays as it is, with what it had
        del source["."], restored["."], restored["conf/own"]
    assert restored == source
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    assert {path.name for path in target.iterdir()} == {"conf"}


def test_overwrite_replaces_symlink_or_file_at_folder_path(open_folder: Path, victim: Path) -> None:
    backups = backed_up(open_folder)
    target = given(open_folder / "target")
    for _ in range(2):
        if (target / "conf").is_dir():
            shutil.rmtree(target / "conf")
            (target / "conf").write_text("a file")
        else:
            (target / "conf").symlink_to(victim)
        argv = ["files", "restore", *backups, "--to", str(target), "--path", "conf/file"]
        assert main(argv) == ExitCode.REFUSED
        assert main([*argv, "--overwrite"]) == ExitCode.DONE
        assert state(target / "conf") == state(open_folder / "source/conf")


@pytest.mark.parametrize("kind", ["folder", "missing"])
def test_restore_never_follows_symlink_swapped_in_during_writing(
    open_folder: Path, victim: Path, kind: str
) -> None:
    """The service exchanges its folder for a link to root's, again and again, while root writes into it."""
    backups = backed_up(open_folder, files=400)
    target = open_folder / "target"
    if kind == "folder":
        given(given(target) / "conf")
    service = as_service(exchange, target / "conf", victim)
    try:
        for _ in range(3):
            argv = ["files", "restore", *backups, "--to", str(target), "--overwrite"]
            assert main(argv) in (ExitCode.DONE, ExitCode.FAILED, ExitCode.REFUSED)
    finally:
        service.kill()
        service.join()


@pytest.mark.parametrize("options", [["--path", "conf/file"], ["--overwrite"]])
def test_restore_never_follows_symlink_made_just_before_writing(
    open_folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The folder was one when root looked, and is a link to root's when rsync begins.

    rsync itself refuses this since 3.4, and not before.
    """
    backups = backed_up(open_folder)
    target = given(open_folder / "target")
    conf = given(target / "conf")
    run = rsync.run

    def exchange_once() -> None:
        conf.rename(target / "away")
        conf.symlink_to(victim)

    def run_late(*arguments: Any, **more: Any) -> Any:
        if not conf.is_symlink():
            as_service(exchange_once).join()
            assert conf.is_symlink()
        return run(*arguments, **more)

    monkeypatch.setattr(rsync, "run", run_late)
    assert main(["files", "restore", *backups, "--to", str(target), *options]) == ExitCode.FAILED
    assert conf.is_symlink()
    assert {path.name for path in target.iterdir()} == {"conf", "away"}


@pytest.mark.parametrize("names", ["new", "new/target"])
@pytest.mark.parametrize("owner", [0, USER])
def test_restore_never_follows_symlink_planted_in_shared_folder(
    open_folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, names: str, owner: int
) -> None:
    """As in /tmp: the target was missing when root looked."""
    backups = backed_up(open_folder, owner=owner)
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    check = verify.damaged_files

    def check_late(*arguments: Any) -> Any:
        as_service(Path.symlink_to, shared / "new", victim).join()
        return check(*arguments)

    monkeypatch.setattr(verify, "damaged_files", check_late)
    argv = ["files", "restore", *backups, "--to", str(shared / names), "--path", "conf"]
    assert main(argv) == (ExitCode.FAILED if names == "new" else ExitCode.REFUSED)
    assert [path.name for path in shared.iterdir()] == ["new"]


def test_restore_never_deletes_folder_swapped_for_temporary_one(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service may rename folders of root in its own folder, and not remove what is in them."""
    backups = backed_up(open_folder)
    target = given(open_folder / "target")
    other = target / "other"
    other.mkdir()
    (other / "file").write_text("root's")
    run = rsync.run

    def exchange_once() -> None:
        [own] = target.glob(".aqueduct-restore-*")
        own.rename(target / "moved")
        other.rename(own)

    def run_late(*arguments: Any, **more: Any) -> Any:
        if other.exists():
            as_service(exchange_once).join()
            assert not other.exists()
        return run(*arguments, **more)

    monkeypatch.setattr(rsync, "run", run_late)
    assert main(["files", "restore", *backups, "--to", str(target)]) == ExitCode.DONE
    assert (target / "conf/file").read_text() == "the service's 0"
    assert [path.read_text() for path in target.glob(".aqueduct-restore-*/file")] == ["root's"]
