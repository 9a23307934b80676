"""Restores files of a backup to a folder, and verifies the restored files."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from aqueduct.common.wording import count, shown, some
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.file_backup import entries, plan, reasons, rsync, staging, verify
from aqueduct.recovery.file_backup.entries import FileEntry
from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.recovery.file_backup.target import OpenedTarget, open_target

OTHERS_WRITE = 0o022  # the bits of a mode that let others change what a folder has
HALF = re.compile(r"\.(.+)\.[A-Za-z0-9]{6}", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class FileRestoreOrder:
    backups: BackupsOf
    date: str
    target: Path
    paths: tuple[str, ...] = ()  # relative to the backed-up folder; empty: all files
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class FilesRestored:
    snapshot: FileSnapshot
    files: int
    bytes: int
    overwritten: tuple[str, ...]
    changed_folders: tuple[str, ...]  # existing folders whose mode or owner was changed
    top: str  # differences of the target folder itself, which exists and is not changed
    without_owners: int  # files and folders of other users: only root can restore their owners
    unread: tuple[str, ...]  # written but not compared: only root can read them
    left_out: tuple[tuple[str, str], ...]  # requested paths that the backup skipped, with the reason


def restore(order: FileRestoreOrder) -> FilesRestored:
    """Restore files of a backup.

    Refused if the target has a different file at a path, or a folder with another mode or owner, unless
    `overwrite`. Nothing else at the target is changed: an existing target folder and folders above restored
    files stay as they are. Failed, with nothing written, if a file of the backup is damaged.
    """
    own = order.backups
    try:
        with open_target(order.target) as target:
            if target.path.is_relative_to(own.path.parent.resolve()):
                raise Refused(
                    "restore-folder-unusable",
                    f"Cannot restore to {target.path}, because the restore would change the folder "
                    "of the backups. Pass a folder outside it.",
                )
            if os.path.lexists(target.path) and target.missing:
                raise Refused(
                    "restore-folder-unusable",
                    f"Cannot restore to {order.target}, because it is not a folder. Pass a folder, "
                    "or a path that does not exist: the command creates it.",
                )
            with own.locked_for_reading():
                return _restored(replace(order, target=target.path), target)
    except OSError as error:
        who = " Only root and the user who made the backups can read them."
        name = os.fsdecode(error.filename or "")
        if Path(name).is_relative_to(own.path):
            raise Failed(
                "backup-folder-unreadable", f"Cannot read {shown(name)}: {error.strerror}.{who}"
            ) from None
        raise Failed(
            "restore-folder-unusable",
            f"Cannot read {shown(name)}: {error.strerror}. Run the command as root, or restore to another "
            "folder.",
        ) from None


@dataclass(frozen=True)
class _AtTarget:
    """The entries of a target at the paths of a restore."""

    found: dict[str, FileEntry]
    hidden: frozenset[str]  # paths that cannot be read

    def has(self, path: str) -> bool:
        return path in self.found or path in self.hidden

    def is_folder(self, path: str) -> bool:
        return path in self.found and self.found[path].is_folder


@dataclass(frozen=True, kw_only=True)
class _Selected:
    """The part of a backup to restore."""

    snapshot: FileSnapshot
    paths: Sequence[str]  # empty: all files
    chosen: Sequence[FileEntry]
    above: Sequence[FileEntry]  # folders above these, with the target's own if it does not exist
    makes_target: bool


@dataclass(frozen=True, kw_only=True)
class _Differences:
    """The differences between a target and a backup."""

    other: Sequence[str]  # files, or other entries at the path of a folder
    folders: Mapping[str, str]  # folders with another mode or owner, with the difference
    top: str  # differences of the target folder itself


def _restored(order: FileRestoreOrder, target: OpenedTarget) -> FilesRestored:
    selected = _select(order, makes_target=bool(target.missing))
    above = _look(target.top, selected.above)
    raised = [entry for entry in selected.above if not above.is_folder(entry.path)]
    _refuse_damage(order, selected.snapshot, [*raised, *selected.chosen])
    due = [entries.as_source(entry) for entry in selected.chosen]
    at_target = _look(target.top, [*raised, *due])
    _refuse_full_folders(target, due, at_target)
    ignored = _ignored(selected.snapshot, os.geteuid() == 0)
    differences = _differences(due, at_target, ignored, [entry for entry in raised if above.has(entry.path)])
    if (differences.other or differences.folders) and not order.overwrite:
        raise Refused(
            "restore-folder-not-empty", _others(order.target, differences.other, differences.folders)
        )
    # An existing target folder is not changed; other existing folders only with --overwrite.
    stay = {
        entry.path
        for entry in due
        if at_target.is_folder(entry.path) and (entry.path == "." or not order.overwrite)
    }
    sent = [entries.as_source(entry) for entry in raised] + [entry for entry in due if entry.path not in stay]
    unread: tuple[str, ...] = ()
    if not order.dry_run:
        if _is_exposed(target, [*above.found.values(), *at_target.found.values(), *sent]):
            unread = _write_staged(order, selected.snapshot, sent, at_target, target, ignored)
        else:
            _write(order, selected.snapshot, sent, at_target, makes_target=selected.makes_target)
            unread = _check(order.target, order.target, sent, ignored)
        left = [entry for entry in due if entry.path in stay and entry.path != "."]
        unread += _check(order.target, target.top, left, [*ignored, "time"])
    files = [entry for entry in due if not entry.is_folder]
    return FilesRestored(
        snapshot=selected.snapshot,
        files=len(files),
        bytes=sum(file.size for file in files),
        overwritten=tuple(differences.other),
        changed_folders=tuple(differences.folders),
        top=differences.top,
        without_owners=_without_owners(sent),
        unread=unread,
        left_out=left_out(selected.snapshot, selected.paths),
    )


def _is_exposed(target: OpenedTarget, seen: Iterable[FileEntry]) -> bool:
    """Return whether another user could create a link that root follows, now or after the restore."""
    folders = (entry for entry in seen if entry.is_folder)
    return os.geteuid() == 0 and not (
        target.private and all(folder.owner == 0 and not folder.mode & OTHERS_WRITE for folder in folders)
    )


def _select(order: FileRestoreOrder, *, makes_target: bool) -> _Selected:
    """Select the files of the order. Refused if the backup lacks one of its paths."""
    own, target = order.backups, order.target
    snapshot = own.snapshot(order.date)
    listed = own.entries(snapshot)
    paths = sorted({plan.relative_path(path) for path in order.paths})
    chosen = _wanted(order, paths, snapshot, listed)
    if not makes_target and not os.access(target, os.X_OK):
        raise Refused(
            "restore-folder-unusable",
            f"Cannot open {target}, because this user has no permission. Nothing was restored.",
        )
    # Missing folders above: rsync creates them, too, also in place of files and links.
    above = {parent for path in paths for parent in entries.above_path(path)} | (
        {"."} if makes_target else set()
    )
    above -= {entry.path for entry in chosen}
    return _Selected(
        snapshot=snapshot,
        paths=paths,
        chosen=chosen,
        above=[entry for entry in listed if entry.path in above],
        makes_target=makes_target,
    )


def _refuse_damage(order: FileRestoreOrder, snapshot: FileSnapshot, used: Sequence[FileEntry]) -> None:
    if damage := verify.damaged_files(order.backups, snapshot, used):
        damaged = some(f"{shown(path)} ({fault})" for path, fault in damage)
        raise Failed(
            "file-backup-damaged",
            f"Backup {order.date} of {order.backups.name} is damaged: {damaged}. Nothing was "
            "restored. Restore a backup of another date: `aqueduct files verify` lists the "
            "backups with undamaged files.",
        )


def _differences(
    due: Sequence[FileEntry], at_target: _AtTarget, ignored: Sequence[str], blocked: Sequence[FileEntry]
) -> _Differences:
    """Compare the files to write with the target. Other entries are at the paths of `blocked`."""
    folders = [entry for entry in due if entry.is_folder and at_target.is_folder(entry.path)]
    rest = [entry for entry in due if not (entry.is_folder and at_target.is_folder(entry.path))]
    other = [
        entry.path
        for entry in rest
        if entry.path in at_target.hidden
        or (entry.path in at_target.found and verify.fault(entry, at_target.found[entry.path], ignored))
    ]
    differing = {
        entry.path: difference
        for entry in folders
        if (difference := verify.fault(entry, at_target.found[entry.path], [*ignored, "time"]))
    }
    top = differing.pop(".", "")
    return _Differences(other=[*other, *(entry.path for entry in blocked)], folders=differing, top=top)


def _without_owners(sent: Iterable[FileEntry]) -> int:
    """Count entries that will belong to this user instead of their owner: only root can set owners."""
    user = os.geteuid()
    return sum(entry.owner != user for entry in sent) if user else 0


def _look(target: Path | int, due: Iterable[FileEntry]) -> _AtTarget:
    entry_by_path, hidden = {}, set()
    for entry in due:
        try:
            if seen := entries.read_entry(target, entry.path):
                entry_by_path[entry.path] = seen
        except PermissionError:
            hidden.add(entry.path)
    return _AtTarget(entry_by_path, frozenset(hidden))


def _refuse_full_folders(target: OpenedTarget, due: Iterable[FileEntry], at_target: _AtTarget) -> None:
    def is_full(path: str) -> bool:
        with entries.folder(target.top, path) as descriptor:
            return any(Path(f"/proc/self/fd/{descriptor}").iterdir())

    full = [
        entry.path
        for entry in due
        if not entry.is_folder and at_target.is_folder(entry.path) and is_full(entry.path)
    ]
    if full:
        raise Refused(
            "folder-blocks-file",
            f"{target.path} has folders with content at the paths of {count(len(full), 'file')}: "
            f"{some(map(shown, full))}. Move them away, or restore to another folder. Nothing was "
            "restored.",
        )


def _others(target: Path, other: Sequence[str], differing: Mapping[str, str]) -> str:
    folders = some(f"{shown(path)} ({difference})" for path, difference in differing.items())
    sentences = []
    if other:
        sentences.append(
            f"{target} differs from the backup in {count(len(other), 'file')}: "
            f"{some(map(shown, other))}. --overwrite replaces the files."
        )
    if differing:
        sentences.append(
            f"{target} differs from the backup in {count(len(differing), 'folder')}: {folders}. "
            "--overwrite gives folders the mode and owner of the backup."
        )
    return f"{' '.join(sentences)} Nothing was restored."


def left_out(snapshot: FileSnapshot, paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return skipped entries at, below and above paths, with the reason; without paths, all of them."""
    return tuple(
        (missed, reason)
        for missed, reason in snapshot.left_out
        if not paths
        or any(
            "." in (path, missed) or PurePosixPath(one).is_relative_to(other)
            for path in paths
            for one, other in ((missed, path), (path, missed))
        )
    )


