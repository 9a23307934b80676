"""Verifies backups: compares their files with their lists."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aqueduct.common.wording import shown, some
from aqueduct.errors import Failed
from aqueduct.recovery.file_backup import entries
from aqueduct.recovery.file_backup.entries import FileEntry, Inode
from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.work.progress import Counter

CONTENT = "content"


@dataclass(frozen=True)
class FileDamage:
    """A damaged file. Hard links count as one file."""

    path: str
    what: str
    dates: tuple[str, ...]  # of the backups with this file


@dataclass(frozen=True, kw_only=True)
class FilesVerified:
    name: str
    backups: int
    files: int  # counted once for each backup
    bytes: int  # read bytes, once for each file
    damage: tuple[FileDamage, ...]
    unusable: tuple[str, ...]  # backups whose list cannot be read, with the reason
    left_out: tuple[tuple[str, str, str], ...] = ()  # date, skipped path, reason


def verify(own: BackupsOf, dates: Iterable[str]) -> FilesVerified:
    """Compare the files of backups with their lists. A file that several backups share is read once."""
    seen: dict[Inode, FileEntry] = {}
    damage: dict[tuple[str, str], list[str]] = {}
    unusable, number, files = [], 0, 0
    left_out: list[tuple[str, str, str]] = []
    with own.locked_for_reading():
        for date in dates:
            number += 1
            try:
                snapshot = own.snapshot(date)
                listed = {entry.path: entry for entry in own.entries(snapshot)}
                files += snapshot.files
                left_out += [(date, path, reason) for path, reason in snapshot.left_out]
                for path, flaw in _faults(own, snapshot, listed, seen):
                    damage.setdefault((path, flaw), []).append(date)
            except Failed as error:
                unusable.append(error.labelled)
    damaged_files = tuple(
        FileDamage(path, flaw, tuple(where)) for (path, flaw), where in sorted(damage.items())
    )
    read = sum(entry.size for entry in seen.values())
    return FilesVerified(
        name=own.name,
        backups=number,
        files=files,
        bytes=read,
        damage=damaged_files,
        unusable=tuple(unusable),
        left_out=tuple(left_out),
    )


def damaged_files(
    own: BackupsOf, snapshot: FileSnapshot, chosen: Iterable[FileEntry]
) -> list[tuple[str, str]]:
    """Return the damaged ones of these files, each with its fault."""
    top = own.tree(snapshot.date)
    return [
        (entry.path, what)
        for entry in chosen
        for what in [fault(entry, entries.read_entry(top, entry.path))]
        if what
    ]


def check_outline(own: BackupsOf, date: str) -> None:
    """Check a backup without reading the content of files. Failed if it is damaged."""
    listed = own.entries(own.snapshot(date))
    bad = [
        (entry.path, what)
        for entry in listed
        for what in [_outline(entry, own.tree(date) / entry.path)]
        if what
    ]
    if bad:
        damaged = some(f"{shown(path)} ({flaw})" for path, flaw in bad)
        raise Failed("file-backup-damaged", f"Backup {date} of {own.name} is damaged: {damaged}.")


def _outline(was: FileEntry, path: Path) -> str:
    """Return the fault of a file, from its metadata; empty if it has none."""
    try:
        status = path.lstat()
    except OSError:
        return "it is missing"
    if (was.mode, was.owner, was.group) != (status.st_mode, status.st_uid, status.st_gid):
        return "other mode or owner"
    if was.is_folder:
        return ""
    return (
        "" if (was.size, was.modified) == (entries.size(status), status.st_mtime_ns) else "other size or time"
    )


def fault(was: FileEntry, now: FileEntry | None, ignored: Iterable[str] = ()) -> str:
    """Return the fault of a file; empty if it has none."""
    if now is None:
        return "it is missing"
    differences = [aspect for aspect in entries.differing_parts(was, now) if aspect not in {*ignored}]
    return f"other {', '.join(differences)}" if differences else ""


def _faults(
    own: BackupsOf, snapshot: FileSnapshot, listed: dict[str, FileEntry], seen: dict[Inode, FileEntry]
) -> list[tuple[str, str]]:
    flaws = []
    compared, total = Counter("file"), len(listed)
    try:
        for number, (entry, inode) in enumerate(entries.scan(own.tree(snapshot.date), seen)):
            compared(number, total)
            if not entry.is_folder:
                seen[inode] = entry
            was = listed.pop(entry.path, None)
            flaw = fault(was, entry) if was else "it is not in the list of the backup"
            if flaw:
                flaws.append((entry.path, flaw))
    except OSError as error:
        raise Failed(
            "backup-folder-unreadable",
            f"Cannot read {shown(error.filename)}: {error.strerror}. Run the command as root, or as the user "
            "that created the backups.",
        ) from None
    finally:
        compared.end()
    return flaws + [(path, "it is missing") for path in listed]
