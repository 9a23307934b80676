"""Root writes in no folder in which another user could lead it to other files."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit.identifiers import raises
from kit.root_folders import root_folder

from aqueduct.cli import main
from aqueduct.common import lock
from aqueduct.common.folder_owners import path_of_others
from aqueduct.common.whole_files import write_whole
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.broker_ids import stray_logs
from aqueduct.recovery.file_backup import folder as backups
from aqueduct.recovery.file_backup import plan
from aqueduct.recovery.quorum import seed

USER = 1
CONTENT = "root's alone"


@pytest.fixture
def top() -> Iterator[Path]:
    with root_folder() as path:
        yield path


@pytest.fixture
def victim(top: Path) -> Iterator[Path]:
    """Yield a folder of root with a file. The test must not change them."""
    path = top / "etc"
    path.mkdir()
    (path / "shadow").write_text(CONTENT)
    (path / "shadow").chmod(0o600)
    yield path
    assert [file.name for file in path.iterdir()] == ["shadow"]
    assert (path / "shadow").read_text() == CONTENT
    status = (path / "shadow").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o600)


@pytest.fixture
def own(top: Path) -> Path:
    """Return a data folder of a service."""
    path = top / "data"
    path.mkdir()
    os.chown(path, USER, USER)
    return path


def plant(link: Path, target: Path) -> None:
    link.symlink_to(target)
    os.lchown(link, USER, USER)


def metadata() -> Any:
    voters = SimpleNamespace(voters=[])
    return SimpleNamespace(cluster="C", offset=0, epoch=1, log=b"LOG", checkpoint=b"", image=voters)


def restore_logs(folder: Path) -> None:
    (folder / "meta.properties").write_text("version=1\ncluster.id=C\nnode.id=1\n")
    stray_logs.restore_logs([folder], 7)


@pytest.mark.parametrize("name", ["meta.properties.tmp", ".lock"])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(lambda folder: seed.write_seed(folder, 1, metadata()), id="restore"),
        pytest.param(lambda folder: seed.check_folder(folder, 1, metadata()), id="dry-run"),
        pytest.param(lambda folder: seed.set_aside(folder, broker_only=True), id="set-aside"),
        pytest.param(restore_logs, id="restore-logs"),
    ],
)
def test_root_is_refused_in_data_folder_of_service(own: Path, victim: Path, name: str, command: Any) -> None:
    for target in (victim / "shadow", victim / "new"):
        plant(own / name, target)
        with raises(Refused, "folder-of-other-user") as refused:
            command(own)
        assert f"in_sandbox daemon {own} aqueduct " in str(refused.value)
        (own / name).unlink()


def test_the_user_of_the_service_is_not_refused(own: Path) -> None:
    child = os.fork()
    if child == 0:
        os.setgid(USER)
        os.setuid(USER)
        os._exit(0 if seed.write_seed(own, 1, metadata()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (own / "meta.properties").stat().st_uid == USER


def test_symlinks_in_folder_of_root_are_not_followed(top: Path, victim: Path) -> None:
    data = top / "own"
    data.mkdir()
    (data / "meta.properties.tmp").symlink_to(victim / "shadow")
    assert seed.write_seed(data, 1, metadata())
    assert not (data / "meta.properties").is_symlink()
    (data / ".lock").unlink()
    (data / ".lock").symlink_to(victim / "new")
    with raises(Refused, "data-folder-unwritable"), stray_logs.locked(data):
        pass


def test_parent_folder_of_another_user_counts(top: Path, own: Path) -> None:
    inner = own / "of-root"
    inner.mkdir()
    assert path_of_others(inner) == own
    (top / "link").symlink_to(own)
    assert path_of_others(top / "link") == own
    assert path_of_others(top / "link/../etc") == own
    (top / "open").mkdir()
    (top / "open").chmod(0o1777)
    assert path_of_others(top / "open") == top / "open"
    (top / "open/closed").mkdir()
    assert path_of_others(top / "open/closed") is None
    assert path_of_others(top / "missing") is None


@pytest.mark.parametrize("hold", [lock.held, lock.shared])
def test_a_lock_is_made_through_no_link(own: Path, victim: Path, hold: Any) -> None:
    plant(own / ".reading", victim / "new")
    with raises(Refused, "lock-file-unusable"), hold(own / ".reading", "-"):
        pass


@pytest.mark.parametrize("hold", [lock.held, lock.shared])
def test_pipe_or_hard_link_is_no_lock(own: Path, victim: Path, hold: Any) -> None:
    os.mkfifo(own / "pipe")
    os.link(victim / "shadow", own / "hard")
    for name in ("pipe", "hard"):
        with raises(Refused, "lock-file-unusable"), hold(own / name, "-"):
            pass
    (own / "hard").unlink()


def test_root_creates_no_lock_in_folder_of_others(own: Path, victim: Path, top: Path) -> None:
    plant(own / "name", victim)
    for folder in (own, own / "name"):
        with lock.shared(folder / ".reading", "-"):
            pass
        with raises(Refused, "lock-file-unusable"), lock.held(folder / ".reading", "-"):
            pass
        assert not (folder / ".reading").exists()
    with lock.shared(top / ".reading", "-"):
        assert (top / ".reading").exists()


def test_pipe_symlink_or_huge_list_is_not_read(own: Path, victim: Path) -> None:
    date = plan.date_name(0)
    (own / date).mkdir()
    kept, head = backups.BackupsOf(own), own / date / backups.HEAD
    os.mkfifo(head)
    with raises(Failed, "file-backup-damaged"):
        kept.snapshot(date)
    head.unlink()
    plant(head, victim / "shadow")
    with raises(Failed, "file-backup-damaged"):
        kept.snapshot(date)
    head.unlink()
    with head.open("wb") as file:
        file.truncate(1 << 40)
    with raises(Failed, "file-backup-damaged"):
        kept.snapshot(date)


def test_folder_replaced_by_symlink_is_not_emptied(
    top: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race, won: the user exchanges it between the question what it is, and the look into it."""
    tree = top / "tree"
    (tree / "folder").mkdir(parents=True)
    scan = os.scandir
    opened: list[object] = []

    def scandir(path: Any) -> Any:
        opened.append(path)
        children = list(scan(path))
        if len(opened) == 1:
            (tree / "folder").rename(top / "moved")
            (tree / "folder").symlink_to(victim)
        return _Children(children)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(OSError, match="Not a directory"):
        backups.remove_tree(tree)


