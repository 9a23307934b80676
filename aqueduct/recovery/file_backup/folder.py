"""A folder of backups: `<name>/<date>/`, with `tree/`, `files.jsonl` (the list of files) and `backup.json`.

A backup is written to `<name>/.unfinished-<date>`, and is renamed when it is complete. Before a removal, it
is renamed, too. So a folder with a date is a complete backup, and other folders are left over.
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

WITHOUT_DIGEST, FORMAT = 1, 2  # of backup.json
TREE, LIST, HEAD = "tree", "files.jsonl", "backup.json"
LOCKS = CHANGING, READING = ".changing", ".reading"
UNFINISHED, GOING = ".unfinished-", ".going-"
READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MOST_HEAD_BYTES, MOST_LIST_BYTES = (
    64 << 20,
    4 << 30,
)  # that are read; a list has about 300 bytes for each file


@dataclass(frozen=True, kw_only=True)
class FileSnapshot:
    """The description of a complete backup."""

    date: str
    source: str
    base: str | None  # the backup with which it shares files
    files: int
    bytes: int  # of all files
    new_files: int  # files that the base does not have
    new_bytes: int
    left_out: tuple[tuple[str, str], ...]  # skipped paths, with the reason
    with_attributes: bool  # extended attributes and ACLs
    list_sha256: str


@dataclass(frozen=True)
class BackupsOf:
    """The backups with one name."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def dates(self) -> list[str]:
        """List complete backups, oldest first."""
        return sorted(path.name for path in _listed(self.path) if plan.date_of(path.name) is not None)

    def incomplete(self) -> list[Path]:
        """List incomplete backups, and backups whose removal was interrupted."""
        return sorted(path for path in _listed(self.path) if path.name.startswith((UNFINISHED, GOING)))

    def tree(self, date: str) -> Path:
        return self.path / date / TREE

    def snapshot(self, date: str) -> FileSnapshot:
        """Read the description of a backup. Failed if it cannot be used."""
        path = self.path / date / HEAD
        try:
            content: dict[str, Any] = json.loads(self._read(date, HEAD, MOST_HEAD_BYTES))
            if content["format"] not in (WITHOUT_DIGEST, FORMAT):
                raise Failed(
                    "store-format-unsupported",
                    f"Another version of Aqueduct wrote {path}. Use that version.",
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
        """Read a backup's list of files. Failed if it is damaged, or the files are missing."""
        path = self.path / snapshot.date / LIST
        if not (tree := self.tree(snapshot.date)).is_dir() or tree.is_symlink():
            raise Failed("file-backup-damaged", _unusable(tree, "it is missing"))
        try:
            content = self._read(snapshot.date, LIST, MOST_LIST_BYTES)
        except OSError as error:
            raise Failed("file-backup-damaged", _unusable(path, error.strerror or str(error))) from None
        if hashlib.sha256(content).hexdigest() != snapshot.list_sha256:
            raise Failed(
                "file-backup-damaged",
                _unusable(path, f"it is damaged: its digest differs from the digest in {HEAD}"),
            )
        return [entries.from_line(line) for line in content.splitlines()]

    def _read(self, date: str, name: str, most: int) -> bytes:
        """Read a file of a backup of at most `most` bytes. OSError for a link, a pipe or a larger file.

        Root reads backups of another user, who could put a link or a pipe there.
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
    def locked_for_changes(self) -> Iterator[int]:
        """Hold the lock of changes. Refused if another process holds it."""
        with lock.held(
            self.path / CHANGING,
            f"Another backup or prune changes {self.path}. Wait until it ends, and run the command again.",
        ) as it:
            yield it

    @contextmanager
    def locked_for_reading(self, *, alone: bool = False) -> Iterator[None]:
        """Hold the lock of reading, against removal; `alone`: against readers. Refused if it is taken."""
        user = "A restore or verify reads" if alone else "A prune removes backups of"
        refusal = f"{user} {self.path}. Wait until it ends, and run the command again."
        with (lock.held if alone else lock.shared)(self.path / READING, refusal):
            yield

    def write(self, unfinished: Path, head: Mapping[str, Any], file_entries: Iterable[FileEntry]) -> None:
        """Write a backup's list and its description, and sync both to the disk."""
        digest = hashlib.sha256()
        with (unfinished / LIST).open("wb") as file:
            for entry in file_entries:
                line = entries.to_line(entry)
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
        sync_folder(unfinished)

    def remove(self, path: Path) -> None:
        """Remove a backup, or an incomplete one. It is renamed first, so an interruption is visible."""
        try:
            if not path.name.startswith((UNFINISHED, GOING)):
                path = path.rename(path.with_name(GOING + path.name))
            remove_tree(path)
        except OSError as error:
            raise Failed(
                "backup-folder-unwritable",
                f"Cannot remove {path}: {error.strerror}. Run the command as the user that created the "
                "backups.",
            ) from None

    def remove_empty(self) -> None:
        """Remove the folder of a name without backups. The caller holds the lock of changes."""
        with suppress(OSError):
            for lock_name in LOCKS:
                (self.path / lock_name).unlink()
            self.path.rmdir()


def existing_backups(folder: Path, name: str | None = None) -> list[BackupsOf]:
    """Return the names with backups in a folder, or one of them. Refused if there is none."""
    try:
        names = sorted(
            subfolder.name
            for subfolder in folder.iterdir()
            if subfolder.is_dir() and plan.NAME.fullmatch(subfolder.name)
        )
    except OSError as error:
        raise Refused(
            "backup-folder-unreadable",
            f"Cannot read {folder}: {error.strerror}. Pass the folder of the backups.",
        ) from None
    if name is not None and name not in names:
        raise Refused(
            "file-backup-missing",
            f"{folder} has no backups with the name {name}. Pass one of its names: {some(names) or 'none'}.",
        )
    if not names:
        raise Refused("file-backup-missing", f"{folder} has no backups. Pass the folder of the backups.")
    return [BackupsOf(folder / backup_name) for backup_name in names if name in (None, backup_name)]


def create_backups(folder: Path, name: str) -> BackupsOf:
    """Return the backups with a name. Its folder is created if it does not exist, for its owner only."""
    path = folder / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        # The owner of the backups creates the locks: locks of root would stop later backups.
        for lock_name in LOCKS:
            (path / lock_name).touch(mode=0o600)
    except FileNotFoundError:
        raise Refused(
            "backup-folder-unwritable",
            f"Cannot create {folder}, because {folder.parent} does not exist. Create {folder.parent}.",
        ) from None
    except OSError as error:
        if error.errno == errno.EROFS:
            raise Refused("backup-folder-unwritable", f"Cannot write {path}: {lock.READ_ONLY}.") from None
        raise Refused(
            "backup-folder-unwritable",
            f"Cannot create {path}: {error.strerror}. Check the path and its permissions.",
        ) from None
    return BackupsOf(path)


def head(snapshot: FileSnapshot) -> dict[str, Any]:
    """Return the description of a backup, without its date and the digest of its list."""
    return {key: value for key, value in asdict(snapshot).items() if key not in ("date", "list_sha256")}


def sync_folder(path: Path) -> None:
    """Sync the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(content: Mapping[str, Any]) -> str:
    """Return the digest of a backup's description, whose fields are in the written order."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _listed(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as children:
            return [path / child.name for child in children if child.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise Failed(
            "backup-folder-unreadable",
            f"Cannot read {path}: {error.strerror}. Run the command as root, or as the user that created the "
            "backups.",
        ) from None


def _unusable(path: Path, reason: str) -> str:
    return (
        f"Cannot read {path}: {reason}. Restore it from a copy, or move the backup {path.parent} to a place "
        "outside the folder of the backups."
    )


@dataclass(frozen=True)
class _Level:
    """A folder in the path of a removal, and its subfolders that are still to be removed."""

    inode: entries.Inode
    folders: list[str]


def remove_tree(top: Path) -> None:
    """Remove a folder with all content, at any depth. shutil.rmtree is limited by Python's recursion.

    Each folder is opened from its parent, so that no link is followed, even a new one. Only one folder is
    open at a time. On the way up, `..` must be the same folder as on the way down.
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
                    raise OSError(errno.ESTALE, "another program moved a folder during the removal")
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
