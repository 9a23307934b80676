"""Which dated tree is which: their names, what one builds on, what was there at a time; what a source is."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from aqueduct.common import timestamps
from aqueduct.errors import Refused

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DATE = "%Y-%m-%dT%H%M%SZ"  # no colons: archives and other systems' disks take no such names
ATTEMPTS = 3  # while files vanish
META, CLEAN = "meta.properties", ".kafka_cleanshutdown"  # of Kafka's log.dirs (CleanShutdownFileHandler)
SEGMENT = "[0-9]" * 20 + ".log"  # of a partition, in its folder
# What tells of Kafka's data, for rsync, in any folder; a partition's segments: in the source's own.
MARKS = (META, CLEAN, f"/{SEGMENT}")

# An address of IPv6 is in brackets, as rsync has it. No option of ssh, and nothing that a shell takes apart.
_LOGIN = re.compile(r"(?!-)(?:[^\s'\"\\\[\]:]*@)?(?!-)(?:[^\s'\"\\\[\]:@]+|\[[\w:.%]+\])")


@dataclass(frozen=True)
class FileSource:
    """A folder: of this host, or of another one by ssh."""

    folder: str  # absolute
    login: str = ""  # user@host; empty: this host

    @property
    def ssh_login(self) -> str:
        """The login as ssh takes it; rsync has an address of IPv6 in brackets."""
        return re.sub(r"\[(.*)\]$", r"\1", self.login)

    def __str__(self) -> str:
        return f"{self.login}:{self.folder}" if self.login else self.folder


def source(text: str) -> FileSource:
    """Parse `[[user@]host:]/folder`; ValueError, whose text is what may be written."""
    parted = re.fullmatch(r"(?:([^/]*):)?(/.*)", text, re.DOTALL)
    login, folder = (parted[1], parted[2]) if parted else ("", "")
    wrong = login is not None and not _LOGIN.fullmatch(login)
    login = login or ""
    # That of another host is written into its authorized_keys.
    odd = r"[\0\r\n\"\\]" if login else r"[\0\r\n]"
    if wrong or not folder or ".." in folder.split("/") or re.search(odd, folder):
        raise ValueError("[USER@HOST:]/FOLDER")
    return FileSource(str(PurePosixPath("/" + folder.lstrip("/"))), login)


def below(text: str) -> str:
    """Return a path in the folder that was backed up as lists have it; `.` is all of it."""
    return str(PurePosixPath(text.lstrip("/")))


def restriction(folder: str) -> str:
    """Return the options in authorized_keys of a key that may read a folder and nothing else.

    sshd ends an option at the first `"`, so an apostrophe is not quoted by these.
    """
    quoted = shlex.quote(folder).replace("""'"'"'""", r"'\''")
    return f'command="rrsync -ro {quoted}",restrict'


def date_name(time: int) -> str:
    """Return the name of a tree that was begun at a time, in milliseconds since 1970."""
    return datetime.fromtimestamp(time // 1000, UTC).strftime(DATE)


def date_of(name: str) -> int | None:
    """Return the time in a tree's name; None if it is no such name."""
    try:
        time = int(datetime.strptime(name, DATE).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return None
    return time if date_name(time) == name else None


def base(names: Sequence[str], new: str) -> str | None:
    """Return the newest complete tree, on which a new one builds; None for the first.

    Refused if it is not older than the new one.
    """
    newest = max(names, default=None)
    if newest is not None and newest >= new:
        remedy = "wait a second."
        if newest > new:
            remedy = "if the clock is right now, wait, or rename that backup's folder to when it was made."
        raise Refused(
            "clock-behind-backup",
            f"the newest backup is of {newest}, and it is {new} by this host's clock: {remedy}",
        )
    return newest


def until(text: str) -> int:
    """Return a day's last millisecond, or the time of a tree's name or a moment; ValueError: the forms."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        return int((day + timedelta(days=1)).timestamp() * 1000) - 1
    except ValueError:
        pass
    if (time := date_of(text)) is not None:
        return time
    try:
        return timestamps.parse(text)
    except ValueError as error:
        raise ValueError(f"2026-01-31, a backup's name, or {error}") from None


def at(names: Sequence[str], time: int | None) -> str | None:
    """Return the newest tree that is not younger than a time; None if there is none."""
    return max((name for name in names if time is None or (date_of(name) or 0) <= time), default=None)


def running_data_folders(paths: Iterable[str]) -> list[str]:
    """Return the data folders of Kafka nodes that were not stopped cleanly, so may run; `.` is the top.

    A broker removes the mark of a clean shutdown when it starts, and a controller has none. Of a single
    partition's folder it can't be told, so that may be in use, too.
    """
    parts = [_split(path) for path in paths]
    named = {(str(parent), name) for parent, name in parts if name in (META, CLEAN)}
    data_folders = {parent for parent, name in named if name == META and (parent, CLEAN) not in named}
    if any(str(parent) == "." and re.fullmatch(SEGMENT, name) for parent, name in parts):
        data_folders.add(".")
    return sorted(data_folders)


def _split(path: str) -> tuple[PurePosixPath, str]:
    parsed = PurePosixPath(path)
    return parsed.parent, parsed.name
