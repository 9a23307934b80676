"""A folder of backups: `<name>/<date>/`, with `tree/`, `files.jsonl` (the tree's list) and `backup.json`.

A backup is made in `<name>/.unfinished-<date>` and gets its name when it is complete; one that goes is
renamed first. So what has a date is whole, and everything else is nobody's.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aqueduct.common import lock
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.file_backup import entries, plan
from aqueduct.recovery.file_backup.entries import FileEntry

WITHOUT_DIGEST, FORMAT = 1, 2  # of what a backup says of itself
TREE, LIST, HEAD = "tree", "files.jsonl", "backup.json"
LOCKS = CHANGING, READING = ".changing", ".reading"
UNFINISHED, GOING = ".unfinished-", ".going-"
READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MOST_HEAD_BYTES, MOST_LIST_BYTES = 64 << 20, 4 << 30  # that are read; a list has 300 bytes a file


@dataclass(frozen=True, kw_only=True)
class FileSnapshot:
    """What a complete backup says of itself."""

    date: str
    source: str
    base: str | None  # the backup whose files it shares
    files: int
    bytes: int  # of all files
    new_files: int  # that the base has not
    new_bytes: int
    left_out: tuple[tuple[str, str], ...]  # what, why
    with_attributes: bool  # extended ones and ACLs
    list_sha256: str


@dataclass(frozen=True)
class BackupsOf:
    """The backups of one name."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def dates(self) -> list[str]:
        """List complete backups, oldest first."""
        return sorted(path.name for path in _listed(self.path) if plan.date_of(path.name) is not None)

    def half(self) -> list[Path]:
        """List what was never completed, or was being removed."""
        return sorted(path for path in _listed(self.path) if path.name.startswith((UNFINISHED, GOING)))

    def tree(self, date: str) -> Path:
        return self.path / date / TREE

    def snapshot(self, date: str) -> FileSnapshot:
        """Read what a backup says of itself; Failed if it can't be used."""
        path = self.path / date / HEAD
        try:
            content: dict[str, Any] = json.loads(self._read(date, HEAD, MOST_HEAD_BYTES))
            if content["format"] not in (WITHOUT_DIGEST, FORMAT):
                raise Failed(
                    "store-format-unsupported", f"{path} is of another version of Aqueduct; use that one."
                )
            if content["format"] == FORMAT and content.pop("sha256") != _digest(content):
                raise ValueError
            del content["format"]
            left_out = tuple((str(missed), str(reason)) for missed, reason in content.pop("left_out"))
            return FileSnapshot(date=date, left_out=left_out, **content)
        except OSError as error:
            raise Failed("file-backup-damaged", _unusable(path, error.strerror or str(error))) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Failed("file-backup-damaged", _unusable(path, "it is damaged")) from None

    def entries(self, snapshot: FileSnapshot) -> list[FileEntry]:
        """Read a backup's list; Failed if it is not as it was written, or there is no tree to it."""
        path = self.path / snapshot.date / LIST
        if not (tree := self.tree(snapshot.date)).is_dir() or tree.is_symlink():
            raise Failed("file-backup-damaged", _unusable(tree, "it is gone"))
        try:
            content = self._read(snapshot.date, LIST, MOST_LIST_BYTES)
        except OSError as error:
            raise Failed("file-backup-damaged", _unusable(path, error.strerror or str(error))) from None
        if hashlib.sha256(content).hexdigest() != snapshot.list_sha256:
            raise Failed(
                "file-backup-damaged", _unusable(path, f"it is damaged: its digest is not the one in {HEAD}")
            )
        return [entries.read(line) for line in content.splitlines()]

    def _read(self, date: str, name: str, most: int) -> bytes:
        """Read a file of a backup, of `most` bytes; OSError for a link, a pipe and a larger file.

        Root reads backups of another user, who could lead it elsewhere, or let it wait.
        """
        with entries.folder(self.path, date) as folder:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                raise OSError(errno.EINVAL, "it is not a regular file, or it is too large")
            return file.read(most + 1)

    @contextmanager
    def changing(self) -> Iterator[int]:
        """Be the one who adds or removes; Refused if another one is."""
        with lock.held(
            self.path / CHANGING, f"{self.path} is being changed by another backup or prune."
        ) as it:
            yield it

    @contextmanager
    def reading(self, *, alone: bool = False) -> Iterator[None]:
        """Read what nobody removes meanwhile; `alone`: who removes. Refused if another one has it."""
        use = "read by a restore or verify" if alone else "pruned"
        refusal = f"{self.path} is being {use}; wait until that ends."
        with (lock.held if alone else lock.shared)(self.path / READING, refusal):
            yield

    def write(self, unfinished: Path, head: Mapping[str, Any], file_entries: Iterable[FileEntry]) -> None:
        """Write a backup's list and what it says of itself, to the disk."""
        digest = hashlib.sha256()
        with (unfinished / LIST).open("wb") as file:
            for entry in file_entries:
                line = entries.written(entry)
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        content = {"format": FORMAT, **head, "list_sha256": digest.hexdigest()}
        content["sha256"] = _digest(content)
        with (unfinished / HEAD).open("wb") as file:
            file.write(json.dumps(content, indent=2).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        synced(unfinished)

    def remove(self, path: Path) -> None:
        """Remove a backup, or half of one: killed anywhere, none is half there under its name."""
        try:
            if not path.name.startswith((UNFINISHED, GOING)):
                path = path.rename(path.with_name(GOING + path.name))
            remove_tree(path)
        except OSError as error:
            raise Failed(
                "backup-folder-unwritable",
                f"{path} can't be removed: {error.strerror}; is it of another user?",
            ) from None

    def unmake(self) -> None:
        """Remove the place of a name that has nothing; by who has its lock of changes."""
        with suppress(OSError):
            for lock_name in LOCKS:
                (self.path / lock_name).unlink()
            self.path.rmdir()


def opened(folder: Path, name: str | None = None) -> list[BackupsOf]:
    """Return all that a folder has backups of, or one; Refused if there is none."""
    try:
        names = sorted(
            subfolder.name
            for subfolder in folder.iterdir()
            if subfolder.is_dir() and plan.NAME.fullmatch(subfolder.name)
        )
    except OSError as error:
        raise Refused(
            "backup-folder-unreadable",
            f"{folder} can't be read: {error.strerror}; name the folder of the backups.",
        ) from None
    if name is not None and name not in names:
        raise Refused(
            "file-backup-missing",
            f"{folder} has no backups of {name}; it has those of {some(names) or 'nothing'}.",
        )
    if not names:
        raise Refused("file-backup-missing", f"{folder} has no backups yet.")
    return [BackupsOf(folder / backup_name) for backup_name in names if name in (None, backup_name)]


def made(folder: Path, name: str) -> BackupsOf:
    """Return the place for backups of a name, which is made if it isn't there; only its owner may look."""
    path = folder / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        # Whose backups these are makes the locks: root, who restores, would leave ones that are root's.
        for lock_name in LOCKS:
            (path / lock_name).touch(mode=0o600)
    except FileNotFoundError:
        raise Refused(
            "backup-folder-unwritable",
            f"{folder} can't be made: {folder.parent} is not there; make that one.",
        ) from None
    except OSError as error:
        if error.errno == errno.EROFS:
            raise Refused("backup-folder-unwritable", f"{path} can't be written: {lock.READ_ONLY}.") from None
        raise Refused("backup-folder-unwritable", f"{path} can't be made: {error.strerror}.") from None
    return BackupsOf(path)


def head(snapshot: FileSnapshot) -> dict[str, Any]:
    """Return what a backup says of itself, for its file."""
    return {key: value for key, value in asdict(snapshot).items() if key not in ("date", "list_sha256")}


def synced(path: Path) -> None:
    """Return when a folder's names are on its disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(content: Mapping[str, Any]) -> str:
    """Return the digest of what a backup says of itself, in the order that it is written in."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _listed(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as children:
            return [path / child.name for child in children if child.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise Failed(
            "backup-folder-unreadable", f"{path} can't be read: {error.strerror}; is it of another user?"
        ) from None


def _unusable(path: Path, reason: str) -> str:
    return (
        f"{path} can't be read: {reason}; restore it from a copy, or move the backup {path.parent} out of "
        "the folder."
    )


@dataclass(frozen=True)
class _Level:
    """A folder on the way down a tree: which it is, and its folders that still are to be removed."""

    inode: entries.Inode
    folders: list[str]


def remove_tree(top: Path) -> None:
    """Remove a folder with all below it, however deep: shutil.rmtree ends at Python's depth of calls.

    Folders are opened one in the other, so that no link is followed, whenever it is made. Only one is open at
    a time; on the way back, `..` must be the folder that the way down led through.
    """
    current = os.open(top.parent, READABLE)
    try:
        levels = [_Level(_inode(current), [top.name])]
        entered: list[str] = []
        while True:
            if levels[-1].folders:
                name = levels[-1].folders.pop()
                following = os.open(name, READABLE | os.O_NOFOLLOW, dir_fd=current)
                os.close(current)
                current = following
                entered.append(name)
                levels.append(_Level(_inode(current), _without_files(current)))
            elif entered:
                following = os.open("..", READABLE, dir_fd=current)
                os.close(current)
                current = following
                levels.pop()
                if _inode(current) != levels[-1].inode:
                    raise OSError(errno.ESTALE, "another program moved a folder in it meanwhile")
                os.rmdir(entered.pop(), dir_fd=current)
            else:
                return
    finally:
        os.close(current)


def _without_files(folder: int) -> list[str]:
    """Remove the files and links in an open folder; return the names of its folders."""
    names = []
    with os.scandir(folder) as children:
        for entry in children:
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return names


def _inode(descriptor: int) -> entries.Inode:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
