"""The list of a backup's files with digests, and the comparison of files with this list.

The backup is written with rsync's --fake-super, which needs no root: links and devices are regular files, and
the attribute `user.rsync.%stat` has what only root can set (owner, setuid bits). The list describes these
regular files.
"""

import base64
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

OWN = "user.rsync."  # the prefix of rsync's attributes, and of attributes that only root can set
STAT = OWN + "%stat"  # mode in octal, device, owner:group
# A folder, and no link to one. To read it later, the process needs the rights of the folder.
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Inode = tuple[int, int]  # device, number


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file or a folder of a backup, as on the disk."""

    path: str  # relative to the top; `.` is the top itself
    mode: int  # with the type of the file
    owner: int
    group: int
    modified: int  # nanoseconds since 1970
    size: int  # 0 for a folder
    device: int  # 0 for other files
    sha256: str  # of a link: of its target; empty for a folder
    attributes: Mapping[str, str]  # extended attributes, in base64

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


def scan(
    top: Path, entry_by_inode: Mapping[Inode, FileEntry] | None = None
) -> Iterator[tuple[FileEntry, Inode]]:
    """Yield the entries below a folder, sorted by path. Files in `entry_by_inode` are not read again."""
    for path in sorted(_paths(top)):
        full = top / path
        status = full.lstat()
        inode = (status.st_dev, status.st_ino)
        if entry_by_inode and inode in entry_by_inode and not stat.S_ISDIR(status.st_mode):
            yield replace(entry_by_inode[inode], path=path), inode
        else:
            yield _entry(path, str(full), status), inode


def read_entry(top: Path | int, path: str) -> FileEntry | None:
    """Return the entry at a path below a folder (or its descriptor); None if the path does not exist.

    Links above the path are never followed, even if another process creates one meanwhile.
    """
    own_path = PurePosixPath(path)
    try:
        with folder(top, str(own_path.parent)) as descriptor:
            full = f"/proc/self/fd/{descriptor}/{own_path.name or '.'}"
            return _entry(path, full, os.lstat(full))
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def folder(top: Path | int, path: str) -> Iterator[int]:
    """Open a folder below another one, step by step. NotADirectoryError for a link in the path."""
    descriptor = (
        os.open(".", FOLDER, dir_fd=top) if isinstance(top, int) else os.open(top, FOLDER & ~os.O_NOFOLLOW)
    )
    try:
        for name in PurePosixPath(path).parts:
            following = os.open(name, FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def above_path(path: str) -> list[str]:
    """Return the folders above a path, without the top."""
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


def inodes(top: Path, entries: Iterable[FileEntry]) -> dict[Inode, FileEntry]:
    """Return listed files by their inodes. Missing files are skipped."""
    entry_by_inode = {}
    for entry in entries:
        try:
            seen = (top / entry.path).lstat()
        except FileNotFoundError:
            continue
        entry_by_inode[seen.st_dev, seen.st_ino] = entry
    return entry_by_inode


def _paths(top: Path) -> Iterator[str]:
    """Yield all paths below a folder, without recursion: the depth is not limited."""
    yield "."
    folders = [""]
    while folders:
        above = folders.pop()
        with os.scandir(top / above) as children:
            for child in children:
                path = f"{above}/{child.name}" if above else child.name
                yield path
                if child.is_dir(follow_symlinks=False):
                    folders.append(path)


def _entry(path: str, full: str, status: os.stat_result) -> FileEntry:
    digest = ""
    if stat.S_ISREG(status.st_mode):
        with open(full, "rb", opener=_opener) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        digest = hashlib.sha256(os.fsencode(Path(full).readlink())).hexdigest()
    attributes = {
        name: base64.b64encode(os.getxattr(full, name, follow_symlinks=False)).decode()
        for name in sorted(os.listxattr(full, follow_symlinks=False))
        if name.startswith(("user.", "trusted.", "security.capability"))
    }
    return FileEntry(
        path=path,
        mode=status.st_mode,
        owner=status.st_uid,
        group=status.st_gid,
        modified=status.st_mtime_ns,
        size=size(status),
        device=status.st_rdev,
        sha256=digest,
        attributes=attributes,
    )


def _opener(path: str, flags: int) -> int:
    """Open a file, but not a link or a pipe that replaced it."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def size(status: os.stat_result) -> int:
    """Return the size of a file or a link; 0 for others."""
    return status.st_size if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else 0


def as_source(entry: FileEntry) -> FileEntry:
    """Return the entry as at its source, and as after a restore by root."""
    attributes = {
        name.removeprefix(OWN) if name.startswith(OWN) else name: value
        for name, value in entry.attributes.items()
        if not name.startswith(OWN + "%")
    }
    if STAT not in entry.attributes:
        return replace(entry, attributes=attributes)
    mode, device, owner = base64.b64decode(entry.attributes[STAT]).decode().split()
    kind = int(mode, 8)
    major, minor = map(int, device.split(","))
    user, group = map(int, owner.split(":"))
    return replace(
        entry,
        mode=kind,
        owner=user,
        group=group,
        device=os.makedev(major, minor) if stat.S_ISBLK(kind) or stat.S_ISCHR(kind) else 0,
        sha256=entry.sha256 if stat.S_ISREG(kind) or stat.S_ISLNK(kind) else "",
        size=entry.size if stat.S_ISREG(kind) or stat.S_ISLNK(kind) else 0,
        attributes=attributes,
    )


def to_line(entry: FileEntry) -> bytes:
    """Return an entry as a line of a list."""
    return json.dumps(asdict(entry), separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> FileEntry:
    """Parse a line of a list. ValueError, TypeError or KeyError if it is invalid."""
    return FileEntry(**json.loads(line))


def differing_parts(was: FileEntry, now: FileEntry) -> list[str]:
    """Return what differs: `content`, `size`, `time`, `mode`, `owner`, `device`, `attributes`."""
    return [
        word
        for word, one, other in (
            ("content", was.sha256, now.sha256),
            ("size", was.size, now.size),
            ("time", was.modified, now.modified),
            ("mode", was.mode, now.mode),
            ("owner", (was.owner, was.group), (now.owner, now.group)),
            ("device", was.device, now.device),
            ("attributes", was.attributes, now.attributes),
        )
        if one != other
    ]
