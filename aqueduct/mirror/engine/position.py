"""Positions of a flow at its source, as they are stored in the target's topic of positions.

The topic is compacted and has one partition for each task of the flow. A task commits records and positions
in the same transaction. Unlike the offsets of a consumer group, they do not expire while the flow is stopped.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from aqueduct.common import strict_json
from aqueduct.common.strict_json import ADDED
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, Refused
from aqueduct.mirror.binding import NO_EPOCH, SourceLog
from aqueduct.mirror.status import LOST, LOST_EARLIER, TARGET_ONLY

RANGES = 100  # that a position keeps, the newest
EARLIER = 10  # topics of the same name, likewise
REFUSED = 100  # partitions that the status of a task lists
NOT_CUT = -1
SILENT_SECONDS = 60  # after which a task counts as dead: it reports six times as often
BATCHES, MM2 = "batches", "mm2"  # engines between which a flow can be switched
HOLDER_KEY = b'{"holder":"engine"}'  # of the record that says which engine has the flow


def task_of(partition: TopicPartition, tasks: int) -> int:
    """Return the number of the task that mirrors a source partition, for as long as the flow exists."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % tasks


class PositionRange(NamedTuple):
    """Source offsets that did not arrive once; `stop` is exclusive. The kinds are those of mirror.status."""

    kind: str
    start: int
    stop: int
    at_most: bool


class EarlierTopic(NamedTuple):
    """The position that the flow had reached in a source topic of the same name, which was deleted."""

    topic_id: str
    next: int


@dataclass(frozen=True, kw_only=True)
class Position:
    """The progress of one source partition, as JSON has it."""

    topic_id: str  # the source topic's
    next: int  # the next offset to read
    target_topic_id: str
    target_end: int  # after the flow's last record in the target partition
    epoch: int = NO_EPOCH  # leader epoch of the last batch before `next`
    # Increases where `next` does not continue what was mirrored: another source topic, or a log that was cut.
    generation: int = 0
    records: int = 0  # mirrored in this generation
    ranges: tuple[PositionRange, ...] = ()
    earlier: tuple[EarlierTopic, ...] = ()
    producers: tuple[int, ...] = ()  # ids of the task's producers: in the headers of its batches
    source_end: int = field(default=0, metadata=ADDED)  # of the source partition, when it was last read
    # The operator accepted that the source topic was deleted, and that the flow may not have read all of it.
    is_given_up: bool = field(default=False, metadata=ADDED)
    # The offset at which the target partition lost the flow's records. It stays, also when others write more.
    target_cut: int = field(default=NOT_CUT, metadata=ADDED)

    @property
    def checkpoint(self) -> "Checkpoint":
        return Checkpoint(
            self.generation, self.next, self.target_end, self.records, self.topic_id, self.producers
        )

    def with_range(self, kind: str, start: int, stop: int, *, at_most: bool) -> "Position":
        if start >= stop:
            return self
        ranges = (*self.ranges, PositionRange(kind, start, stop, at_most))
        return replace(self, ranges=ranges[-RANGES:])


class RefusedItem(NamedTuple):
    """A partition or topic that a task does not mirror."""

    what: str
    why: str
    id: str  # of aqueduct.messages


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """What a task last reported of itself."""

    time: int  # milliseconds since 1970
    host: str
    refused: tuple[RefusedItem, ...] = ()  # the first of them
    refused_count: int = 0
    alone: bool = field(default=False, metadata=ADDED)  # its process does not share the flow with others

    def is_silent(self, now: float) -> bool:
        """Return whether the task counts as dead. `now`: seconds since 1970."""
        return now - self.time / 1000 > SILENT_SECONDS

    def is_taken(self, now: float) -> bool:
        """Return whether a process runs the task that does not share the flow."""
        return self.alone and not self.is_silent(now)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The engine that has the flow since its engine was changed. Positions of another engine are outdated.

    Each partition of the topic of positions has this record: a task reads its own partition only.
    """

    engine: str
    time: int  # of the change; milliseconds since 1970


class Checkpoint(NamedTuple):
    """A pair of offsets: the flow's records before one are before the other, in the source and the target."""

    generation: int  # as in the position, like the fields below
    source: int
    target: int
    records: int
    topic_id: str
    producers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """The value of a checkpoint's record. The key has the generation and the source offset."""

    topic_id: str
    target: int
    records: int
    producers: tuple[int, ...]


class UnreadablePosition(Failed):
    """A record in the topics of positions or checkpoints that this version cannot read."""

    id = "mirror-position-unreadable"


