"""Bindings: the topic, by its id, to which each position of a MirrorMaker 2 flow belongs.

MirrorMaker 2 stores a position as an offset of a topic name. If the topic is deleted and re-created, or loses
the end of its log, the offset means other records or none. Kafka's consumer then skips records or reads them
twice, without an error. So Aqueduct writes a record of its own beside each position, into the same compacted
topic `mm2-offsets.SOURCE.internal`, under the name of a connector that does not exist.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from enum import StrEnum
from typing import Any

from aqueduct.common.topic_names import TopicPartition

CONNECTOR = "AqueductBinding"
NO_EPOCH = -1
UNKNOWN_TOPIC = ""  # the id of a topic before its position was bound
EARLIER = 10  # topics by one name whose last positions are kept

OffsetSpan = tuple[int, int]  # offsets; the second is not inside


@dataclass(frozen=True)
class EarlierPosition:
    """The position that the mirror had reached in a topic of that name which was deleted."""

    topic_id: str
    next: int


@dataclass(frozen=True)
class RestoredCopy:
    """What a restore wrote to a topic: the records of the topic `topic_id` of a backup before `stop`.

    They end before `end` in the topic to which they were restored.
    """

    topic_id: str
    stop: int
    end: int


@dataclass(frozen=True, kw_only=True)
class RestoreRange:
    """Offsets of a partition that do not arrive once at a flow's target because of a restore."""

    # "doubled"; "ahead": the target has them, and what was restored does not; "unbound": none, but the
    # position `start` was not bound to a topic id
    kind: str
    start: int
    stop: int  # not inside
    log: str  # whose offsets: the "topic", the "backup", or an "earlier" topic of that name, now deleted
    at_most: bool = False  # an upper bound


