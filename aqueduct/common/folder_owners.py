"""Whether root may write in a folder: nobody else can lead it elsewhere with a link."""

import os
import pwd
import stat
from pathlib import Path

from aqueduct.errors import Refused

MOST_LINKS = 40  # of one path, as Linux has it


def refuse_root_beside_others(folder: Path, command: str = "") -> None:
    """Refuse root where another user can change which files a path below the folder leads to.

    `command`: the verb, for the message.

    A command then runs as that user, and its kernel gives it no more rights than the user has.
    """
    if os.geteuid() != 0 or (path := path_of_others(folder)) is None:
        return
    if not (user := _owner(folder)):
        raise Refused(
            "folder-of-other-user",
            f"Root does not write in {folder}, because other users can change {path} and could lead root to "
            f"other files. Let root alone write in {path}, or give {folder} to the user of the service. "
            "Nothing was done.",
        )
    verb = " ".join(filter(None, ("aqueduct", command, "...")))
    raise Refused(
        "folder-of-other-user",
        f"Root does not write in {folder}, because user {user} could lead root to other files with a link. "
        f"Run the command as that user, in the sandbox of its service (docs/security.md, in_sandbox): "
        f"`in_sandbox {user} {folder} {verb}`. Nothing was done.",
    )


def path_of_others(folder: Path) -> Path | None:
    """Return the first folder or link on the way to a folder that another user than root can change.

    None if there is none. The last step of a way is the folder itself.
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
        # Where only the way leads through it, it is enough that nobody replaces what root has there.
        is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_open and not (steps and status.st_mode & stat.S_ISVTX):
            return walked
        if not steps or not stat.S_ISDIR(status.st_mode):
            return None
        name = steps.pop()
        walked = walked.parent if name == ".." else walked / name


def _owner(folder: Path) -> str:
    """Return the name of the folder's owner, or the user ID if it has no name.

    Empty if the owner is root, or the folder does not exist.
    """
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