def position_record(partition: TopicPartition, position: Position) -> tuple[bytes, bytes]:
    """Return key and value of the record of a position."""
    return json.dumps(partition, separators=(",", ":")).encode(), strict_json.dumps(position)


def status_record(task: int, status: TaskStatus) -> tuple[bytes, bytes]:
    """Return key and value of the record of a task's status, in the topic of positions."""
    return json.dumps({"task": task}, separators=(",", ":")).encode(), strict_json.dumps(status)


def is_engine_key(key: bytes) -> bool:
    """Return whether the engine, or a later version of it, writes such keys: JSON arrays and objects.

    Records with other keys are ignored, as those with other keys in MirrorMaker's topic of positions are.
    """
    try:
        return isinstance(strict_json.parse(key), list | dict)
    except ValueError:
        return False


def parse_status_key(key: bytes) -> int | None:
    """Parse a key of the topic of positions; None if it is not that of a task's status."""
    if not key.startswith(b"{"):
        return None
    try:
        return _integer(strict_json.parse(key)["task"])
    except (ValueError, TypeError, KeyError) as error:
        raise _unreadable("position", key, error) from None


def parse_status(key: bytes, value: bytes) -> tuple[int, TaskStatus] | None:
    """Parse a record of the topic of positions; None if it is not a task's status."""
    if (task := parse_status_key(key)) is None:
        return None
    try:
        return task, strict_json.loads(TaskStatus, value)
    except (ValueError, TypeError) as error:
        raise _unreadable("position", key, error) from None


def holder_record(holder: Holder) -> tuple[bytes, bytes]:
    """Return key and value of the record of the engine that has the flow, in the topic of positions."""
    return HOLDER_KEY, strict_json.dumps(holder)


def parse_holder(key: bytes, value: bytes) -> Holder | None:
    """Parse a record of the topic of positions; None if it does not say which engine has the flow."""
    if key != HOLDER_KEY:
        return None
    try:
        return strict_json.loads(Holder, value)
    except ValueError as error:
        raise _unreadable("position", key, error) from None


class EngineDiffers(Refused):
    """The error of an engine whose positions of the flow are outdated: another engine has the flow."""

    id = "mirror-engine-differs"


def check_holder(flow: str, holder: str | None, engine: str) -> None:
    """Check that an engine may run a flow; else EngineDiffers. `holder`: the engine that has it, if any."""
    if holder not in (None, engine):
        raise EngineDiffers(
            f"The engine {holder} has mirrored the flow {flow}, so the engine {engine} has no positions or "
            "outdated positions of this flow. Records would arrive twice. Nothing was written. Run "
            "playbooks/switch_mirror.yml, which moves the positions, or set the engine of the flow to "
            f"{holder} again."
        )


def checkpoint_key(partition: TopicPartition, checkpoint: Checkpoint) -> bytes:
    key = [*partition, checkpoint.generation, checkpoint.source]
    return json.dumps(key, separators=(",", ":")).encode()


