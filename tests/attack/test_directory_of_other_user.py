"""A captured service leads root, which writes in its store of files, to root's own files by links."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.identifiers import raises
from kit.root_folders import root_folder

from aqueduct.errors import Refused
from aqueduct.store.backends import open_editable
from aqueduct.store.objects import EditableObjects

SERVICE = 1  # daemon
CONTENT = b"root's alone"


@pytest.fixture
def top() -> Iterator[Path]:
    with root_folder() as path:
        yield path


@pytest.fixture
def victim(top: Path) -> Iterator[Path]:
    """Yield a folder of root with a file. The test must not change them."""
    path = top / "etc"
    path.mkdir()
    (path / "shadow").write_bytes(CONTENT)
    yield path
    assert [file.name for file in path.iterdir()] == ["shadow"]
    assert (path / "shadow").read_bytes() == CONTENT


@pytest.fixture
def store(top: Path) -> Path:
    """Return a store whose folders belong to a service."""
    folder = top / "store"
    open_editable(folder.as_uri(), private=True).create("snapshots/1.json", b"{}")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, SERVICE, SERVICE)
    return folder


def link(folder: Path, target: Path) -> None:
    """Put a link in the place of a folder, as its owner can."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.symlink_to(target)
    os.lchown(folder, SERVICE, SERVICE)


ACTIONS: dict[str, tuple[str, Callable[[EditableObjects], object]]] = {
    "backup": ("snapshots", lambda objects: objects.create("snapshots/2.json", b"{}")),
    "lease": ("leases", lambda objects: objects.create("leases/2.json", b"{}")),
    "part": (".writing", lambda objects: objects.create("snapshots/2.json", b"{}")),
    "prune": ("snapshots", lambda objects: objects.remove("snapshots/shadow")),
    "repair": ("snapshots", lambda objects: objects.move("snapshots/shadow", "trash/shadow")),
    "repaired": ("trash", lambda objects: objects.move("snapshots/1.json", "trash/1.json")),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_root_is_refused_in_store_of_service(store: Path, victim: Path, action: str) -> None:
    folder, act = ACTIONS[action]
    link(store / folder, victim)
    with raises(Refused, "folder-of-other-user", f"in_sandbox daemon {store}"):
        act(open_editable(store.as_uri(), private=True))


def test_service_folder_in_store_of_root_is_refused(top: Path, victim: Path) -> None:
    store = top / "store"
    objects = open_editable(store.as_uri(), private=True)
    objects.create("snapshots/1.json", b"{}")
    objects.create("topics/a/1.log", b"")
    os.chown(store / "topics", SERVICE, SERVICE)
    link(store / "topics/a", victim)
    objects = open_editable(store.as_uri(), private=True)
    objects.create("snapshots/2.json", b"{}")
    with raises(Refused, "folder-of-other-user", "topics"):
        objects.remove("topics/a/shadow")


def test_service_and_root_write_in_own_stores(store: Path, top: Path) -> None:
    root_objects = open_editable((top / "other").as_uri(), private=True)
    root_objects.create("snapshots/1.json", b"{}")
    root_objects.remove("snapshots/1.json")
    child = os.fork()
    if child == 0:
        os.setgid(SERVICE)
        os.setuid(SERVICE)
        try:
            objects = open_editable(store.as_uri(), private=True)
            objects.create("snapshots/2.json", b"{}")
            objects.remove("snapshots/1.json")
        finally:
            os._exit(0 if (store / "snapshots/2.json").exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
