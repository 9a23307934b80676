"""What rsync and ssh say when they fail, in a sentence."""

import os
import re

from aqueduct.common.wording import shown
from aqueduct.recovery.file_backup.plan import FileSource

VANISHED = 24  # rsync's exit code, where files went while they were read
PARTIAL = 23  # where some could not be read or written
_UNREADABLE = re.compile(
    r'^rsync: \[sender\] \w+(?: \w+)* "(?P<path>.*?)"(?: \(in [^()"\n]*\))?(?: failed)?: '
    r"Permission denied \(13\)",
    re.MULTILINE,
)
_VANISHED = re.compile(r'file has vanished: "(?P<path>.*?)"')
_SUMMARY = re.compile(r"rsync (error|warning): ")
_ROOM = "make room there, such as by `aqueduct files prune`"
_NO_SERVER = "no ssh server answers there"
_NO_RSYNC = "there is no rsync on that host; install it"
CLOSED = "unable to chdir to restricted dir: [Errno 13]"  # what rrsync says
MAY_NOT_BE_READ = "the folder may not be read there; let the user who reads it do so"
# What ssh and rsync say, and what that means.
_KNOWN = {
    "UNPROTECTED PRIVATE KEY FILE": "others may read the private key; chmod 600 it",
    "Host key verification failed": "the host's key is not in the file of known hosts, or is another one. "
    "If the host was re-created, pin its new key; otherwise another host may answer in its place",
    "Permission denied (publickey": "the host doesn't take the key; put its public part into authorized_keys",
    "Could not resolve hostname": "the host's name is not known",
    CLOSED: MAY_NOT_BE_READ,
    "open failed (race detected): / Permission denied": MAY_NOT_BE_READ,
    "Restricted directory does not exist": "the folder is gone there",
    "No space left on device": "the disk of {backups} is full; " + _ROOM,
    "Disk quota exceeded": "the quota of {backups} is used up; " + _ROOM,
    "rsync: command not found": _NO_RSYNC,
    "rsync: not found": _NO_RSYNC,
    "Connection refused": _NO_SERVER,
    "Connection timed out": _NO_SERVER,
    "No route to host": _NO_SERVER,
    "Operation not supported": "the disk of {backups} takes no extended attributes, in which owners are "
    "kept; use one that does, such as ext4 or XFS",
}
_GONE = re.compile(
    r'^[^"\n]{0,100}?(?:change_dir|link_stat)\b.* failed: No such file or directory \(2\)', re.MULTILINE
)


def why(code: int, output: str, source: FileSource, backups: str) -> str:
    """Say why rsync ended with a code; negative ones are of signals."""
    for text, meaning in _KNOWN.items():
        if text in output:
            return meaning.format(backups=backups)
    if _GONE.search(output):
        return "the folder is gone there"
    ended = told(code, output)
    if code == 255 or (code > 0 and re.search(r"connection unexpectedly closed", output)):
        return f"the connection to {source.login or 'rsync'} broke: {ended}"
    return ended


def only_unreadable(code: int, output: str) -> bool:
    """Tell if nothing else went wrong but that the source's user may not read some files."""
    lines = [line for line in output.splitlines() if line.strip() and not _SUMMARY.match(line)]
    return code == PARTIAL and bool(lines) and all(_UNREADABLE.fullmatch(line.strip()) for line in lines)


def left_out(output: str, source: FileSource) -> tuple[tuple[str, str], ...]:
    """Return what could not be read, or vanished, and why."""
    reason_by_path = {
        _in(match["path"], source): "may not be read there" for match in _UNREADABLE.finditer(output)
    }
    reason_by_path |= {
        _in(match["path"], source): "vanished while it was read" for match in _VANISHED.finditer(output)
    }
    return tuple(sorted(reason_by_path.items()))


def told(code: int, output: str) -> str:
    """Say how rsync ended, by its own first words; negative codes are of signals."""
    if code < 0:
        return f"rsync was killed by signal {-code}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next(
        (line for line in lines if not _SUMMARY.match(line)), lines[0] if lines else "it said nothing"
    )
    return f"rsync ended with code {code} ({shown(plain(first))})"


def plain(output: str) -> str:
    """Return a name as it is: rsync writes `\\#012` for bytes that are not printed."""
    code = re.compile(rb"\\#([0-3][0-7]{2})")
    return os.fsdecode(code.sub(lambda byte: bytes([int(byte[1], 8)]), os.fsencode(output)))


def _in(path: str, source: FileSource) -> str:
    """Return a path as it is in the folder; rrsync tells the open folder's number for its name."""
    below = re.sub(r"^/proc/self/fd/\d+(/\.)?", "", plain(path))
    return below.removeprefix(source.folder.rstrip("/")).lstrip("/") or "."