class _Children(list[Any]):
    def __enter__(self) -> "_Children":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_folder_moved_during_removal_stops_removal(
    top: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`..` would lead to the folder that it was moved to."""
    tree = top / "tree"
    (tree / "one/folder").mkdir(parents=True)
    (top / "other").mkdir()
    (top / "other/folder").mkdir()
    remove = backups._without_files

    def without_files(descriptor: int) -> list[str]:
        names = remove(descriptor)
        if not names:
            (tree / "one/folder").rename(top / "other/folder")
        return names

    monkeypatch.setattr(backups, "_without_files", without_files)
    with pytest.raises(OSError, match="moved"):
        backups.remove_tree(tree)
    assert (top / "other/folder").is_dir()


def test_root_removes_no_backups_of_another_user(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "etc").mkdir()
    os.chown(own / "etc", USER, USER)
    arguments = ["files", "prune", f"--backups={own}", "--keep-last=1", "--execute"]
    assert main(arguments) == 2
    assert "[folder-of-other-user] " in capsys.readouterr().err
    source = own.parent / "etc2"
    source.mkdir()
    assert main(["files", "backup", f"--backups={own}", "--name=etc", f"--source={source}"]) == 2
    assert list((own / "etc").iterdir()) == []


def test_folder_may_vanish_while_it_is_checked(top: Path) -> None:
    """Another process moves the last object out of it, for example."""
    folder = top / "staged"

    def come_and_go() -> None:
        for _ in range(2_000):
            folder.mkdir()
            folder.rmdir()

    with ThreadPoolExecutor(1) as pool:
        coming_and_going = pool.submit(come_and_go)
        while not coming_and_going.done():
            assert path_of_others(folder) is None
        coming_and_going.result()


def test_a_written_file_replaces_a_link(top: Path, victim: Path) -> None:
    (top / "ids.json").symlink_to(victim / "shadow")
    (top / "scratch").symlink_to(victim / "shadow")
    write_whole(top / "ids.json", b"{}", scratch="scratch", mode=0o640)
    assert not (top / "ids.json").is_symlink()
    assert (top / "ids.json").stat().st_mode & 0o777 == 0o640
    assert not (top / "scratch").is_symlink()
