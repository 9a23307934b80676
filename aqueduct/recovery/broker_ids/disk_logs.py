"""The logs in a broker's data folder: where each log ends, and which are stray."""

import fcntl
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.kafka import data_folder
from aqueduct.kafka.client_config import parse_properties

COMMITTED = "replication-offset-checkpoint"
SEGMENT = re.compile(r"[0-9]+\.log")
LED = "leader-epoch-checkpoint"
ATTEMPTS = 5  # to inspect a log, because a running broker may remove its files meanwhile
TORN = (
    f"the folder's {COMMITTED} is incomplete, so the command cannot check whether logs lack committed "
    "records. If you are sure that no log lacks records, move this file to another folder."
)
LOCK = "hhqqi4x"  # struct flock of 64 bits: kind, from where, start, length (0: all), process


@dataclass(frozen=True, kw_only=True)
class DiskLog:
    """A partition's log on a disk. Only its newest segment with a batch is read.

    `end`: the offset after the last complete batch before any damage; a broker truncates the log there.
    `epoch`: the leader epoch at the end, -1 if it is unknown. `committed`: the high watermark that the broker
    stored last, 0 if it stored none.
    """

    partition: TopicPartition
    folder: str
    stray: bool
    topic_id: str  # as Kafka writes it; empty: the topic is older than topic ids (KIP-516)
    end: int
    epoch: int
    bytes: int
    damage: str = ""
    committed: int = 0

    @property
    def epoch_and_end(self) -> tuple[int, int]:
        """Return leader epoch and end. They are greater for the longer one of two logs (KIP-101)."""
        return self.epoch, self.end


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder of `log.dirs`, with its logs.

    `time`: when the inspection ended (RFC 3339). `running`: whether a broker used the folder then. Former
    versions of Aqueduct stored neither: empty and None. `lost`: the disk of the folder is lost.
    """

    path: str
    cluster_id: str
    node_id: int
    logs: tuple[DiskLog, ...]
    time: str = ""
    running: bool | None = None
    lost: bool = False


def inspect_folder(path: Path, *, running: bool | None = None) -> Folder:
    """Inspect a data folder: its cluster, its broker and its logs. Refused if it cannot be read.

    If the checkpoint of high watermarks is incomplete, all logs except strays count as damaged, because
    missing records at their ends would not be noticed.
    """
    meta, checkpoint = data_folder.read(path), path / COMMITTED
    try:
        committed = _committed(checkpoint)
        logs = sorted(_logs(path, committed or {}), key=lambda log: (log.partition, log.stray))
        if committed is None or (
            committed == {} and _emptied(checkpoint, [log for log in logs if log.bytes])
        ):
            logs = [log if log.stray else replace(log, damage=log.damage or TORN) for log in logs]
    except OSError as error:
        raise Refused(
            "data-folder-unreadable",
            f"Cannot read {error.filename}: {error.strerror}. Run the command as the user of the broker.",
        ) from None
    now = timestamps.text(timestamps.now())
    return Folder(
        path=str(path),
        cluster_id=meta.cluster_id,
        node_id=meta.node_id,
        logs=tuple(logs),
        time=now,
        running=running,
    )


def lost_folder(path: Path, others: Sequence[Folder]) -> Folder:
    """Return a lost folder of a broker, with the ids from its `others`. Refused if it is not lost."""
    if not others:
        raise Refused(
            "lost-folder-invalid",
            f"Cannot find the broker of the lost folder {path}, because no other folder of this broker was "
            "passed. Pass one with --data-folder.",
        )
    try:
        names = [file.name for file in path.iterdir()] if path.exists() else []
    except OSError as error:
        raise Refused(
            "lost-folder-invalid",
            f"Cannot read {path}: {error.strerror}. Run the command as the user of the broker.",
        ) from None
    if kept := sorted(set(names) - {"lost+found", ".lock"}):
        raise Refused(
            "lost-folder-invalid",
            f"{path} is not lost, because it contains {some(kept)}. If it has no "
            f"{data_folder.META}, restore this file. Then pass the folder with --data-folder. "
            "Nothing was done.",
        )
    of = others[0]
    return Folder(
        path=str(path),
        cluster_id=of.cluster_id,
        node_id=of.node_id,
        logs=(),
        time=of.time,
        running=of.running,
        lost=True,
    )


def is_in_use(path: Path) -> bool:
    """Return whether a broker holds the lock of a data folder. Refused if the lock cannot be read.

    Do not call this in a process that holds the lock: closing the file releases it.
    """
    lock = path / ".lock"
    try:
        with os.fdopen(os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            asked = struct.pack(LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_ = struct.unpack(LOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
            return bool(kind != fcntl.F_UNLCK)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(
            "data-folder-unreadable",
            f"Cannot read {lock}: {error.strerror}. Run the command as the user of the broker.",
        ) from None


def _logs(path: Path, committed: Mapping[TopicPartition, int]) -> Iterator[DiskLog]:
    for folder in path.iterdir():
        for pattern in (data_folder.LOG, data_folder.STRAY_LOG):
            named = pattern.fullmatch(folder.name)
            if named and folder.is_dir() and named["topic"] != data_folder.OF_CONTROLLERS:
                partition = TopicPartition(named["topic"], int(named["number"]))
                stray = pattern is data_folder.STRAY_LOG
                if log := _whole_log(folder, partition, stray, 0 if stray else committed.get(partition, 0)):
                    yield log


def _whole_log(folder: Path, partition: TopicPartition, stray: bool, committed: int) -> DiskLog | None:
    """Inspect a log, again if one of its files was removed meanwhile; None if the log was removed.

    A running broker removes old segments, and renames the logs of deleted topics.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            log = _log(folder, partition, stray, committed)
        except FileNotFoundError:
            if not left and folder.is_dir():
                raise
        else:
            return log if folder.is_dir() else None
    return None


