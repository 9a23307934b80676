"""The change of a flow's engine between MirrorMaker 2 and `batches`: which positions can be moved.

Both engines commit records and positions in the same transactions at the target. While no worker runs and no
transaction is open, a stored position is therefore exact: all records before it have arrived, and none after
it has. A position that another way could have written is not moved, and neither is any other one then.
"""

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field, replace

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut, Skipped
from aqueduct.mirror.binding import (
    UNKNOWN_TOPIC,
    Binding,
    EarlierPosition,
    Evidence,
    PositionFit,
    SourceLog,
    judge,
)
from aqueduct.mirror.engine.position import (
    BATCHES,
    EARLIER,
    MM2,
    Checkpoint,
    EarlierTopic,
    Holder,
    PartitionRefused,
    Position,
    TargetLog,
    resume,
)

UNPROVEN = "mirror-position-unproven"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Both ends of a partition as they are now."""

    exists: bool  # the source shows the topic
    log: SourceLog | None  # None: it has no leader
    target: TargetLog | None  # None: the target has no such partition with a leader
    target_start: int = 0


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """The state of a partition that both engines have stored at the target."""

    next: int | None = None  # MirrorMaker's position; None: it has none
    is_transactional: bool = False  # its record was written in a transaction
    bound: Binding | None = None
    position: Position | None = None  # of the engine `batches`
    checkpoint: Checkpoint | None = None  # the newest one


@dataclass(frozen=True)
class PositionOfBatches:
    """A position that the engine `batches` gets, with the checkpoints that belong to it."""

    position: Position
    checkpoints: tuple[Checkpoint, ...]
    bound: Binding  # MirrorMaker's, with the generation of the position

    @property
    def next(self) -> int:
        return self.position.next


@dataclass(frozen=True)
class PositionOfMirrorMaker:
    """A position that MirrorMaker 2 gets, bound to its topic."""

    next: int
    bound: Binding


MovedPosition = PositionOfBatches | PositionOfMirrorMaker


@dataclass(frozen=True, kw_only=True)
class SwitchPlan:
    """The change of a flow's engine."""

    flow: str
    to: str
    holder: str | None  # the engine that has the flow; None: neither has ever run it
    moved: Mapping[TopicPartition, MovedPosition] = field(default_factory=dict)
    left: LeftOut = ()  # positions that are not moved, because the flow does not mirror their topics
    refused: LeftOut = ()  # positions that must be moved and cannot be

    @property
    def is_made(self) -> bool:
        """Return whether nothing is to be moved: the engine has the flow already, or none has mirrored."""
        return self.holder in (None, self.to)

    @property
    def groups_unchecked(self) -> list[TopicPartition]:
        """Return the partitions in which offsets of synchronised groups are unknown after the change."""
        return [partition for partition, moved in sorted(self.moved.items()) if moved.bound.groups_unchecked]


def holder_of(holder: Holder | None, positions: Sized, mirror_maker: Sized) -> str | None:
    """Return the engine that has a flow, by what is stored; None: neither has ever run it.

    `positions`: those of the engine `batches`; `mirror_maker`: those of MirrorMaker 2.
    """
    if holder:
        return holder.engine
    if positions:
        return BATCHES
    return MM2 if mirror_maker else None


def to_batches(
    partition: TopicPartition, stored: StoredState, ends: Ends, syncs: int = 0
) -> PositionOfBatches:
    """Return the position with which `batches` continues after MirrorMaker 2; PartitionRefused without proof.

    `syncs`: the end of MirrorMaker's topic of offset syncs.
    """
    log, target = _present(partition, ends)
    next_, bound = stored.next or 0, stored.bound
    if bound is None or bound.topic_id == UNKNOWN_TOPIC:
        raise _unproven(partition, f"no topic ID is stored with the position {next_}")
    if not stored.is_transactional:
        raise _unproven(
            partition,
            f"the position {next_} was not written in a transaction, so records after the position may "
            "already have arrived",
        )
    verdict = judge(next_, bound, log, Evidence())
    if verdict.fit is not PositionFit.FITS:
        raise _unproven(
            partition, f"the position {next_} does not fit the present topic or its log ({verdict.fit})"
        )
    if bound.doubled:
        raise _listed(partition)
    if bound.groups_unchecked:
        raise PartitionRefused(
            "synchronised-groups-unchecked",
            f"{partition}: the offsets of synchronised groups were not checked after its topic was "
            "re-created, truncated or restored. Check these offsets, and run aqueduct mirror with "
            "--accept-ranges.",
        )
    former = stored.position
    generations = [former.generation] if former else []
    generations += [stored.checkpoint.generation] if stored.checkpoint else []
    before = max(generations, default=-1) + 1
    earlier = tuple(EarlierTopic(past.topic_id, past.next) for past in bound.earlier)
    position = Position(
        topic_id=log.topic_id,
        next=next_,
        target_topic_id=target.topic_id,
        target_end=target.end,
        epoch=log.epoch,
        generation=before + 1,
        earlier=earlier[-EARLIER:],
        source_end=max(next_, log.stable_end),
    )
    anchor = _anchor(former, position, before, ends.target_start)
    renewed = replace(bound, next=next_, epoch=log.epoch, syncs=syncs, generation=position.generation)
    return PositionOfBatches(position, (anchor, position.checkpoint), renewed)


