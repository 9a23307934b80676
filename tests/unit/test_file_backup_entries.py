"""Deeply nested folders, which any user can make, stop no backup of files, and no removal of one."""

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from aqueduct.recovery.file_backup import entries, folder, staging

DEPTH = 1_500  # Python's limit is 1,000; a path may have 4,096 bytes


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "top"
    made.mkdir()
    with chdir(made):
        for _ in range(DEPTH):
            Path("a").mkdir()
            os.chdir("a")
        Path("file").write_text("x")
        Path("link").symlink_to("/")
    yield made
    if made.exists():  # shutil.rmtree, which pytest uses, can not remove it
        folder.remove_tree(made)


def test_deep_folders_are_listed(top: Path) -> None:
    (top / "b").mkdir()
    deepest = "/".join(["a"] * DEPTH)
    found = [entry.path for entry, _ in entries.scan(top)]
    assert len(found) == 1 + DEPTH + 1 + 2
    assert found[0] == "."
    assert found == sorted(found)
    assert found[-2:] == [f"{deepest}/link", "b"]


def test_deep_folders_are_removed(top: Path) -> None:
    folder.remove_tree(top)
    assert not top.exists()
    assert Path("/").is_dir()


def test_a_staged_copy_is_removed_however_deep(top: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    parent = os.open(own, os.O_RDONLY)
    try:
        with staging.staging_folder(parent) as private:
            os.rename(top, "tree/deep", dst_dir_fd=private)
        assert list(own.iterdir()) == []
    finally:
        os.close(parent)
        folder.remove_tree(own)  # pytest's own removal ends at the depth of calls


def test_what_cannot_be_listed_is_an_error(top: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        [*entries.scan(top / "not there")]
