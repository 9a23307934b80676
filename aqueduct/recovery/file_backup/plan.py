"""Names and dates of backups, the choice of a backup by time, and the parsing of sources."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from aqueduct.common import timestamps
from aqueduct.errors import Refused

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DATE = "%Y-%m-%dT%H%M%SZ"  # no colons: archives and other file systems do not allow them
ATTEMPTS = 3  # while files vanish
META, CLEAN = "meta.properties", ".kafka_cleanshutdown"  # of Kafka's log.dirs (CleanShutdownFileHandler)
SEGMENT = "[0-9]" * 20 + ".log"  # of a partition, in its folder
# Files that show that a folder has Kafka's data, as patterns of rsync. Segments count only in the top folder.
MARKS = (META, CLEAN, f"/{SEGMENT}")

# An IPv6 address is in brackets, as in rsync. No options of ssh and no special characters of a shell.
_LOGIN = re.compile(r"(?!-)(?:[^\s'\"\\\[\]:]*@)?(?!-)(?:[^\s'\"\\\[\]:@]+|\[[\w:.%]+\])")


@dataclass(frozen=True)
class FileSource:
    """A folder on this host, or on another host over ssh."""

    folder: str  # absolute
    login: str = ""  # user@host; empty: this host

    @property
    def ssh_login(self) -> str:
        """The login for ssh, without the brackets of an IPv6 address."""
        return re.sub(r"\[(.*)\]$", r"\1", self.login)

    def __str__(self) -> str:
        return f"{self.login}:{self.folder}" if self.login else self.folder


def source(text: str) -> FileSource:
    """Parse `[[user@]host:]/folder`. ValueError, with the allowed form as text."""
    parted = re.fullmatch(r"(?:([^/]*):)?(/.*)", text, re.DOTALL)
    login, folder = (parted[1], parted[2]) if parted else ("", "")
    wrong = login is not None and not _LOGIN.fullmatch(login)
    login = login or ""
    # The folder of another host is in its authorized_keys.
    odd = r"[\0\r\n\"\\]" if login else r"[\0\r\n]"
    if wrong or not folder or ".." in folder.split("/") or re.search(odd, folder):
        raise ValueError("[USER@HOST:]/FOLDER")
    return FileSource(str(PurePosixPath("/" + folder.lstrip("/"))), login)


def relative_path(text: str) -> str:
    """Return a path relative to the backed-up folder, as in lists; `.` is the folder itself."""
    return str(PurePosixPath(text.lstrip("/")))


def restriction(folder: str) -> str:
    """Return the options in authorized_keys with which a key can only read a folder.

    sshd ends an option at the first `"`, so an apostrophe is quoted without it.
    """
    quoted = shlex.quote(folder).replace("""'"'"'""", r"'\''")
    return f'command="rrsync -ro {quoted}",restrict'


def date_name(time: int) -> str:
    """Return the name of a backup that began at a time, in milliseconds since 1970."""
    return datetime.fromtimestamp(time // 1000, UTC).strftime(DATE)


def date_of(name: str) -> int | None:
    """Return the time in the name of a backup; None for another name."""
    try:
        time = int(datetime.strptime(name, DATE).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return None
    return time if date_name(time) == name else None


def base_date(names: Sequence[str], new: str) -> str | None:
    """Return the newest backup, with which a new one shares files; None for the first backup.

    Refused if it is not older than the new one.
    """
    newest = max(names, default=None)
    if newest is not None and newest >= new:
        remedy = "Run the command again after a second."
        if newest > new:
            remedy = (
                "Check the clock. If it is correct, rename the folder of that backup to the time when it was "
                "created."
            )
        raise Refused(
            "clock-behind-backup",
            f"The newest backup is from {newest}, but the clock of this host shows {new}. {remedy}",
        )
    return newest


def end_time(text: str) -> int:
    """Parse a day (its last millisecond), a backup's name or a time. ValueError, with the allowed forms."""
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
        raise ValueError(f"2026-01-31, the name of a backup, or {error}") from None


def newest_at(names: Sequence[str], time: int | None) -> str | None:
    """Return the newest backup at or before a time; None if there is none. Without a time: the newest."""
    return max((name for name in names if time is None or (date_of(name) or 0) <= time), default=None)


def running_data_folders(paths: Iterable[str]) -> list[str]:
    """Return the data folders of Kafka nodes that may run; `.` is the top folder.

    A broker creates a file at a clean shutdown and removes it at start; a controller never creates it. The
    folder of a single partition may always be in use.
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