@dataclass(frozen=True)
class RestoreRanges:
    """The ranges that a restore found when it moved the position. A repeated run reports them again."""

    restore_id: str
    ranges: tuple[RestoreRange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The position of one source partition as it was when it was last checked.

    A log that is cut after the check, above this position, and grows past the mirror's position while no
    mirror runs is not noticed: nothing says under which leader epoch the mirror read what was cut.
    """

    topic_id: str  # empty: the source is older than Kafka 2.8 and has no topic ids
    next: int
    epoch: int = NO_EPOCH  # of the leader when the position was checked
    syncs: int = 0  # offset syncs from this offset on are later than the check
    earlier: tuple[EarlierPosition, ...] = ()
    doubled: tuple[OffsetSpan, ...] = ()  # source offsets that the target has twice, until they are accepted
    copy: RestoredCopy | None = None
    restored: RestoreRanges | None = None
    # The topic was re-created, truncated or restored, and nobody has accepted the offsets since that the
    # mirror commits for consumer groups: it translates them by syncs of a topic name.
    groups_unchecked: bool = False
    # Of the position with which the engine `batches` continued here, if it has had the flow since.
    generation: int | None = None

    def position_in(self, topic_id: str) -> int | None:
        """Return the position in a topic that had the name before; None: the mirror never read it."""
        return next((past.next for past in reversed(self.earlier) if past.topic_id == topic_id), None)

    def followed_by(self, new: "Binding", reached: int) -> "Binding":
        """Return the binding to another topic, with the position that was reached in this one."""
        before = (*self.earlier, EarlierPosition(self.topic_id, reached))
        return replace(new, earlier=before[-EARLIER:])


class UnreadableBinding(Exception):
    """The record of a partition's binding has another form."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition


def key(partition: TopicPartition) -> bytes:
    """Return the record key of a binding, in the form of Connect's source offsets."""
    source = {"partition": partition.partition, "topic": partition.topic}
    return json.dumps([CONNECTOR, source], separators=(",", ":"), sort_keys=True).encode()


def parse_key(record_key: bytes) -> tuple[str, TopicPartition] | None:
    """Parse a key of the offsets topic: connector and source partition; None: it is of something else."""
    try:
        connector, source = json.loads(record_key)
        topic, partition = source["topic"], source["partition"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not (isinstance(connector, str) and isinstance(topic, str) and isinstance(partition, int)):
        return None
    return connector, TopicPartition(topic, partition)


def dumps(binding: Binding) -> bytes:
    content: dict[str, Any] = {
        "topic_id": binding.topic_id,
        "next": binding.next,
        "epoch": binding.epoch,
        "syncs": binding.syncs,
        "earlier": [[past.topic_id, past.next] for past in binding.earlier],
        "doubled": binding.doubled,
        "copy": list(astuple(binding.copy)) if binding.copy else None,
    }
    if binding.restored:
        content["restored"] = asdict(binding.restored)
    if binding.groups_unchecked:
        content["groups_unchecked"] = True
    if binding.generation is not None:
        content["generation"] = binding.generation
    return json.dumps(content).encode()


def parse_bindings(records: Mapping[bytes, bytes]) -> dict[TopicPartition, Binding]:
    """Return the bindings among the last values of the offsets topic, by source partition.

    UnreadableBinding if one is no binding.
    """
    bindings = {}
    for record_key, value in records.items():
        connector, partition = parse_key(record_key) or ("", None)
        if partition and connector == CONNECTOR:
            try:
                bindings[partition] = _loads(json.loads(value))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise UnreadableBinding(partition) from error
    return bindings


def _loads(content: Mapping[str, Any]) -> Binding:
    return Binding(
        topic_id=str(content["topic_id"]),
        next=int(content["next"]),
        epoch=int(content["epoch"]),
        syncs=int(content["syncs"]),
        earlier=tuple(EarlierPosition(*fields) for fields in content["earlier"]),
        doubled=tuple((start, stop) for start, stop in content["doubled"]),
        copy=RestoredCopy(*content["copy"]) if content["copy"] else None,
        restored=_restored(content.get("restored")),
        groups_unchecked=bool(content.get("groups_unchecked")),
        generation=None if content.get("generation") is None else int(content["generation"]),
    )


def _restored(content: Mapping[str, Any] | None) -> RestoreRanges | None:
    if content is None:
        return None
    return RestoreRanges(content["restore_id"], tuple(RestoreRange(**fields) for fields in content["ranges"]))


class PositionFit(StrEnum):
    """How a position fits the topic that has the name now."""

    FITS = "fits"
    UNBOUND = "unbound"  # beyond the log's end, and not bound to a topic id
    RECREATED = "recreated"
    CUT = "cut"  # the log lost its end: an unclean leader election, or a disk
    STEPPED_BACK = "stepped back"  # the mirror has read records of this topic again


@dataclass(frozen=True, kw_only=True)
class SourceLog:
    """A source partition as it is now."""

    topic_id: str
    start: int
    end: int  # its high watermark
    stable_end: int  # its last stable offset
    epoch: int
    bound_epoch_end: int | None = None  # where the log leaves the binding's epoch; None: not asked


@dataclass(frozen=True)
class Evidence:
    """What MirrorMaker's own topics show about the time since the binding was written.

    MirrorMaker writes an offset sync for the first record that it mirrors after any jump. So the smallest
    synced offset below the bound position is where it began to read again.
    """

    fell_from: int | None = None  # the last position before it became smaller
    began: int | None = None  # the smallest source offset below the bound position that was mirrored


@dataclass(frozen=True, kw_only=True)
class PositionVerdict:
    """The judgement of one position. Spans are offsets of the topic that has the name now."""

    fit: PositionFit
    next: int
    resume: int | None = None  # where the mirror must continue so that nothing is lost; None: at `next`
    lost: OffsetSpan | None = None  # the mirror has passed these, and they did not arrive
    doubled: OffsetSpan | None = None  # these arrive twice, or have, if the mirror continues at `resume`
    target_only: OffsetSpan | None = None  # the target has these, and the source lost them
    at_most: bool = False  # the spans are upper bounds
    reached: int = 0  # the position in the earlier topic

    @property
    def is_of_another_log(self) -> bool:
        """Return whether the topic was re-created or truncated since the position was bound."""
        return self.fit in (PositionFit.UNBOUND, PositionFit.RECREATED, PositionFit.CUT)

    @property
    def is_certain(self) -> bool:
        """Return whether the binding can be renewed without moving the position."""
        return self.resume is None


def judge(position: int | None, bound: Binding | None, log: SourceLog, evidence: Evidence) -> PositionVerdict:
    """Judge a position, None where the mirror has none, against the topic as it is now."""
    next_ = position or 0
    if bound is None:
        if next_ <= log.end:
            return PositionVerdict(fit=PositionFit.FITS, next=next_)
        return PositionVerdict(
            fit=PositionFit.UNBOUND,
            next=next_,
            resume=log.start,
            doubled=_span(log.start, log.end),
            at_most=True,
        )
    if bound.topic_id != log.topic_id:
        return _recreated(next_, bound, log, evidence)
    return _same_topic(next_, bound, log, evidence)


def _recreated(next_: int, bound: Binding, log: SourceLog, evidence: Evidence) -> PositionVerdict:
    reached = max(bound.next, evidence.fell_from or 0)
    fell = evidence.began is not None or next_ < bound.next or evidence.fell_from is not None
    if next_ > log.end or (not fell and next_ == bound.next):  # nothing of the present topic was mirrored
        return PositionVerdict(
            fit=PositionFit.RECREATED,
            next=next_,
            resume=None if next_ <= log.start else log.start,
            lost=_span(log.start, min(next_, log.end)),
            at_most=True,  # what a mirror that runs reads next is up to its consumer
            reached=reached if fell else next_,
        )
    if evidence.began is not None and evidence.began <= log.start:
        return PositionVerdict(fit=PositionFit.RECREATED, next=next_, reached=reached)
    began = evidence.began if evidence.began is not None else (log.start if fell else bound.next)
    return PositionVerdict(
        fit=PositionFit.RECREATED,
        next=next_,
        resume=log.start,
        lost=_span(log.start, evidence.began if evidence.began is not None else next_),
        doubled=_span(max(began, log.start), next_),
        at_most=evidence.began is None,
        reached=reached,
    )


def _same_topic(next_: int, bound: Binding, log: SourceLog, evidence: Evidence) -> PositionVerdict:
    if next_ > log.end:
        # Everything before the end of the bound epoch was mirrored, if that was not cut below the check.
        kept = bound.next if log.bound_epoch_end is None else log.bound_epoch_end
        kept = max(min(kept, log.end), log.start)
        is_known = kept < bound.next or kept == log.end
        return PositionVerdict(
            fit=PositionFit.CUT,
            next=next_,
            resume=kept,
            doubled=None if is_known else _span(kept, log.end),
            target_only=_span(kept, next_),
            at_most=not is_known,
        )
    cut = log.bound_epoch_end
    if cut is not None and cut < bound.next:
        cut = max(cut, log.start)
        noticed = evidence.began is not None and evidence.began <= cut
        return PositionVerdict(
            fit=PositionFit.CUT,
            next=next_,
            resume=None if noticed else cut,
            lost=None if noticed else _span(cut, min(next_, bound.next)),
            doubled=_span(evidence.began or 0, cut) if noticed else _span(bound.next, next_),
            target_only=_span(cut, bound.next),
            at_most=not noticed and next_ > bound.next,
        )
    if next_ < bound.next:  # the log was cut and the consumer began again, or somebody moved the position
        began = evidence.began if evidence.began is not None else log.start
        return PositionVerdict(
            fit=PositionFit.STEPPED_BACK,
            next=next_,
            doubled=_span(began, bound.next),
            at_most=evidence.began is None,
        )
    return PositionVerdict(fit=PositionFit.FITS, next=next_)


def renewed(
    bound: Binding | None, verdict: PositionVerdict, log: SourceLog, syncs: int, *, moved: bool
) -> Binding:
    """Return the binding after a check. `moved`: the position is set to `verdict.resume`."""
    next_ = verdict.resume if moved and verdict.resume is not None else verdict.next
    doubled = (*(bound.doubled if bound and bound.topic_id == log.topic_id else ()),)
    if verdict.doubled:
        doubled = (*doubled, verdict.doubled)
    new = Binding(
        topic_id=log.topic_id,
        next=next_,
        epoch=log.epoch,
        syncs=syncs,
        doubled=doubled,
        groups_unchecked=verdict.is_of_another_log or bool(bound and bound.groups_unchecked),
    )
    if bound is None:
        unknown = Binding(topic_id=UNKNOWN_TOPIC, next=next_)
        return unknown.followed_by(new, verdict.next) if verdict.fit is PositionFit.UNBOUND else new
    if bound.topic_id != log.topic_id:
        return bound.followed_by(new, verdict.reached)
    return replace(
        new,
        earlier=bound.earlier,
        copy=bound.copy,
        restored=bound.restored,
        generation=bound.generation,
    )


def _span(start: int, stop: int) -> OffsetSpan | None:
    return (start, stop) if start < stop else None
