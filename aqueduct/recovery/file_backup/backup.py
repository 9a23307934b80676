"""Creates a backup of a folder. It has a temporary name until it is complete."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from aqueduct.common.wording import shown, some
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.file_backup import entries, folder, plan, reasons, rsync
from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.recovery.file_backup.plan import FileSource
from aqueduct.recovery.file_backup.rsync import Reached, SshOptions


@dataclass(frozen=True, kw_only=True)
class FileBackupOrder:
    backups: Path
    name: str
    source: FileSource
    ssh: SshOptions = field(default_factory=SshOptions)
    excludes: tuple[str, ...] = ()
    with_attributes: bool = False  # extended attributes and ACLs
    by_content: bool = False  # compare contents, not sizes and times
    may_be_empty: bool = False
    source_moved: bool = False  # the path differs from the newest backup's, but the folder is the same


def backup(order: FileBackupOrder, now: int) -> FileSnapshot:
    """Create a backup. `now`: milliseconds since 1970.

    Files that are unchanged since the newest complete backup are hard links. Refused for these sources: a
    data folder of a Kafka node that may run, a host whose key has too many rights, a folder that has become
    empty, another folder than before, and a folder that contains the backups or is inside them. Failed if the
    backup cannot be completed; nothing of it is kept.
    """
    if not order.source.login:
        _refuse_overlap(Path(order.source.folder), order.backups)
    is_new = not (order.backups / order.name).exists()
    own = folder.create_backups(order.backups, order.name)
    with own.locked_for_changes() as lock:
        try:
            return _add(order, own, now, lock)
        except Refused:
            # After a failure the folder stays, so that `verify` reports that no backup exists. After a
            # refusal it is removed, because the name may be a typing error.
            if is_new and not own.dates():
                own.remove_empty()
            raise


def _add(order: FileBackupOrder, own: BackupsOf, now: int, lock: int) -> FileSnapshot:
    for leftover in own.incomplete():
        own.remove(leftover)
    date = plan.date_name(now)
    base = plan.base_date(own.dates(), date)
    if base and not order.source_moved:
        _refuse_other_source(order, own.snapshot(base))
    reached = Reached(order.source, order.ssh)
    reached.refuse_other_key(order.backups)
    _refuse_running(order, _in_use(order, reached))
    unfinished = own.path / (folder.UNFINISHED + date)
    try:
        return _create(order, own, reached, unfinished, base, lock)
    except OSError as error:
        raise Failed(
            "backup-folder-unwritable",
            f"Cannot write {unfinished}: {error.strerror}. Correct the cause, and run the command again. "
            "Nothing of this backup was kept.",
        ) from None
    finally:
        if unfinished.exists():
            own.remove(unfinished)


def _create(
    order: FileBackupOrder, own: BackupsOf, reached: Reached, unfinished: Path, base: str | None, lock: int
) -> FileSnapshot:
    date = unfinished.name.removeprefix(folder.UNFINISHED)
    tree = unfinished / folder.TREE
    unfinished.mkdir(mode=0o700)
    before = own.snapshot(base) if base else None
    had = own.entries(before) if before else []
    copying = _copy(order, reached, tree, own.tree(base) if base else None, lock)
    vanished = copying.returncode == reasons.VANISHED
    if (
        copying.returncode
        and not vanished
        and not reasons.only_unreadable(copying.returncode, copying.stderr)
    ):
        raise Failed("rsync-failed", reached.failed(copying, order.backups))
    shared = entries.inodes(own.tree(base), had) if base else {}
    scanned = list(entries.scan(tree, shared))
    files = [(entry, inode) for entry, inode in scanned if not entry.is_folder]
    left_out = reasons.left_out(copying.stderr, order.source)
    if any(path == "." for path, _ in left_out):
        raise Failed(
            "source-folder-unreadable",
            f"{order.source} was not backed up. {reasons.MAY_NOT_BE_READ} Nothing of this backup was kept. "
            "Earlier backups are unchanged.",
        )
    new = [file for file, inode in files if inode not in shared]
    _refuse_running(order, plan.running_data_folders(file.path for file, _ in files))
    if before and before.files and not files and not order.may_be_empty:
        raise Refused(
            "source-folder-empty",
            f"{order.source} was not backed up, because it is empty. The backup of {base} has "
            f"{before.files:,} files. Mount the disk of the folder. If all files were removed on purpose, "
            "pass --allow-empty.",
        )
    snapshot = FileSnapshot(
        date=date, source=str(order.source), base=base,
        files=len(files), bytes=sum(file.size for file, _ in files),
        new_files=len(new), new_bytes=sum(file.size for file in new), left_out=left_out,
        with_attributes=order.with_attributes, list_sha256="",
    )  # fmt: skip
    own.write(unfinished, folder.head(snapshot), (entry for entry, _ in scanned))
    unfinished.rename(own.path / date)
    folder.sync_folder(own.path)
    return snapshot


def _copy(
    order: FileBackupOrder, reached: Reached, tree: Path, base: Path | None, lock: int
) -> "subprocess.CompletedProcess[str]":
    """Copy. If files vanish meanwhile, copy again, because renamed files have another name."""
    arguments = [
        *rsync.AS_IT_IS,
        *reached.receiving,
        "--fsync",
        *([*rsync.WITH_ATTRIBUTES, *rsync.NOT_FROM_SOURCE] if order.with_attributes else ()),
        *(["--checksum"] if order.by_content else ()),
        *(["--delete", f"--link-dest={base}"] if base else ["--delete"]),
        *rsync.excluded(order.excludes),
        *reached.options,
        reached.argument,
        f"{tree}/",
    ]
    for _ in range(plan.ATTEMPTS):
        copying = rsync.run(arguments, lock)
        if copying.returncode != reasons.VANISHED:
            break
    return copying


def _refuse_overlap(source: Path, backups: Path) -> None:
    one, other = source.resolve(), backups.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise Refused(
            "backup-folder-overlap",
            f"{source} was not backed up, because {backups} is inside this folder or contains it: each "
            "backup would contain the earlier ones. Keep backups in another place, on another disk.",
        )


def _refuse_other_source(order: FileBackupOrder, before: FileSnapshot) -> None:
    if before.source != str(order.source):
        raise Refused(
            "source-folder-changed",
            f"{order.source} was not backed up, because the backups with the name {order.name} are of "
            f"{before.source}. With --keep-*, backups of one folder would replace backups of the other. Pass "
            "another name with --name. If the same folder has moved, pass --source-moved once.",
        )


def _in_use(order: FileBackupOrder, reached: Reached) -> list[str]:
    """Return the data folders of Kafka nodes that may run and that are not excluded."""
    data_folders = plan.running_data_folders(reached.marks(order.excludes, order.backups))
    if not data_folders or not order.excludes:
        return data_folders
    files = [PurePosixPath(path) for path in reached.files(order.excludes, order.backups)]
    return [folder for folder in data_folders if any(file.is_relative_to(folder) for file in files)]


def _refuse_running(order: FileBackupOrder, data_folders: list[str]) -> None:
    if data_folders:
        where = some(
            shown(f"{order.source.folder.rstrip('/')}/{data_folder}".removesuffix("/."))
            for data_folder in data_folders
        )
        raise Refused(
            "kafka-data-in-source",
            f"{order.source} was not backed up, because {where} has the data of a Kafka node that may run: "
            "the file of a clean shutdown does not exist. A copy of changing files is not consistent. "
            "Exclude the folder with --exclude. Back up topics and groups with `aqueduct backup`.",
        )
