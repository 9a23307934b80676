"""Give a stopped broker's data folders another id, and take logs back that it has put aside."""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from aqueduct.errors import Failed, Refused
from aqueduct.mend.logs import DiskLog, Folder, look

LONGEST = 255  # letters of a folder's name
ID = re.compile(r"^(?P<name>node\.id|broker\.id)\s*=.*$", re.MULTILINE)  # of KRaft; of ZooKeeper's time
# The controller refuses a broker with a folder that another one registered; a broker makes one that it lacks
# (KIP-858).
DIRECTORY = re.compile(r"^directory\.id\s*=.*\n", re.MULTILINE)


@dataclass(frozen=True)
class TakenBack:
    """What was done to a data folder."""

    path: str
    before: int  # the broker's id
    now: int
    logs: tuple[str, ...]  # folders that are logs again
    emptied: tuple[str, ...]  # empty logs that had their place
    left: tuple[tuple[str, str], ...]  # what stays aside, and why


def take_back(paths: Sequence[Path], node_id: int | None) -> list[TakenBack]:
    """Do it to all folders of a broker; Refused, with nothing done, while it runs or if one can't be read.

    Run again after a failure, it goes on: each step leaves a folder that a broker can start with.
    """
    folders = [look(each) for each in paths]
    with ExitStack() as locks:
        for each in paths:
            locks.enter_context(locked(each))
        return [_take_back(Path(folder.path), folder, node_id) for folder in folders]


def _take_back(path: Path, folder: Folder, node_id: int | None) -> TakenBack:
    there = {each.partition: each for each in folder.logs if not each.stray}
    back, emptied, left = [], [], []
    for stray in (each for each in folder.logs if each.stray):
        other = there.get(stray.partition)
        if other and other.bytes:
            left.append((stray.folder, f"{other.folder} has {other.bytes:,} bytes of its own"))
            continue
        name = str(stray.partition)
        if len(stray.folder) == LONGEST:
            left.append((stray.folder, "its name is as long as a folder's may be: the topic's may be cut"))
            continue
        try:
            if other:
                _put_aside(path, other)
                emptied.append(other.folder)
            _remove_indexes(path / stray.folder)
            (path / stray.folder).rename(path / name)
        except OSError as error:
            raise Failed(
                f"{path / stray.folder} can't be taken back: {error.strerror}; run it again."
            ) from None
        there[stray.partition] = stray
        back.append(name)
    if node_id is not None and node_id != folder.node_id:
        _write_id(path / "meta.properties", node_id)
    sync(path)
    now = folder.node_id if node_id is None else node_id
    return TakenBack(str(path), folder.node_id, now, tuple(back), tuple(emptied), tuple(left))


def _remove_indexes(log: Path) -> None:
    """Remove a log's indexes: a broker makes those anew that it lacks (LogLoader.loadSegmentFiles).

    One that puts a log aside has opened it, and does not cut its indexes when it stops: they stay at their
    full size, of zeros. Read as they are, the log's newest record would be of 1970, and retention would
    delete all of it within the first half minute.
    """
    for pattern in ("*.index", "*.timeindex"):
        for each in log.glob(pattern):
            each.unlink()


def _put_aside(path: Path, empty: DiskLog) -> None:
    """Mark an empty log as one that a broker deletes when it starts (LogFileUtils.DELETE_DIR_SUFFIX)."""
    (path / empty.folder).rename(path / f"{empty.folder}.{uuid4().hex}-delete")


def _write_id(meta: Path, node_id: int) -> None:
    """Write the id that a data folder belongs to, whole or not at all, for the same user."""
    status = meta.stat()
    content = DIRECTORY.sub("", meta.read_text(encoding="utf-8"))
    content = ID.sub(lambda found: f"{found['name']}={node_id}", content)
    new = meta.with_name("meta.properties.tmp")  # a broker removes one that it finds
    try:
        with new.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(meta)
    except OSError as error:
        raise Failed(f"{meta} can't be written: {error.strerror}; run it again.") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a broker holds while it uses a data folder; Refused if one does."""
    lock = path / ".lock"
    try:
        with lock.open("a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Refused(f"A broker uses {path}; stop it first. Nothing was done.") from None
            yield
    except PermissionError as error:
        raise Refused(f"{error.filename} can't be opened: run this as the user of the broker.") from None


def sync(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
