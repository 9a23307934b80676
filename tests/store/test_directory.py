import errno
import os
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed, Refused
from aqueduct.recovery.file_backup.folder import remove_tree
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.objects import STALE_SECONDS


def test_created_object_and_its_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync a file before it gets its name; then every folder, from its own to that which holds the store."""
    events = []
    fsync, link = os.fsync, os.link

    def see_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()) if is_folder else "file")
        fsync(descriptor)

    def see_link(source: Path, target: Path) -> None:
        events.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr(os, "link", see_link)
    store = open_store(f"file://{tmp_path}/store")
    store.create("a/b/c", b"x")
    folders = [tmp_path / "store/a/b", tmp_path / "store/a", tmp_path / "store", tmp_path]
    assert events == ["file", "link", *map(str, folders)]
    events.clear()
    store.create("a/b/d", b"x")
    assert events == ["file", "link", str(folders[0])]


@pytest.mark.parametrize(
    ("number", "facts"), [(errno.ENOSPC, ()), (errno.EROFS, ()), (errno.EACCES, (f"user {os.geteuid()}",))]
)
def test_what_can_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, facts: tuple[str, ...]
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    store = open_store(f"file://{tmp_path}/store")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with raises(Failed, "store-request-failed", "a/b", store.url, os.strerror(number), *facts):
            store.create("a/b", b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    store.create("a/b", b"x")
    assert bytes(store.read("a/b")) == b"x"


def test_unfinished_file_is_not_listed_as_object(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/store")
    store.create("a", b"x")
    (tmp_path / "store/.writing/left-by-a-crash").write_bytes(b"half")
    assert [each.path for each in store.list("")] == ["a"]


def test_old_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/store").create("a", b"x")
    writing = tmp_path / "store/.writing"
    old = time.time() - STALE_SECONDS - 60
    for name in ("0123abcd", "probe-0123abcd"):
        (writing / name).write_bytes(b"left")
        os.utime(writing / name, (old, old))
        (writing / f"{name}-new").write_bytes(b"in use")
    open_store(f"file://{tmp_path}/store").create("b", b"y")
    assert sorted(path.name for path in writing.iterdir()) == ["0123abcd-new", "probe-0123abcd-new"]


def test_a_folder_with_a_typo_is_refused(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/mnt/store")
    with raises(Refused, "store-directory-missing", tmp_path / "mnt"):
        store.create("a", b"x")
    assert not (tmp_path / "mnt").exists()


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    with raises(Failed, "store-request-failed", f"file://{tmp_path}/store"):
        open_store(f"file://{tmp_path}/store").create("a", b"x")


def test_folder_emptied_by_others_remains_usable(tmp_path: Path) -> None:
    store = open_editable(f"file://{tmp_path}/store")

    def come_and_go(name: str) -> None:
        for number in range(100):
            store.create(f"a/{name}", name.encode())
            store.move(f"a/{name}", f"b/{name}")
            if number < 99:
                store.remove(f"b/{name}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, "wxyz"))
    assert [each.path for each in store.list("")] == [f"b/{name}" for name in "wxyz"]


def test_two_may_move_the_same_objects(tmp_path: Path) -> None:
    """Who comes second finds nothing left to do, while the folder of the old names goes."""
    stores = [open_editable(f"file://{tmp_path}/store") for _ in range(2)]
    for number in range(300):
        paths = [f"staged/{number}/{each}" for each in "ab"]
        for path in paths:
            stores[0].create(path, b"x")
        with ThreadPoolExecutor(4) as pool:
            moves = [(store, path) for store in stores for path in paths]
            list(pool.map(lambda move: move[0].move(move[1], f"moved/{move[1]}"), moves))
    assert len([*stores[0].list("")]) == 600


def test_object_may_be_removed_before_it_is_synced(tmp_path: Path) -> None:
    store = open_editable(f"file://{tmp_path}/store")

    def create() -> None:
        for number in range(500):
            store.create(f"a/{number}", b"x")

    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(create)
        while not creating.done():
            for entry in store.list("a"):
                store.remove(entry.path)
        creating.result()


def test_object_removed_during_listing_is_skipped(tmp_path: Path) -> None:
    store = open_editable(f"file://{tmp_path}/store")
    for name in ("a/1", "a/2", "a/3"):
        store.create(name, b"x")
    listed = store.list("a")
    assert next(iter(listed)).path == "a/1"
    (tmp_path / "store/a/2").unlink()
    assert [each.path for each in listed] == ["a/3"]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a store, which pytest itself can not remove: it has many levels."""
    yield (folder := tmp_path / "store")
    if folder.exists():
        remove_tree(folder)


def test_folders_of_any_depth_are_listed(deep: Path) -> None:
    """A writer of the store can make more levels than calls of Python."""
    store = open_editable(f"file://{deep}")
    store.create("a/1", b"x")
    store.create("c/1", b"x")
    (deep / "b").mkdir()
    descriptor = os.open(deep / "b", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=descriptor)
        following = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = following
    os.close(os.open("1", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    deepest = "/".join(["b", *["d"] * 1200, "1"])
    assert [entry.path for entry in store.list("")] == ["a/1", deepest, "c/1"]
    assert [entry.path for entry in store.list("", after=deepest)] == ["c/1"]
