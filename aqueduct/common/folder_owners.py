"""Whether root can write in a folder safely: no other user can redirect root to other files with a link."""

import os
import pwd
import stat
from pathlib import Path

from aqueduct.errors import Refused

MOST_LINKS = 40  # symbolic links in one path, the limit of Linux


def refuse_root_beside_others(folder: Path, command: str = "") -> None:
    """Raise Refused if this process is root's, and another user can redirect paths below the folder.

    The command must then run as that user, with only that user's rights. `command`: the verb in the message.
    """
    if os.geteuid() != 0 or (path := path_of_others(folder)) is None:
        return
    if not (user := _owner(folder)):
        raise Refused(
            "folder-of-other-user",
            f"Root does not write in {folder}, because other users can change {path} and could redirect root "
            f"to other files with a link. Make {path} writable for root only, or make the user of the "
            f"service the owner of {folder}. Nothing was done.",
        )
    verb = " ".join(filter(None, ("aqueduct", command, "...")))
    raise Refused(
        "folder-of-other-user",
        f"Root does not write in {folder}, because user {user} could redirect root to other files with a "
        "link. Run the command as that user, in the sandbox of its service (docs/security.md, in_sandbox): "
        f"`in_sandbox {user} {folder} {verb}`. Nothing was done.",
    )


def path_of_others(folder: Path) -> Path | None:
    """Return the first part of a folder's path that other users than root can change; None if there is none.

    Parts are the folders and symbolic links of the path, with the folder itself as the last part.
    """
    steps = list(reversed(folder.absolute().parts[1:]))
    walked, links = Path("/"), 0
    while True:
        try:
            status = walked.lstat()
        except FileNotFoundError:  # the rest of the path does not exist, or was removed meanwhile
            return None
        if status.st_uid != 0:
            return walked
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MOST_LINKS:
                return walked
            target = walked.readlink()
            steps += reversed([part for part in target.parts if part != "/"])
            walked = Path("/") if target.is_absolute() else walked.parent
            continue
        # In a parent folder, the sticky bit is enough: other users cannot replace the entries of root.
        is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_open and not (steps and status.st_mode & stat.S_ISVTX):
            return walked
        if not steps or not stat.S_ISDIR(status.st_mode):
            return None
        name = steps.pop()
        walked = walked.parent if name == ".." else walked / name


def _owner(folder: Path) -> str:
    """Return the owner's name, or `#uid` if the owner has no name; empty for root or a missing folder."""
    try:
        number = folder.stat().st_uid
    except FileNotFoundError:
        return ""
    if number == 0:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
