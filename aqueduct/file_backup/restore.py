"""Files of a backup written to another folder, and looked at there."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
    changed_folders: tuple[str, ...]  # that were there with another mode or owner
    top: str  # in what the target's own folder, which was there and stays, is not the backup's
    without_owners: int  # files and folders of others at their source: only root may give them away
    unread: tuple[str, ...]  # written, and not compared: their mode lets nobody but root read them
    left_out: tuple[tuple[str, str], ...]  # of what was wanted, the backup does not have: what, why


def restore(order: FileRestoreOrder) -> FilesRestored:
    """Restore files of a backup, as they were.

    Refused where another file is in the way, or a folder of another mode or owner, unless they may be
    overwritten. Nothing else at the target is touched: neither the target's own folder, if it is there, nor
    those above what is restored. Failed, with nothing written, if one of them is not as it was backed up.
    """
    own = order.backups
    target = Path(os.path.realpath(order.target))
    if target.is_relative_to(own.path.parent.resolve()):
        raise Refused(f"{target} is in the folder of the backups, which it would change; name another one.")
    try:
        if os.path.lexists(target) and not target.is_dir():
            raise Refused(f"{order.target} is no folder; name one, or one that is to be made.")
        with own.reading():
            return _restored(replace(order, target=target))
    except OSError as error:
        who = " Only root, and who made the backups, may read them."
        name = os.fsdecode(error.filename or "")
        raise Failed(
            f"{shown(name)} can't be read: {error.strerror}."
            + (who if Path(name).is_relative_to(own.path) else "")
        ) from None


@dataclass(frozen=True)
class _AtTarget:
    """What a target has in the places of what is to be there."""

    found: dict[str, FileEntry]
    hidden: frozenset[str]  # may not be read, so it is not known what it is

    def has(self, path: str) -> bool:
        return path in self.found or path in self.hidden

    def is_folder(self, path: str) -> bool:
        return path in self.found and self.found[path].is_folder


def _restored(order: FileRestoreOrder) -> FilesRestored:
    own, target = order.backups, order.target
    snapshot = own.snapshot(order.date)
    listed = own.entries(snapshot)
    paths = sorted({plan.below(each) for each in order.paths})
    wanted = _wanted(order, paths, snapshot, listed)
    makes_target = not target.is_dir()
    if not makes_target and not os.access(target, os.X_OK):
        raise Refused(f"{target} may not be looked into by this user; nothing was restored.")
    # Folders above, where there is none: rsync makes them, too, and in the place of files and links.
    above = {each for path in paths for each in entries.above_path(path)} | ({"."} if makes_target else set())
    above -= {each.path for each in wanted}
    there_above = _look(target, (each for each in listed if each.path in above))
    raised = [each for each in listed if each.path in above and not there_above.is_folder(each.path)]
    if damage := verify.of_some(own, snapshot, [*raised, *wanted]):
        told = some(f"{shown(path)} ({what})" for path, what in damage)
        raise Failed(
            f"backup {order.date} of {own.name} is damaged, and nothing was restored: {told}. Take "
            "another date; `aqueduct files verify` tells which have it as it was."
        )
    root = os.geteuid() == 0
    due = [entries.as_source(each) for each in wanted]
    ignored = _ignored(snapshot, root)
    there = _look(target, [*raised, *due])
    _refuse_full_folders(target, due, there)
    other = [
        each.path
        for each in due
        if not (each.is_folder and there.is_folder(each.path))
        and (
            each.path in there.hidden
            or (each.path in there.found and verify.fault(each, there.found[each.path], ignored))
        )
    ] + [each.path for each in raised if there_above.has(each.path)]
    differing = {
        each.path: what
        for each in due
        if each.is_folder and there.is_folder(each.path)
        for what in [verify.fault(each, there.found[each.path], [*ignored, "time"])]
        if what
    }
    top = differing.pop(".", "")
    if (other or differing) and not order.overwrite:
        raise Refused(_others(target, other, differing))
    # The target's own folder is the user's; others that are there are left, but where they may be changed.
    stay = {
        each.path for each in due if there.is_folder(each.path) and (each.path == "." or not order.overwrite)
    }
    sent = [entries.as_source(each) for each in raised] + [each for each in due if each.path not in stay]
    files = [each for each in due if not each.is_folder]
    unread: tuple[str, ...] = ()
    if not order.dry_run:
        _write(order, snapshot, sent, there, makes_target=makes_target)
        left = [each for each in due if each.path in stay and each.path != "."]
        unread = _check(target, sent, ignored) + _check(target, left, [*ignored, "time"])
    foreign = 0 if root else sum(each.owner != os.geteuid() for each in sent)
    return FilesRestored(
        snapshot,
        len(files),
        sum(each.size for each in files),
        tuple(other),
        tuple(differing),
        top,
        foreign,
        unread,
        left_out(snapshot, paths),
    )


def _look(target: Path, due: Iterable[FileEntry]) -> _AtTarget:
    found, hidden = {}, set()
    for each in due:
        try:
            if seen := entries.look(target, each.path):
                found[each.path] = seen
        except PermissionError:
            hidden.add(each.path)
    return _AtTarget(found, frozenset(hidden))


def _refuse_full_folders(target: Path, due: Iterable[FileEntry], there: _AtTarget) -> None:
    full = [
        each.path
        for each in due
        if not each.is_folder and there.is_folder(each.path) and any((target / each.path).iterdir())
    ]
    if full:
        raise Refused(
            f"{target} has folders with something in them in the place of {count(len(full), 'file')}: "
            f"{some(map(shown, full))}. Move them away, or restore to another folder; nothing was restored."
        )


def _others(target: Path, other: Sequence[str], differing: Mapping[str, str]) -> str:
    folders = some(f"{shown(path)} ({what})" for path, what in differing.items())
    said = []
    if other:
        said.append(
            f"{target} has others of {count(len(other), 'file')}: {some(map(shown, other))}. --overwrite "
            "replaces them"
        )
    if differing:
        said.append(
            f"{target} has {count(len(differing), 'folder')} not as in the backup: {folders}. --overwrite "
            "gives folders its mode and owner"
        )
    return f"{'; '.join(said)}; nothing was restored."


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


def _write(
    order: FileRestoreOrder,
    snapshot: FileSnapshot,
    sent: Sequence[FileEntry],
    there: _AtTarget,
    *,
    makes_target: bool,
) -> None:
    tree, target = order.backups.tree(order.date), order.target
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{target} can't be made: {error.strerror}; nothing was restored.") from None
    # Only the side that reads has its owners in attributes.
    options = [*rsync.AS_IT_IS, rsync.KEPT, "--remote-option=--super"] if os.geteuid() == 0 else [
        *rsync.AS_IT_IS, rsync.KEPT, "--no-owner", "--no-group", "--remote-option=--no-super"
    ]  # fmt: skip
    options += rsync.WITH_ATTRIBUTES if snapshot.with_attributes else ()
    # Files that are as they were are not written; that is told by what is in them.
    options.append("--checksum")
    # Named one by one: what was not verified, such as a file that somebody put into the tree, is not written.
    options += ["--from0", "--files-from=-"]
    # Those above what is named get the backup's owner, mode and times, too, unless that is forbidden. The
    # top is never named where it has something: all that is in it would be.
    names = [f"./{each.path}\0" for each in sent if each.path != "."]
    if not makes_target:
        options.append("--no-implied-dirs")
    elif not names:
        names, options = ["./.\0"], [*options, "--exclude=*"]
    if not names:
        return
    before = _half(target, sent)
    done = rsync.run([*options, f"{tree}/", f"{target}/"], said="".join(names))
    if done.returncode:
        for each in _half(target, sent) - before:
            each.unlink(missing_ok=True)
        what, why = f"backup {order.date} of {order.backups.name}", reasons.told(done.returncode, done.stderr)
        if _untouched(target, sent, there):
            if makes_target:
                with suppress(OSError):
                    target.rmdir()
            raise Failed(f"{target} has nothing of {what}: {why}. Mend that and run it again.")
        raise Failed(
            f"{target} has some of {what}, and not all: {why}. Mend that and run it again with --overwrite."
        )


def _untouched(target: Path, sent: Sequence[FileEntry], there: _AtTarget) -> bool:
    """Tell if a target has what it had, in the places of what was to be written there."""
    rest = [each for each in sent if each.path != "."]
    now = _look(target, rest)
    names = {each.path for each in rest}
    return now.hidden == there.hidden & names and now.found == {
        path: each for path, each in there.found.items() if path in names
    }


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
        try:
            inside = [*(target / parent).iterdir()]
        except PermissionError:  # as it will be again, when rsync has ended
            continue
        for there in inside:
            half = HALF.fullmatch(there.name)
            if half and there.name not in names and names & {half[1], f".{half[1]}"}:
                found.add(there)
    return found


def _check(target: Path, due: Iterable[FileEntry], ignored: Iterable[str]) -> tuple[str, ...]:
    """Compare what is there with what was to be; return what may not be read. Failed if it is another."""
    due, ignored = [*due], [*ignored]
    now = _look(target, due)
    bad = [
        f"{shown(each.path)} ({what})"
        for each in due
        if each.path not in now.hidden
        for what in [verify.fault(each, now.found.get(each.path), ignored)]
        if what
    ]
    if bad:
        raise Failed(
            f"{target} is not as the backup has it: {some(bad)}. Does its disk take all that files have, or "
            "is it in use?"
        )
    return tuple(sorted(now.hidden))
