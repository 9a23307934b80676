"""Opens the target of a restore, protected against symbolic links of other users.

A user with write access to a folder can create a symbolic link there at any time. So root opens a target step
by step, each folder from the descriptor of its parent. Only links that root created are followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aqueduct.common.wording import shown
from aqueduct.errors import Refused
from aqueduct.recovery.file_backup.entries import FOLDER

MOST_LINKS = 40  # in one path, as in Linux


@dataclass(frozen=True, kw_only=True)
class OpenedTarget:
    """A folder that exists or is to be created."""

    path: Path  # without links
    descriptor: int  # of the folder, or of the lowest one above it that exists
    missing: tuple[str, ...]  # names below that one
    private: bool  # only root can change the folder and the folders above it

    @property
    def top(self) -> int | Path:
        """The descriptor of the folder; its path if it does not exist."""
        return self.path if self.missing else self.descriptor


@contextmanager
def open_target(path: Path) -> Iterator[OpenedTarget]:
    """Open a target. Refused, for root, if the path has a link of another user."""
    root = os.geteuid() == 0
    steps = list(reversed((path if root else Path(os.path.realpath(path))).parts[1:]))
    walked, links, private = Path("/"), 0, root
    descriptor = os.open("/", FOLDER)
    try:
        while steps:
            above = os.fstat(descriptor)
            private = private and _is_own(above, sticky=True)
            name = steps.pop()
            try:
                following = os.open(name, FOLDER, dir_fd=descriptor)
            except FileNotFoundError:
                steps.append(name)
                break
            except NotADirectoryError:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if not stat.S_ISLNK(status.st_mode):
                    steps.append(name)  # a file: the creation of a folder there fails
                    break
                links += 1
                if root and (status.st_uid != 0 or not _is_own(above, sticky=True)):
                    raise Refused(
                        "restore-folder-link",
                        f"Cannot restore to {shown(str(path))} as root, because user {status.st_uid} may "
                        f"have created the link {shown(str(walked / name))}. Pass the folder itself with "
                        "--to.",
                    ) from None
                if links > MOST_LINKS:
                    raise Refused(
                        "restore-folder-unusable",
                        f"Cannot restore to {shown(str(path))}, because its symbolic links form a loop. Pass "
                        "a folder.",
                    ) from None
                target = os.readlink(name, dir_fd=descriptor)
                steps += reversed([part for part in Path(target).parts if part != "/"])
                following = os.open("/" if target.startswith("/") else ".", FOLDER, dir_fd=descriptor)
                walked = Path("/") if target.startswith("/") else walked
            else:
                walked = walked.parent if name == ".." else walked / name
            os.close(descriptor)
            descriptor = following
        yield OpenedTarget(
            path=walked.joinpath(*reversed(steps)),
            descriptor=descriptor,
            missing=tuple(reversed(steps)),
            private=private and _is_own(os.fstat(descriptor), sticky=False),
        )
    finally:
        os.close(descriptor)


def _is_own(status: os.stat_result, *, sticky: bool) -> bool:
    """Return whether only root can change a folder; `sticky`: or replace root's entries in it."""
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == 0 and (not writable or (sticky and bool(status.st_mode & stat.S_ISVTX)))