def _wanted(
    order: FileRestoreOrder, paths: list[str], snapshot: FileSnapshot, listed: list[FileEntry]
) -> list[FileEntry]:
    if not paths or "." in paths:
        return listed
    every = {entry.path for entry in listed}
    if missing := [path for path in paths if path not in every]:
        if left := left_out(snapshot, missing):
            lacking = some(f"{shown(path)} ({reason})" for path, reason in left)
            raise Refused(
                "path-not-in-backup",
                f"Backup {order.date} of {order.backups.name} does not contain {lacking}.",
            )
        raise Refused(
            "path-not-in-backup",
            f"Backup {order.date} of {order.backups.name} has no {some(map(shown, missing))}. "
            "Write paths relative to the folder that was backed up.",
        )
    return [
        entry
        for entry in listed
        if any(entry.path == path or entry.path.startswith(path + "/") for path in paths)
    ]


def _ignored(snapshot: FileSnapshot, root: bool) -> list[str]:
    return ([] if snapshot.with_attributes else ["attributes"]) + ([] if root else ["owner"])


def _write(
    order: FileRestoreOrder,
    snapshot: FileSnapshot,
    sent: Sequence[FileEntry],
    at_target: _AtTarget,
    *,
    makes_target: bool,
) -> None:
    tree, target = order.backups.tree(order.date), order.target
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            "restore-folder-unusable", f"Cannot create {target}: {error.strerror}. Nothing was restored."
        ) from None
    options = _options(snapshot)
    # Only listed files are written: a file that another user put into the backup is not in the list.
    options += ["--from0", "--files-from=-"]
    # rsync also changes owner, mode and times of folders above listed files, unless it is told not to. The
    # top is not listed if it has files: rsync would write all files below it.
    names = [f"./{entry.path}\0" for entry in sent if entry.path != "."]
    if not makes_target:
        options.append("--no-implied-dirs")
    elif not names:
        names, options = ["./.\0"], [*options, "--exclude=*"]
    if not names:
        return
    before = _half(target, sent)
    copying = rsync.run([*options, f"{tree}/", f"{target}/"], stdin="".join(names))
    if copying.returncode:
        for unfinished in _half(target, sent) - before:
            unfinished.unlink(missing_ok=True)
        name, cause = (
            f"backup {order.date} of {order.backups.name}",
            reasons.exit_description(copying.returncode, copying.stderr),
        )
        if _untouched(target, sent, at_target):
            if makes_target:
                with suppress(OSError):
                    target.rmdir()
            raise Failed(
                "file-restore-failed",
                f"Nothing of {name} was restored to {target}: {cause}. Correct the cause, and run "
                "the command again.",
            )
        raise Failed(
            "file-restore-failed",
            f"Only a part of {name} was restored to {target}: {cause}. Correct the cause, and run "
            "the command again with --overwrite.",
        )


