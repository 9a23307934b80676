"""Give a stopped broker's data folders another id, and restore logs that it has set aside."""

import errno
import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from aqueduct.common.folder_owners import refuse_root_beside_others
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.whole_files import write_whole
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder, inspect_folder

LONGEST = 255  # characters of a folder's name
ID = re.compile(r"^(?P<name>node\.id|broker\.id)\s*=.*$", re.MULTILINE)  # with KRaft; with ZooKeeper
# The controller rejects a broker with a directory id that another broker registered. A broker creates a
# missing id (KIP-858).
DIRECTORY = re.compile(r"^directory\.id\s*=.*\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class RestoredLogs:
    """The changes of a data folder."""

    path: str
    before: int  # the broker's id
    now: int
    logs: list[str] = field(default_factory=list)  # folders of restored logs
    emptied: list[str] = field(default_factory=list)  # empty logs that restored logs replaced
    left: list[tuple[str, str]] = field(default_factory=list)  # logs that stay set aside, and why


def restore_logs(paths: Sequence[Path], node_id: int | None) -> list[RestoredLogs]:
    """Restore the stray logs in all folders of a stopped broker, and change the broker's id to `node_id`.

    Refused, with nothing changed, if the broker runs or a folder cannot be read. A partition has one log in
    all folders. After a failure, a second call continues: each step leaves folders with which a broker
    starts.
    """
    for named_path in paths:
        refuse_root_beside_others(named_path, "repair restore-logs")
    folders = [inspect_folder(path) for path in {path.resolve(): path for path in paths}.values()]
    of = {(folder.cluster_id, folder.node_id) for folder in folders if folder.node_id != node_id}
    if len(of) > 1 or len({folder.cluster_id for folder in folders}) > 1:
        owners = sorted(
            f"{folder.path} of broker {folder.node_id}, {folder.cluster_id}" for folder in folders
        )
        raise Refused(
            "data-folders-mixed",
            f"These folders belong to several brokers: {some(owners)}. Pass the folders of one "
            "broker. Nothing was done.",
        )
    with ExitStack() as locks:
        for folder in folders:
            locks.enter_context(locked(Path(folder.path)))
        taken = {
            folder.path: RestoredLogs(
                path=folder.path, before=folder.node_id, now=folder.node_id if node_id is None else node_id
            )
            for folder in folders
        }
        for logs in _by_partition(folders).values():
            _restore_logs(logs, taken)
        for path, of_folder in taken.items():
            if of_folder.now != of_folder.before:
                _write_id(Path(path, "meta.properties"), of_folder.now)
            sync(Path(path))
        return list(taken.values())


LogPlace = tuple[str, DiskLog]  # with its data folder


def _by_partition(folders: Iterable[Folder]) -> Mapping[TopicPartition, list[LogPlace]]:
    logs_by_partition: dict[TopicPartition, list[LogPlace]] = defaultdict(list)
    for folder in folders:
        for log in folder.logs:
            logs_by_partition[log.partition].append((folder.path, log))
    return logs_by_partition


def _restore_logs(logs: Iterable[LogPlace], taken: Mapping[str, RestoredLogs]) -> None:
    """Restore the longest stray log of a partition, unless a log in use is longer."""
    present, aside = [], []
    for path, log in logs:
        if not log.stray:
            present.append((path, log))
        elif len(log.folder) == LONGEST:
            taken[path].left.append(
                (log.folder, "its name may be truncated, because it has the maximum length of a folder name")
            )
        else:
            aside.append((path, log))
    if not aside:
        return
    ids = {log.topic_id for _, log in present}
    path, best = max(aside, key=lambda candidate: (candidate[1].topic_id in ids, candidate[1].epoch_and_end))
    reason = f"{path}/{best.folder} is at least as long"
    for folder, log in present:
        if log.bytes or log.end > best.end:
            reason = f"{folder}/{log.folder} exists, with {log.bytes:,} bytes, up to offset {log.end:,}"
            path = ""
    for folder, log in aside:
        if (folder, log) != (path, best):
            taken[folder].left.append((log.folder, reason))
    if path:
        _put_back(path, best, present, taken)


def _put_back(
    path: str, stray: DiskLog, empty: Iterable[LogPlace], taken: Mapping[str, RestoredLogs]
) -> None:
    name = str(stray.partition)
    try:
        for folder, log in empty:
            _set_aside(Path(folder), log)
            sync(Path(folder))
            taken[folder].emptied.append(log.folder)
        _remove_indexes(Path(path, stray.folder))
        Path(path, stray.folder).rename(Path(path, name))
    except OSError as error:
        raise Failed(
            "data-folder-unwritable",
            f"Cannot restore {path}/{stray.folder}: {error.strerror}. Run the command again.",
        ) from None
    taken[path].logs.append(name)


def _remove_indexes(log: Path) -> None:
    """Remove a log's indexes: a broker re-creates missing ones (LogLoader.loadSegmentFiles).

    A broker that sets a log aside has opened it, and does not truncate its indexes when it stops: they keep
    their full size, filled with zeros. With these indexes, the newest record of the log would be from 1970,
    and retention would delete the whole log within half a minute.
    """
    for pattern in ("*.index", "*.timeindex"):
        for index in log.glob(pattern):
            index.unlink()


def _set_aside(path: Path, empty: DiskLog) -> None:
    """Mark an empty log as one that a broker deletes when it starts (LogFileUtils.DELETE_DIR_SUFFIX)."""
    (path / empty.folder).rename(path / f"{empty.folder}.{uuid4().hex}-delete")


def _write_id(meta: Path, node_id: int) -> None:
    """Write the broker id of a data folder atomically. The owner of the file stays."""
    status = meta.stat()
    content = DIRECTORY.sub("", meta.read_text(encoding="utf-8"))
    content = ID.sub(lambda match: f"{match['name']}={node_id}", content)
    try:
        write_whole(
            meta,
            content.encode(),
            scratch="meta.properties.tmp",  # a broker removes one that it finds
            mode=status.st_mode & 0o7777,
            owner=(status.st_uid, status.st_gid),
        )
    except OSError as error:
        raise Failed(
            "data-folder-unwritable", f"Cannot write {meta}: {error.strerror}. Run the command again."
        ) from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a data folder, which a running broker holds. Refused if a broker holds it."""
    lock = path / ".lock"  # none after a clean stop (FileLock.destroy)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.fdopen(os.open(lock, flags, 0o666), "wb")
    except OSError as error:
        reason = {
            errno.EACCES: "permission denied. Run the command as the user of the broker",
            errno.ELOOP: "it is a symbolic link. Find out who created it, and move it out of the folder",
        }.get(error.errno or 0, str(error.strerror))
        raise Refused("data-folder-unwritable", f"Cannot open {lock}: {reason}. Nothing was done.") from None
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                "broker-running", f"A broker uses {path}. Stop the broker first. Nothing was done."
            ) from None
        yield


def sync(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
