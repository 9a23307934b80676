"""A backup of one folder: begun under another name, and complete or not there."""

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
    with_attributes: bool = False  # extended ones and ACLs
    by_content: bool = False  # compare contents, not sizes and times
    may_be_empty: bool = False
    source_moved: bool = False  # from where the name's newest backup has it


def backup(order: FileBackupOrder, now: int) -> FileSnapshot:
    """Add a backup, `now` being in milliseconds since 1970.

    Files that are as in the newest complete one are hard links to it. Refused: a folder where a Kafka node
    keeps its data and may run, a key that may do more than it must, a source that has become empty or is
    another one than before, one in the other of source and backups. Failed if it is not complete; nothing of
    it stays.
    """
    if not order.source.login:
        _refuse_overlap(Path(order.source.folder), order.backups)
    is_new = not (order.backups / order.name).exists()
    own = folder.made(order.backups, order.name)
    with own.changing() as lock:
        try:
            return _added(order, own, now, lock)
        except Refused:
            # What failed stays, so that a verify says that there is none. What can't be right may be a name
            # that was mistyped once.
            if is_new and not own.dates():
                own.unmake()
            raise


def _added(order: FileBackupOrder, own: BackupsOf, now: int, lock: int) -> FileSnapshot:
    for leftover in own.half():
        own.remove(leftover)
    date = plan.date_name(now)
    base = plan.base(own.dates(), date)
    if base and not order.source_moved:
        _refuse_other_source(order, own.snapshot(base))
    reached = Reached(order.source, order.ssh)
    reached.refuse_other_key(order.backups)
    _refuse_running(order, _in_use(order, reached))
    unfinished = own.path / (folder.UNFINISHED + date)
    try:
        return _made(order, own, reached, unfinished, base, lock)
    except OSError as error:
        raise Failed(
            "backup-folder-unwritable",
            f"{unfinished} can't be written: {error.strerror}. Nothing of this backup was kept.",
        ) from None
    finally:
        if unfinished.exists():
            own.remove(unfinished)


def _made(
    order: FileBackupOrder, own: BackupsOf, reached: Reached, unfinished: Path, base: str | None, lock: int
) -> FileSnapshot:
    date = unfinished.name.removeprefix(folder.UNFINISHED)
    tree = unfinished / folder.TREE
    unfinished.mkdir(mode=0o700)
    before = own.snapshot(base) if base else None
    had = own.entries(before) if before else []
    copying = _copied(order, reached, tree, own.tree(base) if base else None, lock)
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
            f"{order.source} was not backed up: {reasons.MAY_NOT_BE_READ}. Nothing of this backup was kept; "
            "earlier ones are as they were.",
        )
    new = [file for file, inode in files if inode not in shared]
    _refuse_running(order, plan.running_data_folders(file.path for file, _ in files))
    if before and before.files and not files and not order.may_be_empty:
        raise Refused(
            "source-folder-empty",
            f"{order.source} was not backed up: it is empty, and had {before.files:,} files on {base}. Is "
            "its disk mounted? If all was removed on purpose, --allow-empty backs that up.",
        )
    snapshot = FileSnapshot(
        date=date, source=str(order.source), base=base,
        files=len(files), bytes=sum(file.size for file, _ in files),
        new_files=len(new), new_bytes=sum(file.size for file in new), left_out=left_out,
        with_attributes=order.with_attributes, list_sha256="",
    )  # fmt: skip
    own.write(unfinished, folder.head(snapshot), (entry for entry, _ in scanned))
    unfinished.rename(own.path / date)
    folder.synced(own.path)
    return snapshot


def _copied(
    order: FileBackupOrder, reached: Reached, tree: Path, base: Path | None, lock: int
) -> "subprocess.CompletedProcess[str]":
    """Copy; again where files vanished meanwhile, for what was renamed is there under another name."""
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
            f"{source} was not backed up: one of it and {backups} is in the other, so that each backup would "
            "have those before it; keep backups elsewhere, on another disk.",
        )


def _refuse_other_source(order: FileBackupOrder, before: FileSnapshot) -> None:
    if before.source != str(order.source):
        raise Refused(
            "source-folder-changed",
            f"{order.source} was not backed up: {order.name} has backups of {before.source}, which --keep-* "
            "would remove for those of another folder. Give this one a name of its own; if it is the same "
            "folder, which has moved, say so by --source-moved once.",
        )


def _in_use(order: FileBackupOrder, reached: Reached) -> list[str]:
    """Return the data folders of Kafka nodes that may run, of which anything would be backed up."""
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
            f"{order.source} was not backed up: {where} has the data of a Kafka node that may run: what "
            "a broker leaves when it stops is not there. A copy of files that change is none; `aqueduct "
            "backup` backs up topics and groups, and --exclude leaves the folder out.",
        )