def _options(snapshot: FileSnapshot) -> list[str]:
    # Only the reading side has owners in attributes.
    options = [*rsync.AS_IT_IS, rsync.KEPT, "--remote-option=--super"] if os.geteuid() == 0 else [
        *rsync.AS_IT_IS, rsync.KEPT, "--no-owner", "--no-group", "--remote-option=--no-super"
    ]  # fmt: skip
    options += rsync.WITH_ATTRIBUTES if snapshot.with_attributes else ()
    # Unchanged files are not written. They are compared by their content.
    return [*options, "--checksum"]


def _write_staged(
    order: FileRestoreOrder,
    snapshot: FileSnapshot,
    sent: Sequence[FileEntry],
    at_target: _AtTarget,
    target: OpenedTarget,
    ignored: Sequence[str],
) -> tuple[str, ...]:
    """Write as root to folders that other users can change. Return the paths that cannot be read.

    rsync writes to a folder that only root can enter. After a comparison, the files are moved to the target,
    by descriptors of folders.
    """
    existing = [entry for entry in sent if entry.is_folder and at_target.is_folder(entry.path)]
    rest = [entry for entry in sent if entry not in existing]
    fresh = [
        entry
        for entry in rest
        if entry.path not in at_target.found or verify.fault(entry, at_target.found[entry.path], ignored)
    ]
    failed = f"backup {order.date} of {order.backups.name}"
    begun, written, unread = False, False, tuple[str, ...]()
    try:
        if fresh:
            with (
                staging.create_folders(target.descriptor, target.missing[:-1]) as parent,
                staging.staging_folder(parent) as private,
            ):
                begun, copy = True, Path(f"/proc/self/fd/{private}/{staging.TREE}")
                _copy_fresh(order, snapshot, fresh, target, private)
                unread = _check(target.path, copy, fresh, ignored)
                written = True
                _move_fresh(fresh, copy, target, private, parent)
        for entry in existing:
            _set_folder(snapshot, f"{order.backups.tree(order.date)}/{entry.path}", target, entry.path)
    except OSError as error:
        if target.missing and not begun:
            raise Refused(
                "restore-folder-unusable",
                f"Cannot create {target.path}: {error.strerror}. Nothing was restored.",
            ) from None
        cause = f"{shown(os.fsdecode(error.filename or ''))}: {error.strerror}"
        part = f"Only a part of {failed}" if written else f"Nothing of {failed}"
        raise Failed(
            "file-restore-failed",
            f"{part} was restored to {target.path}: {cause}. Correct the cause, and run the "
            f"command again{' with --overwrite' if written else ''}. If another user changes "
            "folders there, stop the programs of that user first.",
        ) from None
    return unread + (_check(target.path, target.descriptor, existing, ignored) if existing else ())