def checkpoint_record(partition: TopicPartition, checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return key and value of the record of a checkpoint."""
    stored = StoredCheckpoint(
        topic_id=checkpoint.topic_id,
        target=checkpoint.target,
        records=checkpoint.records,
        producers=checkpoint.producers,
    )
    return checkpoint_key(partition, checkpoint), strict_json.dumps(stored)


def parse_position_key(key: bytes) -> TopicPartition:
    """Parse the key of a position; UnreadablePosition if it is none."""
    try:
        topic, partition = strict_json.parse(key)
        return TopicPartition(_text(topic), _integer(partition))
    except (ValueError, TypeError) as error:
        raise _unreadable("position", key, error) from None


def parse_position(key: bytes, value: bytes) -> tuple[TopicPartition, Position]:
    """Parse a record of the topic of positions; UnreadablePosition if it is none."""
    partition = parse_position_key(key)
    try:
        return partition, strict_json.loads(Position, value)
    except (ValueError, TypeError) as error:
        raise _unreadable("position", key, error) from None


def parse_checkpoint_key(key: bytes) -> tuple[TopicPartition, int, int]:
    """Parse the key of a checkpoint: source partition, generation and source offset."""
    try:
        topic, partition, generation, source = strict_json.parse(key)
        return TopicPartition(_text(topic), _integer(partition)), _integer(generation), _integer(source)
    except (ValueError, TypeError) as error:
        raise _unreadable("checkpoint", key, error) from None


def parse_checkpoint(key: bytes, value: bytes) -> tuple[TopicPartition, Checkpoint]:
    """Parse a record of the topic of checkpoints; UnreadablePosition if it is none."""
    partition, generation, source = parse_checkpoint_key(key)
    try:
        stored = strict_json.loads(StoredCheckpoint, value)
    except ValueError as error:
        raise _unreadable("checkpoint", key, error) from None
    return partition, Checkpoint(
        generation, source, stored.target, stored.records, stored.topic_id, stored.producers
    )


def _integer(value: Any) -> int:
    if type(value) is not int:  # `int` of a float such as 1e999 is an error of another kind
        raise TypeError("an integer was expected")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _unreadable(kind: str, key: bytes, error: Exception) -> UnreadablePosition:
    return UnreadablePosition(
        f"The {kind} {key[:300].decode(errors='replace')} cannot be read: {error}. Upgrade Aqueduct on this "
        f"host, or restore the {kind}s topic."
    )


@dataclass(frozen=True)
class TargetLog:
    """A target partition as it is now."""

    topic_id: str
    end: int  # its high watermark


class PartitionRefused(Failed):
    """A partition that is not mirrored until an operator has decided. Others continue."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What was read of a source partition in one answer, as far as its position is concerned."""

    topic_id: str
    start: int  # where it was read from
    first: int  # offset of the first batch, committed or not; `next` without one
    next: int
    log_start: int
    epoch: int  # leader epoch of the last batch
    records: int
    source_end: int = 0  # after the partition's last committed record


class PositionOvertaken(Exception):
    """The source topic was re-created since its position was judged."""


class TargetCut(Exception):
    """A target partition that lost records of the flow since its position was judged, from an offset on."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{partition}: the target partition lost records from offset {offset} on")
        self.partition = partition
        self.offset = offset


class StateCut(Exception):
    """A topic of the flow's state lost its end: positions that were committed are not stored any more."""


def newest(
    stored: Mapping[TopicPartition, Position], committed: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, Position]:
    """Return the newest position of each partition: as it is stored, or as this process has committed it.

    A stored position is older if the topic of positions lost its end. Its records would arrive twice.
    """
    newer = {
        partition: position
        for partition, position in committed.items()
        if partition not in stored or stored[partition].checkpoint[:2] < position.checkpoint[:2]
    }
    return {**stored, **newer}


def after_cut(position: Position, target: TargetLog, first: int | None = None) -> Position:
    """Return the position with the offset at which the target lost the flow's records, if it lost any.

    `first`: the offset that the target gave to the first record after the position, if it gave one.
    """
    if position.target_topic_id != target.topic_id or position.target_cut != NOT_CUT:
        return position
    cut = target.end if first is None else min(first, target.end)
    return replace(position, target_cut=cut) if cut < position.target_end else position


def check_written(partition: TopicPartition, position: Position, first: int) -> None:
    """Check the offset that the target gave to the first record after a position; else TargetCut.

    It is below the end of the records before it if another leader, which has less, was elected meanwhile.
    """
    if first < position.target_end:
        raise TargetCut(partition, first)


def resume(
    partition: TopicPartition,
    position: Position | None,
    log: SourceLog,
    target: TargetLog,
    *,
    checkpoint: Checkpoint | None = None,
    again: bool = False,
    first_start: bool = False,
) -> Position:
    """Return where a partition continues; PartitionRefused where records would be lost or doubled.

    A re-created source topic is mirrored from its beginning, a log that was cut from where it was cut. It is
    unknown what a deleted topic had after the position, so a range is listed.
    `checkpoint`: the newest one of the partition. `again`: the operator asked to mirror the topic from its
    beginning. `first_start`: the operator said that the flow never mirrored what it has no position of.
    """
    if position is None or again:
        if not again:
            _check_first(partition, target, checkpoint=checkpoint, first_start=first_start)
        return _begin(partition, position, log, target, checkpoint=checkpoint, again=again)
    position = replace(position, is_given_up=False)
    _check_target(partition, position, target)
    if checkpoint and checkpoint[:2] > (position.generation, position.next):
        raise PartitionRefused(
            "mirror-position-outdated",
            f"{partition}: the position {position.next} is older than the checkpoint {checkpoint.source}, "
            "because the log of the positions topic was truncated. Records after the position would arrive "
            f"twice. Nothing was written. {_MIRROR_AGAIN}",
        )
    if position.topic_id != log.topic_id:
        earlier = (*position.earlier, EarlierTopic(position.topic_id, position.next))
        unread = PositionRange(
            LOST_EARLIER, position.next, max(position.next, position.source_end), at_most=False
        )
        moved = _moved(position, 0)  # so that the read lists what retention has deleted of it
        return replace(
            moved,
            topic_id=log.topic_id,
            earlier=earlier[-EARLIER:],
            ranges=(*position.ranges, unread)[-RANGES:],
            source_end=log.stable_end,
        )
    return _same_topic(partition, position, log)


_MIRROR_AGAIN = (
    "To mirror the topic from its beginning, delete the target topic, which destroys its records, and pass "
    "--again."
)


def _moved(position: Position, next_: int) -> Position:
    return replace(position, next=next_, epoch=NO_EPOCH, records=0, generation=position.generation + 1)


def _begin(
    partition: TopicPartition,
    position: Position | None,
    log: SourceLog,
    target: TargetLog,
    *,
    checkpoint: Checkpoint | None,
    again: bool,
) -> Position:
    if again and target.end:
        raise PartitionRefused(
            "mirror-target-not-empty",
            f"{partition}: the target partition has records, so the partition cannot be mirrored again. "
            f"Nothing was written. {_MIRROR_AGAIN}",
        )
    former = [position.generation] if position else []
    former += [checkpoint.generation] if checkpoint else []
    return Position(
        topic_id=log.topic_id,
        next=log.start,
        target_topic_id=target.topic_id,
        target_end=target.end,
        generation=max(former, default=-1) + 1,
        earlier=position.earlier if position else (),
    )


def _check_first(
    partition: TopicPartition, target: TargetLog, *, checkpoint: Checkpoint | None, first_start: bool
) -> None:
    """Check that a partition without a position was not mirrored before; else PartitionRefused."""
    if checkpoint:
        raise PartitionRefused(
            "mirror-position-missing",
            f"{partition}: the flow has no position, but its checkpoint {checkpoint.source} shows that the "
            "flow has mirrored the partition. Nothing was written. Restore the positions topic.",
        )
    if target.end and not first_start:
        raise PartitionRefused("mirror-position-missing", missing_position(str(partition)))


def missing_position(subject: str) -> str:
    return (
        f"{subject}: the flow has no position, but the target has records that may come from the same "
        "source. Nothing was written. If this flow or another engine mirrored these records, restore the "
        "positions topic, or mirror the topic under another name. If other producers wrote these records, "
        "run the flow once with --first-start."
    )


def _check_target(partition: TopicPartition, position: Position, target: TargetLog) -> None:
    if position.target_topic_id != target.topic_id:
        raise PartitionRefused(
            "mirror-target-recreated",
            f"{partition}: the target topic was deleted and re-created after offset {position.next} was "
            "mirrored. Nothing was written. To mirror the topic from its beginning, pass --again.",
        )
    position = after_cut(position, target)
    if position.target_cut != NOT_CUT:
        raise PartitionRefused(
            "mirror-target-cut",
            f"{partition}: the target partition lost records between the offsets {position.target_cut} and "
            f"{position.target_end}, up to which the flow had written. Nothing was written. To mirror the "
            "topic from its beginning, delete the target topic, which destroys its records, and pass "
            "--again.",
        )


def _same_topic(partition: TopicPartition, position: Position, log: SourceLog) -> Position:
    if log.bound_epoch_end is not None and log.bound_epoch_end < 0:
        raise PartitionRefused(
            "mirror-source-diverged",
            f"{partition}: the leader of the source partition does not have the leader epoch "
            f"{position.epoch} of the last mirrored record, so it is unknown which records the leader lost. "
            "Nothing was written. To mirror the topic from its beginning, delete the target topic, which "
            "destroys its records, and pass --again.",
        )
    epoch_end = position.next if log.bound_epoch_end is None else log.bound_epoch_end
    cut = min(position.next, log.end, epoch_end)
    if cut == position.next:  # what retention deleted above the position, the read finds
        return position
    return _moved(position, cut).with_range(TARGET_ONLY, cut, position.next, at_most=True)


def advanced(position: Position, piece: Piece) -> Position:
    """Return the position after a piece; PositionOvertaken if the piece does not follow the position."""
    if piece.topic_id != position.topic_id or piece.start != position.next:
        raise PositionOvertaken
    # Other holes are transaction markers, aborted records and what compaction removed.
    gone = min(piece.first, piece.log_start)
    return replace(
        position.with_range(LOST, piece.start, gone, at_most=True),
        next=piece.next,
        epoch=piece.epoch,
        records=position.records + piece.records,
        source_end=max(piece.source_end, piece.next),
    )
