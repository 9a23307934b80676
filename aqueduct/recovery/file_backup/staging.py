"""A folder that only root can enter, for files that root restores to folders of other users.

From there, files and folders are renamed into the target, by descriptors of both folders. A rename does not
follow a link in the last part of a path.
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
def staging_folder(parent: int) -> Iterator[int]:
    """Create a folder in an open folder, with an empty subfolder TREE. It is removed at the end."""
    name = f".aqueduct-restore-{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=parent)
    try:
        descriptor = os.open(name, FOLDER, dir_fd=parent)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != 0 or status.st_mode & 0o077:  # another user replaced it
                raise Failed(
                    "file-restore-failed",
                    f"Nothing was restored, because another user replaced the folder {name} of this restore. "
                    "Stop the programs of that user, and run the command again.",
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
        with suppress(OSError):  # another folder may have this name now: rmdir removes only an empty one
            os.rmdir(name, dir_fd=parent)


@contextmanager
def create_folders(descriptor: int, names: tuple[str, ...]) -> Iterator[int]:
    """Create nested folders in an open one, and open the last one. Without names: the open folder itself."""
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
    """Move an entry of a folder to the same path in an open folder, and replace the entry there.

    A file can replace an empty folder, and a folder can replace a file or a link. OSError for a link in the
    path.
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
