"""Files of a backup written to another folder, and looked at there."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from aqueduct.errors import Failed, Refused
from aqueduct.file_backup import entries, plan, reasons, rsync, verify
from aqueduct.file_backup.entries import FileEntry
from aqueduct.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.wording import count, shown, some

HALF = re.compile(r"\.(.+)\.[A-Za-z0-9]{6}", re.DOTALL)


@dataclass(frozen=True)
class FileRestoreOrder:
    backups: BackupsOf
    date: str
    target: Path
    paths: tuple[str, ...] = ()  # in the folder that was backed up; empty: all of it
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class FilesRestored:
    snapshot: FileSnapshot
    files: int
    bytes: int
    overwritten: tuple[str, ...]
    without_owners: int  # files and folders of others at their source: only root may give them away
    left_out: tuple[tuple[str, str], ...]  # of what was wanted, the backup does not have: what, why


def restore(order: FileRestoreOrder) -> FilesRestored:
    """Restore files of a backup, as they were.

    Refused where another file is in the way, unless it may be overwritten; nothing else at the target is
    touched. Failed, with nothing written, if one of them is not as it was backed up.
    """
    own, target = order.backups, order.target
    if target.resolve().is_relative_to(own.path.parent.resolve()):
        raise Refused(f"{target} is in the folder of the backups, which it would change; name another one.")
    try:
        with own.reading():
            return _restored(order)
    except OSError as error:
        raise Failed(
            f"{shown(error.filename)} can't be read: {error.strerror}. Only root, and who made the backups, "
            "may read them."
        ) from None


def _restored(order: FileRestoreOrder) -> FilesRestored:
    own, target = order.backups, order.target
    snapshot = own.snapshot(order.date)
    paths = sorted({plan.below(each) for each in order.paths})
    wanted = _wanted(order, paths, snapshot, own.entries(snapshot))
    if damage := verify.of_some(own, snapshot, wanted):
        told = some(f"{shown(path)} ({what})" for path, what in damage)
        raise Failed(
            f"backup {order.date} of {own.name} is damaged, and nothing was restored: {told}. Take "
            "another date; `aqueduct files verify` tells which have it as it was."
        )
    root = os.geteuid() == 0
    due = [entries.as_source(each) for each in wanted]
    ignored = _ignored(snapshot, root)
    there = {each.path: found for each in due if (found := entries.look(target, each.path))}
    other = [
        each.path
        for each in due
        if each.path in there
        and not (each.is_folder and there[each.path].is_folder)
        and verify.fault(each, there[each.path], ignored)
    ]
    # rsync makes the folders above, too, and in the place of links.
    above = {each for path in paths for each in entries.above_path(path)}
    other += sorted(
        each for each in above if os.path.lexists(target / each) and not _is_folder(target / each)
    )
    if other and not order.overwrite:
        raise Refused(
            f"{target} has others of {count(len(other), 'file')}: {some(map(shown, other))}. --overwrite "
            "replaces them; nothing was restored."
        )
    files = [each for each in due if not each.is_folder]
    if not order.dry_run:
        _write(order, snapshot, wanted, root)
        _check(target, due, ignored)
    foreign = 0 if root else sum(each.owner != os.geteuid() for each in due)
    return FilesRestored(
        snapshot,
        len(files),
        sum(each.size for each in files),
        tuple(other),
        foreign,
        left_out(snapshot, paths),
    )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def left_out(snapshot: FileSnapshot, paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return what a backup lacks of some paths, below or above them, and why; of none: of all."""
    return tuple(
        (what, why)
        for what, why in snapshot.left_out
        if not paths
        or any(
            "." in (path, what) or PurePosixPath(one).is_relative_to(other)
            for path in paths
            for one, other in ((what, path), (path, what))
        )
    )


def _wanted(
    order: FileRestoreOrder, paths: list[str], snapshot: FileSnapshot, listed: list[FileEntry]
) -> list[FileEntry]:
    if not paths or "." in paths:
        return listed
    every = {each.path for each in listed}
    if missing := [each for each in paths if each not in every]:
        if left := left_out(snapshot, missing):
            told = some(f"{shown(path)} ({why})" for path, why in left)
            raise Refused(f"backup {order.date} of {order.backups.name} was made without {told}.")
        raise Refused(
            f"backup {order.date} of {order.backups.name} has no {some(map(shown, missing))}; paths are as "
            "in the folder that was backed up, without its own."
        )
    return [
        each
        for each in listed
        if any(each.path == path or each.path.startswith(path + "/") for path in paths)
    ]


def _ignored(snapshot: FileSnapshot, root: bool) -> list[str]:
    return ([] if snapshot.with_attributes else ["attributes"]) + ([] if root else ["owner"])


def _write(order: FileRestoreOrder, snapshot: FileSnapshot, wanted: list[FileEntry], root: bool) -> None:
    tree = order.backups.tree(order.date)
    try:
        order.target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{order.target} can't be made: {error.strerror}; nothing was restored.") from None
    # Only the side that reads has its owners in attributes.
    options = [*rsync.AS_IT_IS, rsync.KEPT, "--remote-option=--super"] if root else [
        *rsync.AS_IT_IS, rsync.KEPT, "--no-owner", "--no-group", "--remote-option=--no-super"
    ]  # fmt: skip
    options += rsync.WITH_ATTRIBUTES if snapshot.with_attributes else ()
    # Files that are as they were are not written; that is told by what is in them.
    options.append("--checksum")
    # Named one by one: what was not verified, such as a file that somebody put into the tree, is not written.
    options += ["--from0", "--files-from=-"]
    before = _half(order.target, wanted)
    names = "".join(f"./{each.path}\0" for each in wanted)
    done = rsync.run([*options, f"{tree}/", f"{order.target}/"], said=names)
    if done.returncode:
        for each in _half(order.target, wanted) - before:
            each.unlink(missing_ok=True)
        raise Failed(
            f"{order.target} has some of backup {order.date} of {order.backups.name}, and not all: "
            f"{reasons.told(done.returncode, done.stderr)}. Mend that and run it again with --overwrite."
        )


def _half(target: Path, wanted: Iterable[FileEntry]) -> set[Path]:
    """Return files with the names that rsync gives to these until they are whole: `.NAME.XXXXXX`."""
    known: dict[PurePosixPath, set[str]] = {}
    for each in wanted:
        path = PurePosixPath(each.path)
        known.setdefault(path.parent, set()).add(path.name)
    found = set()
    for parent, names in known.items():
        if not (target / parent).is_dir() or entries.look(target, str(parent)) is None:
            continue
        for there in (target / parent).iterdir():
            half = HALF.fullmatch(there.name)
            if half and there.name not in names and names & {half[1], f".{half[1]}"}:
                found.add(there)
    return found


def _check(target: Path, due: Iterable[FileEntry], ignored: Iterable[str]) -> None:
    bad = [
        f"{shown(each.path)} ({what})"
        for each in due
        for what in [verify.fault(each, entries.look(target, each.path), ignored)]
        if what
    ]
    if bad:
        raise Failed(
            f"{target} is not as the backup has it: {some(bad)}. Does its disk take all that files have, or "
            "is it in use?"
        )