def _copy_fresh(
    order: FileRestoreOrder,
    snapshot: FileSnapshot,
    fresh: Sequence[FileEntry],
    target: OpenedTarget,
    private: int,
) -> None:
    names = [f"./{entry.path}\0" for entry in fresh if entry.path != "."]
    options = [*_options(snapshot), "--from0", "--files-from=-"]
    if not names:
        names, options = ["./.\0"], [*options, "--exclude=*"]
    copy = f"/proc/self/fd/{private}/{staging.TREE}/"
    tree = order.backups.tree(order.date)
    copying = rsync.run([*options, f"{tree}/", copy], keep=private, stdin="".join(names))
    if copying.returncode:
        raise Failed(
            "file-restore-failed",
            f"Nothing of backup {order.date} of {order.backups.name} was restored to "
            f"{target.path}: {reasons.exit_description(copying.returncode, copying.stderr)}. Correct the "
            "cause, and run the command again.",
        )


def _move_fresh(
    fresh: Sequence[FileEntry], copy: Path, target: OpenedTarget, private: int, parent: int
) -> None:
    if target.missing:
        # The target did not exist: if it was created since, it is not replaced.
        os.rename(staging.TREE, target.missing[-1], src_dir_fd=private, dst_dir_fd=parent)
        return
    paths = {entry.path for entry in fresh}
    for entry in fresh:
        if paths.isdisjoint(entries.above_path(entry.path)):  # else it moves with that folder
            staging.move(entry.path, copy, target.descriptor)