def _anchor(former: Position | None, position: Position, generation: int, target_start: int) -> Checkpoint:
    """Return the checkpoint before the records that MirrorMaker has mirrored, in a generation of its own.

    No checkpoint is known among these records. A group whose next record is one of them gets this offset, at
    most, unless it has a later one at the target already. So it never skips a record.
    """
    if (
        former
        and former.topic_id == position.topic_id
        and former.target_topic_id == position.target_topic_id
        and former.next <= position.next
        and former.target_end <= position.target_end
    ):
        return Checkpoint(generation, former.next, former.target_end, 0, position.topic_id, ())
    return Checkpoint(generation, 0, target_start, 0, position.topic_id, ())


def to_mirror_maker(
    partition: TopicPartition, stored: StoredState, ends: Ends, syncs: int
) -> PositionOfMirrorMaker:
    """Return the position with which MirrorMaker 2 continues after `batches`; PartitionRefused without proof.

    The position of a deleted topic stays bound to the ID of that topic.
    `syncs`: the end of MirrorMaker's topic of offset syncs.
    """
    position = stored.position
    if position is None:
        raise _unproven(partition, "the engine batches has no position")
    epoch = position.epoch
    if position.ranges:
        raise _listed(partition)
    if ends.exists:
        log, target = _present(partition, ends)
        epoch = log.epoch
        same = resume(partition, position, log, target, checkpoint=stored.checkpoint)
        if same != replace(position, is_given_up=False):
            raise _unproven(
                partition,
                f"the source topic was re-created or truncated after the position {position.next}",
            )
    former = stored.bound
    bound = Binding(
        topic_id=position.topic_id,
        next=position.next,
        epoch=epoch,
        syncs=syncs,
        # MirrorMaker translates offsets by its earlier syncs, which are of another topic or log then.
        groups_unchecked=former is not None
        and (
            former.groups_unchecked
            or former.topic_id != position.topic_id
            or former.generation != position.generation
        ),
    )
    if former is None:
        past = tuple(EarlierPosition(*of) for of in position.earlier)
        return PositionOfMirrorMaker(position.next, replace(bound, earlier=past))
    if former.topic_id != position.topic_id:
        return PositionOfMirrorMaker(position.next, former.followed_by(bound, former.next))
    bound = replace(bound, earlier=former.earlier, copy=former.copy, restored=former.restored)
    return PositionOfMirrorMaker(position.next, bound)


def _present(partition: TopicPartition, ends: Ends) -> tuple[SourceLog, TargetLog]:
    if ends.log is None or ends.target is None:
        raise PartitionRefused(
            "mirror-partition-offline",
            f"{partition}: the partition has no leader at the source or at the target, or does not exist at "
            "the target. Start the brokers of the partition.",
        )
    return ends.log, ends.target


def _unproven(partition: TopicPartition, reason: str) -> PartitionRefused:
    return PartitionRefused(
        UNPROVEN,
        f"{partition}: {reason}. Run the flow with its former engine until aqueduct mirror has no finding "
        "for the partition.",
    )


def _listed(partition: TopicPartition) -> PartitionRefused:
    return PartitionRefused(
        "mirror-ranges-listed",
        f"{partition}: the flow has a list of lost or repeated ranges, which cannot be moved to the next "
        "engine. First accept these ranges with --accept-ranges.",
    )


def _without_position(partition: TopicPartition, consequence: str) -> Skipped:
    reason = (
        "the flow has no position, but the target has records that may come from the same source, "
        f"{consequence}"
    )
    return Skipped(str(partition), reason, "mirror-position-missing")


def plan(
    flow: str,
    to: str,
    holder: str | None,
    stored: Mapping[TopicPartition, StoredState],
    ends: Mapping[TopicPartition, Ends],
    *,
    mirrored: frozenset[str],
    syncs: int,
) -> SwitchPlan:
    """Plan which positions are moved.

    `stored` has all partitions with positions, and all of `mirrored`: the topics of the source that the
    flow's pattern selects. A position of MirrorMaker in another topic is not moved: `batches` refuses a
    partition that has records and no position. A position of `batches` is always moved: MirrorMaker begins at
    the start of a partition without one.
    """
    if holder in (None, to):
        return SwitchPlan(flow=flow, to=to, holder=holder)
    moved: dict[TopicPartition, MovedPosition] = {}
    left: list[Skipped] = []
    refused: list[Skipped] = []
    for partition, state in sorted(stored.items()):
        target = ends[partition].target
        has_records = partition.topic in mirrored and target is not None and target.end > 0
        if to == BATCHES and state.next is None:
            if has_records:
                left.append(_without_position(partition, "so batches will not mirror the partition"))
            continue
        if to == BATCHES and partition.topic not in mirrored:
            reason = "the flow does not mirror this topic of the source, so the position stays with mm2"
            left.append(Skipped(str(partition), reason, "mirror-position-left"))
            continue
        if to == MM2 and state.position is None:
            if has_records and state.next is None:
                refused.append(
                    _without_position(partition, "so mm2 would mirror the partition from its beginning again")
                )
            continue
        try:
            if to == BATCHES:
                moved[partition] = to_batches(partition, state, ends[partition], syncs)
            else:
                moved[partition] = to_mirror_maker(partition, state, ends[partition], syncs)
        except PartitionRefused as error:
            reason = error.sentence.removeprefix(f"{partition}: ").rstrip(".")
            refused.append(Skipped(str(partition), reason, error.id))
    return SwitchPlan(flow=flow, to=to, holder=holder, moved=moved, left=tuple(left), refused=tuple(refused))
