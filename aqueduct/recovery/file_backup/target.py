"""The target of a restore, opened so that no other user can lead root elsewhere.

Whoever may write in a folder can put a symbolic link there at any moment. So root opens a target step by
step, each folder by the descriptor of the one above it. Links that root alone can have made are followed.
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

MOST_LINKS = 40  # of one path, as Linux has it


@dataclass(frozen=True, kw_only=True)
class OpenedTarget:
    """A folder, or the place of one that does not exist yet."""

    path: Path  # without links
    descriptor: int  # of the folder, or of the lowest one above it that exists
    missing: tuple[str, ...]  # names below that one
    private: bool  # only root can change which folder its path leads to, and what is in it

    @property
    def top(self) -> int | Path:
        """The folder as it is looked into; where it does not exist, nothing is there."""
        return self.path if self.missing else self.descriptor


@contextmanager
def opened(path: Path) -> Iterator[OpenedTarget]:
    """Open a target. Refused, for root, if a link of another user is on the way to it."""
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
                    steps.append(name)  # a file: whoever makes a folder there is told
                    break
                links += 1
                if root and (status.st_uid != 0 or not _is_own(above, sticky=True)):
                    raise Refused(
                        "restore-folder-link",
                        f"Cannot restore to {shown(str(path))} as root: user {status.st_uid} can have made "
                        f"the link {shown(str(walked / name))}. Pass the folder itself with --to.",
                    ) from None
                if links > MOST_LINKS:
                    raise Refused(
                        "restore-folder-unusable",
                        f"Cannot restore to {shown(str(path))}: its links lead in a circle. Pass a folder.",
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
    """`sticky`: it is enough that nobody else can replace what root has there."""
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == 0 and (not writable or (sticky and bool(status.st_mode & stat.S_ISVTX)))
