"""A folder that only root can enter, in which root restores files before they go where others may write.

From there, files and whole folders are renamed into the folders of others, by the descriptors of both: in the
last step of a path, no rename follows a link.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from aqueduct.errors import Failed
from aqueduct.recovery.file_backup import entries
from aqueduct.recovery.file_backup.entries import FOLDER
from aqueduct.recovery.file_backup.folder import remove_tree

TREE = "tree"


@contextmanager
def staging(parent: int) -> Iterator[int]:
    """Make a folder in an open one, with an empty TREE; it is removed at the end."""
    name = f".aqueduct-restore-{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=parent)
    try:
        descriptor = os.open(name, FOLDER, dir_fd=parent)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != 0 or status.st_mode & 0o077:  # it was exchanged
                raise Failed(
                    "file-restore-failed",
                    f"Nothing was restored: another user exchanged {name}, which the restore had made. Stop "
                    "the programs of that user, and run it again.",
                )
            os.mkdir(TREE, 0o700, dir_fd=descriptor)
            try:
                yield descriptor
            finally:
                with suppress(OSError):
                    remove_tree(Path(f"/proc/self/fd/{descriptor}") / TREE)
        finally:
            os.close(descriptor)
    finally:
        with suppress(OSError):  # another folder may have its name by now: only an empty one is removed
            os.rmdir(name, dir_fd=parent)


@contextmanager
def made(descriptor: int, names: tuple[str, ...]) -> Iterator[int]:
    """Make folders in each other, and open the last one; of none: the open folder itself."""
    current = os.dup(descriptor)
    try:
        for name in names:
            os.mkdir(name, 0o755, dir_fd=current)
            following = os.open(name, FOLDER, dir_fd=current)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def move(path: str, source: Path, target: int) -> None:
    """Move what is at a path of a folder to that path of an open one, in the place of what is there.

    An empty folder is replaced by a file, and a file or a link by a folder. OSError if a link is on the way.
    """
    parent, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    with (
        entries.folder(source, parent) as from_folder,
        entries.folder(target, parent) as to_folder,
    ):
        try:
            os.rename(name, name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
            return
        except IsADirectoryError:
            os.rmdir(name, dir_fd=to_folder)
        except NotADirectoryError:
            os.unlink(name, dir_fd=to_folder)
        os.rename(name, name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