def _set_folder(snapshot: FileSnapshot, source: str, target: OpenedTarget, path: str) -> None:
    """Set the owner, mode, times and attributes of an existing folder as in the backup."""
    with entries.folder(target.descriptor, path) as descriptor:
        itself = f"/proc/self/fd/{descriptor}/"
        copying = rsync.run([*_options(snapshot), "--exclude=*", f"{source}/", itself], keep=descriptor)
    if copying.returncode:
        raise Failed(
            "file-restore-failed",
            f"All files of the backup were restored to {target.path}, but {shown(path)} does not "
            f"have its owner and mode: {reasons.exit_description(copying.returncode, copying.stderr)}. "
            "Correct the cause, and run the command again with --overwrite.",
        )


def _untouched(target: Path, sent: Sequence[FileEntry], at_target: _AtTarget) -> bool:
    """Return whether a target is unchanged at the paths of the restore."""
    rest = [entry for entry in sent if entry.path != "."]
    now = _look(target, rest)
    names = {entry.path for entry in rest}
    return now.hidden == at_target.hidden & names and now.found == {
        path: entry for path, entry in at_target.found.items() if path in names
    }


def _half(target: Path, to_write: Iterable[FileEntry]) -> set[Path]:
    """Return incomplete files, which rsync calls `.NAME.XXXXXX`."""
    names_by_folder: dict[PurePosixPath, set[str]] = {}
    for entry in to_write:
        path = PurePosixPath(entry.path)
        names_by_folder.setdefault(path.parent, set()).add(path.name)
    half_files = set()
    for parent, names in names_by_folder.items():
        if not (target / parent).is_dir() or entries.read_entry(target, str(parent)) is None:
            continue
        try:
            inside = [*(target / parent).iterdir()]
        except PermissionError:  # rsync cannot write there, either
            continue
        for candidate in inside:
            half = HALF.fullmatch(candidate.name)
            if half and candidate.name not in names and names & {half[1], f".{half[1]}"}:
                half_files.add(candidate)
    return half_files


def _check(
    target: Path, top: Path | int, due: Iterable[FileEntry], ignored: Iterable[str]
) -> tuple[str, ...]:
    """Verify restored files. Return the paths that cannot be read. Failed if a file differs."""
    due, ignored = [*due], [*ignored]
    now = _look(top, due)
    bad = [
        f"{shown(entry.path)} ({what})"
        for entry in due
        if entry.path not in now.hidden
        for what in [verify.fault(entry, now.found.get(entry.path), ignored)]
        if what
    ]
    if bad:
        raise Failed(
            "restored-files-differ",
            f"{target} differs from the backup: {some(bad)}. Check that its disk supports owners, "
            "modes and attributes, and that no program uses the folder.",
        )
    return tuple(sorted(now.hidden))