def _committed(checkpoint: Path) -> dict[TopicPartition, int] | None:
    """Read the high watermarks, which a broker stores every five seconds and when it stops.

    A line has a topic, a partition and an offset. Empty without a file; None if the file is incomplete.
    """
    try:
        return {
            TopicPartition(topic, int(number)): int(offset) for topic, number, offset in _lines(checkpoint)
        }
    except ValueError:
        return None


def _emptied(checkpoint: Path, logs: Iterable[DiskLog]) -> bool:
    """Return whether a checkpoint lost its content. A new folder has an empty one, older than any log."""
    if not checkpoint.exists() or checkpoint.stat().st_size:
        return False
    made = (file.stat().st_mtime_ns for log in logs for file in (checkpoint.parent / log.folder).iterdir())
    return checkpoint.stat().st_mtime_ns > min(made, default=checkpoint.stat().st_mtime_ns)


def _led(checkpoint: Path, end: int) -> int:
    """Read the last leader epoch up to a log's end; -1 if unknown. ValueError if the file is incomplete.

    A log whose records have all expired has no batch with an epoch. A line has an epoch and its first offset.
    An epoch that begins after the log's end belongs to lost records, and a broker drops it (KIP-101).
    """
    begun = [(int(start), int(epoch)) for epoch, start in _lines(checkpoint)]
    return max((epoch for start, epoch in begun if start <= end), default=-1)


def _lines(checkpoint: Path) -> list[list[str]]:
    """Read a checkpoint's entries. A line with its version and one with the number of entries precede them.

    Empty if the file does not exist or is empty; ValueError if it is incomplete.
    """
    try:
        lines = checkpoint.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if lines and (len(lines) < 2 or lines[0] != "0" or int(lines[1]) != len(lines[2:])):
        raise ValueError(f"{checkpoint} is incomplete")
    return [line.split() for line in lines[2:]]


def _log(folder: Path, partition: TopicPartition, stray: bool, committed: int) -> DiskLog:
    segments = sorted(folder.glob("*.log"))
    topic_id, damage = _topic_id(folder / "partition.metadata")
    if strange := [segment.name for segment in segments if not SEGMENT.fullmatch(segment.name)]:
        damage = (
            f"{some(strange)} is not a valid name of a log segment. A broker does not start with this file."
        )
        segments = [segment for segment in segments if segment.name not in strange]
    end, epoch = 0, -1
    for segment in reversed(segments):  # the log ends in the newest one that has a batch
        last, error = data_folder.last_batch(segment)
        damage = f"{segment.name}: {error}" if error else damage
        end = max(end, int(segment.stem), last.last_offset + 1 if last else 0)
        if last:
            epoch = last.leader_epoch
            break
    try:
        epoch = max(epoch, _led(folder / LED, end))
    except ValueError:
        damage = damage or f"{LED} is incomplete."
    if end < committed and not damage:
        damage = (
            f"it ends at offset {end}, but its broker recorded that all records before {committed} "
            "were committed."
        )
    size = sum(segment.stat().st_size for segment in segments)
    return DiskLog(
        partition=partition,
        folder=folder.name,
        stray=stray,
        topic_id=topic_id,
        end=end,
        epoch=epoch,
        bytes=size,
        damage=damage,
        committed=committed,
    )


def _topic_id(metadata: Path) -> tuple[str, str]:
    """Read a topic's id from its file; return it and the file's fault. Both are empty without a file."""
    try:
        topic_id = parse_properties(metadata.read_text(encoding="utf-8").replace(": ", "=")).get("topic_id")
    except FileNotFoundError:
        return "", ""
    except ValueError:
        topic_id = None
    return topic_id or "", "" if topic_id else f"{metadata.name} has no topic id."
