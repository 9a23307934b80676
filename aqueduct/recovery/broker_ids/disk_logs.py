"""The logs in a broker's data folder: how far each goes, and those that the broker set aside."""

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
TORN = (
    f"the folder's {COMMITTED} is incomplete, so it is unknown which log lacks committed records. "
    "If you know that no log does, move this file away."
)
LOCK = "hhqqi4x"  # struct flock of 64 bits: kind, from where, start, length (0: all), process


@dataclass(frozen=True, kw_only=True)
class DiskLog:
    """A partition's log on a disk, by its newest segment that has a batch: older ones aren't read.

    `end` is the offset after its last whole batch before any damage, which is where a broker cuts it; `epoch`
    is the last one in which it was led till there, -1 if that isn't known. Up to `committed` all replicas in
    sync had it, by what the broker wrote down last; 0 if it did not.
    """

    partition: TopicPartition
    folder: str
    stray: bool
    topic_id: str  # as Kafka writes it; empty: of a time before ids (KIP-516)
    end: int
    epoch: int
    bytes: int
    damage: str = ""
    committed: int = 0

    @property
    def far(self) -> tuple[int, int]:
        """Return what is greater for who has more of one log (KIP-101)."""
        return self.epoch, self.end


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder of `log.dirs`, with its logs.

    `time` is when all of them had been read (RFC 3339), `running` whether a broker used the folder then;
    empty and None: of a former version. `lost`: its disk is gone, with the logs that it had.
    """

    path: str
    cluster_id: str
    node_id: int
    logs: tuple[DiskLog, ...]
    time: str = ""
    running: bool | None = None
    lost: bool = False


def look(path: Path, *, running: bool | None = None) -> Folder:
    """Read whose a data folder is, and each of its logs; Refused if it can't be.

    Where a broker wrote down what was committed, and that isn't whole any more, all logs but strays are
    damaged: nobody can tell whether they lack their ends.
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


def without(path: Path, others: Sequence[Folder]) -> Folder:
    """Return a folder that a broker has lost, as what its `others` say of it; Refused if it is not lost."""
    if not others:
        raise Refused(
            "lost-folder-invalid",
            f"{path} is lost, but no other folder identifies its broker. Pass --data-folder.",
        )
    try:
        names = [file.name for file in path.iterdir()] if path.exists() else []
    except OSError as error:
        raise Refused("lost-folder-invalid", f"Cannot read {path}: {error.strerror}.") from None
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


def in_use(path: Path) -> bool:
    """Tell whether a broker holds the lock of a data folder; Refused if that can't be asked.

    A process that holds the lock itself loses it by this, for it closes the file.
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
                yield _log(folder, partition, stray, 0 if stray else committed.get(partition, 0))


def _committed(checkpoint: Path) -> dict[TopicPartition, int] | None:
    """Read the high watermarks that a broker writes down each five seconds, and when it stops.

    Lines of topic, partition and offset. Empty where there is none, None if it isn't whole.
    """
    try:
        return {
            TopicPartition(topic, int(number)): int(offset) for topic, number, offset in _lines(checkpoint)
        }
    except ValueError:
        return None


def _emptied(checkpoint: Path, logs: Iterable[DiskLog]) -> bool:
    """Tell whether an empty checkpoint was written to: in a new folder it is made so, before any log."""
    if not checkpoint.exists() or checkpoint.stat().st_size:
        return False
    made = (file.stat().st_mtime_ns for log in logs for file in (checkpoint.parent / log.folder).iterdir())
    return checkpoint.stat().st_mtime_ns > min(made, default=checkpoint.stat().st_mtime_ns)


def _led(checkpoint: Path, end: int) -> int:
    """Read the last epoch in which somebody led up to a log's end; -1 if that isn't known.

    A log whose records have all expired has no batch that tells it. Lines of an epoch and the offset at which
    it began: a later one is of records that the log has lost, and a broker drops it (KIP-101). ValueError if
    it isn't whole.
    """
    begun = [(int(start), int(epoch)) for epoch, start in _lines(checkpoint)]
    return max((epoch for start, epoch in begun if start <= end), default=-1)


def _lines(checkpoint: Path) -> list[list[str]]:
    """Read what a checkpoint has after a line with its version, and one with the number of what follows.

    Nothing where there is none, or it is empty; ValueError where it isn't as a broker writes it whole.
    """
    try:
        lines = checkpoint.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if lines and (len(lines) < 2 or lines[0] != "0" or int(lines[1]) != len(lines[2:])):
        raise ValueError(f"{checkpoint} is not whole")
    return [line.split() for line in lines[2:]]


def _log(folder: Path, partition: TopicPartition, stray: bool, committed: int) -> DiskLog:
    segments = sorted(folder.glob("*.log"))
    topic_id, damage = _topic_id(folder / "partition.metadata")
    if strange := [segment.name for segment in segments if not SEGMENT.fullmatch(segment.name)]:
        damage = (
            f"{some(strange)}: this is not the name of a log segment, and a broker does not start with it."
        )
        segments = [segment for segment in segments if segment.name not in strange]
    end, epoch = 0, -1
    for segment in reversed(segments):  # the newest one that has a batch tells where the log ends
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
    """Read a topic's id, and say what is wrong with the file that has it; both are empty without one."""
    try:
        topic_id = parse_properties(metadata.read_text(encoding="utf-8").replace(": ", "=")).get("topic_id")
    except FileNotFoundError:
        return "", ""
    except ValueError:
        topic_id = None
    return topic_id or "", "" if topic_id else f"{metadata.name} has no topic id."
