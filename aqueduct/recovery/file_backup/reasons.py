"""Sentences about failures of rsync and ssh."""

import os
import re

from aqueduct.common.wording import shown
from aqueduct.recovery.file_backup.plan import FileSource

VANISHED = 24  # rsync's exit code if files were deleted while they were read
PARTIAL = 23  # if some files could not be read or written
_UNREADABLE = re.compile(
    r'^rsync: \[sender\] \w+(?: \w+)* "(?P<path>.*?)"(?: \(in [^()"\n]*\))?(?: failed)?: '
    r"Permission denied \(13\)",
    re.MULTILINE,
)
_VANISHED = re.compile(r'file has vanished: "(?P<path>.*?)"')
_SUMMARY = re.compile(r"rsync (error|warning): ")
_ROOM = "Free space there, for example with `aqueduct files prune`."
_NO_SERVER = "No SSH server answers on the host. Start sshd there, or correct the address and the port."
_NO_RSYNC = "rsync is missing on the host. Install the package rsync there."
_NO_FOLDER = "The folder does not exist there. Correct the path, or mount its disk."
CLOSED = "unable to chdir to restricted dir: [Errno 13]"  # an error of rrsync
MAY_NOT_BE_READ = "The user has no permission to read the folder. Give the user this permission."
# Errors of ssh and rsync, each with its cause and remedy.
_KNOWN = {
    "UNPROTECTED PRIVATE KEY FILE": "Other users can read the private key. Set its mode to 600.",
    "Host key verification failed": "The key of the host is not in the file of known hosts, or differs from "
    "it. If the host was re-created, add its new key. Otherwise another host may answer in its place.",
    "Permission denied (publickey": "The host rejects the key. Add its public key to authorized_keys there.",
    "Could not resolve hostname": "This host cannot resolve the host name. Correct the name or the DNS "
    "settings.",
    CLOSED: MAY_NOT_BE_READ,
    "open failed (race detected): / Permission denied": MAY_NOT_BE_READ,
    "Restricted directory does not exist": _NO_FOLDER,
    "No space left on device": "The disk of {backups} is full. " + _ROOM,
    "Disk quota exceeded": "The disk quota of {backups} is exceeded. " + _ROOM,
    "rsync: command not found": _NO_RSYNC,
    "rsync: not found": _NO_RSYNC,
    "Connection refused": _NO_SERVER,
    "Connection timed out": _NO_SERVER,
    "No route to host": _NO_SERVER,
    "Operation not supported": "The file system of {backups} does not support extended attributes, which "
    "store the owners of files. Use ext4 or XFS.",
}
_GONE = re.compile(
    r'^[^"\n]{0,100}?(?:change_dir|link_stat)\b.* failed: No such file or directory \(2\)', re.MULTILINE
)


def failure_cause(code: int, output: str, source: FileSource, backups: str) -> str:
    """Return the cause and the remedy of a failure of rsync, as sentences. Negative codes are signals."""
    for text, meaning in _KNOWN.items():
        if text in output:
            return meaning.format(backups=backups)
    if _GONE.search(output):
        return _NO_FOLDER
    ended = exit_description(code, output)
    if code == 255 or (code > 0 and re.search(r"connection unexpectedly closed", output)):
        return f"The connection to {source.login or 'rsync'} broke: {ended}. Run the command again."
    return f"The error is: {ended}. Correct the cause, and run the command again."


def only_unreadable(code: int, output: str) -> bool:
    """Return whether the only errors are files without read permission."""
    lines = [line for line in output.splitlines() if line.strip() and not _SUMMARY.match(line)]
    return code == PARTIAL and bool(lines) and all(_UNREADABLE.fullmatch(line.strip()) for line in lines)


def left_out(output: str, source: FileSource) -> tuple[tuple[str, str], ...]:
    """Return the files that could not be read or were deleted meanwhile, with the reason."""
    reason_by_path = {
        _in(match["path"], source): "no permission to read it" for match in _UNREADABLE.finditer(output)
    }
    reason_by_path |= {
        _in(match["path"], source): "deleted while it was read" for match in _VANISHED.finditer(output)
    }
    return tuple(sorted(reason_by_path.items()))


def exit_description(code: int, output: str) -> str:
    """Describe how rsync ended, with its first line of output. Negative codes are signals."""
    if code < 0:
        return f"rsync was killed by signal {-code}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next((line for line in lines if not _SUMMARY.match(line)), lines[0] if lines else "no output")
    return f"rsync ended with code {code} ({shown(unescaped(first))})"


def unescaped(output: str) -> str:
    """Return a file name without rsync's escapes, such as `\\#012`."""
    code = re.compile(rb"\\#([0-3][0-7]{2})")
    return os.fsdecode(code.sub(lambda byte: bytes([int(byte[1], 8)]), os.fsencode(output)))


def _in(path: str, source: FileSource) -> str:
    """Return a path relative to the source. rrsync writes a descriptor instead of the folder's name."""
    below = re.sub(r"^/proc/self/fd/\d+(/\.)?", "", unescaped(path))
    return below.removeprefix(source.folder.rstrip("/")).lstrip("/") or "."
