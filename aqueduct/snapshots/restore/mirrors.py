"""Adjusts mirrors that read the restored cluster, so that they continue at the same records.

MirrorMaker 2 stores its positions like those of a source connector, in a topic at its target. A key is a
source partition; its last value is the last mirrored offset, or null to begin at the start of the log. Beside
each position is its binding to a topic id (`aqueduct.mirror.binding`). The services of the mirror must be
stopped meanwhile.

A position is one offset. If a topic has records of its own before or among the restored ones, no offset
separates them. So a restore is refused while the mirror has not read the existing records. If other clients
write during the restore, the mirror continues at their first record.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from kafka.errors import UnknownTopicOrPartitionError
from kafka.record.default_records import DefaultRecordBatchBuilder

from aqueduct.common import strict_json, timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import AqueductError, Failed, LeftOut, Refused, Skipped
from aqueduct.kafka import fetch, groups, offsets
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.compacted_topics import MOST_STATE_BYTES, Table, TableTooLarge
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.kafka.requests import METADATA_BYTES
from aqueduct.mirror.binding import (
    UNKNOWN_TOPIC,
    Binding,
    EarlierPosition,
    Evidence,
    OffsetSpan,
    PositionFit,
    RestoredCopy,
    RestoreRange,
    RestoreRanges,
    SourceLog,
    judge,
)
from aqueduct.mirror.engine.names import positions_topic
from aqueduct.mirror.engine.position import (
    BATCHES,
    HOLDER_KEY,
    UnreadablePosition,
    is_engine_key,
    parse_holder,
    parse_position,
    parse_position_key,
    parse_status_key,
)
from aqueduct.mirror.positions import FLOW_UNREADABLE, FlowPositions, source_logs, suspects
from aqueduct.snapshots.restore import topics
from aqueduct.snapshots.restore.job import CLIENT, Job, connected
from aqueduct.snapshots.restore.order import FollowingMirror
from aqueduct.snapshots.restore.outcome import (
    AHEAD,
    DOUBLED,
    IN_BACKUP,
    IN_EARLIER,
    IN_TOPIC,
    NAMED,
    UNBOUND,
    FlowRange,
    Written,
    listed,
)
from aqueduct.snapshots.restore.plan import RestoreLane
from aqueduct.snapshots.restore.positions import Unsure, translate
from aqueduct.snapshots.restore.progress import group
from aqueduct.work.workers import Workers

# Errors in topics that only the service of the mirror can write, or anyone with its key.
UNREADABLE = {UnreadablePosition.id, FLOW_UNREADABLE, TableTooLarge.id}


@dataclass(frozen=True, kw_only=True)
class MirrorPositions:
    """All positions of one mirror, which are set once for each restore."""

    client: Client
    mirror: FollowingMirror
    restore_id: str
    positions: FlowPositions

    @property
    def _mark(self) -> TopicPartition:
        """The partition in this restore's group that marks the positions as set."""
        return TopicPartition(self.positions.topic, 0)

    def moved(self) -> str | None:
        """Return the notes that an earlier run of this restore stored with the mark; None without a mark."""
        try:
            marks = groups.progress(self.client, group(self.restore_id), [self._mark])
        except UnknownTopicOrPartitionError:
            return None
        return marks[self._mark][1] if self._mark in marks else None

    def move(
        self, moves: Mapping[TopicPartition, int], bindings: Mapping[TopicPartition, Binding], notes: str
    ) -> None:
        """Set the next offsets, all or none, together with the mark."""
        producer = TransactionalProducer(self.client, f"{group(self.restore_id)}-{self.mirror.name}")
        records = self.positions.records(moves, bindings)

        def attempt(_: Callable[[], None]) -> None:
            producer.begin()
            for partition, mine in sorted(records.items()):
                producer.send(self.positions.topic, partition, _batch(mine))
            producer.commit_offsets(group(self.restore_id), {self._mark: (1, notes)})
            producer.commit()

        until_committed(
            self.client, attempt, f"; the positions of mirror {self.mirror.name} stay as they were"
        )


@dataclass(frozen=True, kw_only=True)
class _MirrorFound:
    """The position of a mirror in one restored partition, before it is changed."""

    at: int
    bound: Binding | None
    log: SourceLog  # as it was before the restore
    began_at: int  # all earlier records of the present topic were mirrored
    in_backup: int | None  # the position in the backed-up topic; None: the mirror never read it
    is_guess: bool  # no binding proves that the position refers to this topic
    reached: int  # the last position in the topic of `bound`
    between: int = 0  # offsets read of a topic that was neither backed up nor restored
    partly: int | None = None  # the position in an earlier restored copy that was not read to its end


@dataclass(frozen=True, kw_only=True)
class _MirrorMoved:
    """The position at which a mirror continues in one partition."""

    next: int
    binding: Binding
    notes: Sequence[str]
    unbound: str = ""  # a note: the position was not bound to a topic id


@dataclass(frozen=True)
class MirrorNotes:
    """The notes on a mirror in the report of a restore. They are stored as a group's metadata."""

    ahead: str = ""
    unbound: str = ""

    @classmethod
    def of(cls, moved: Mapping[TopicPartition, _MirrorMoved]) -> "MirrorNotes":
        ahead = [f"{partition}: {note}" for partition, moved_to in moved.items() for note in moved_to.notes]
        unbound = [
            f"{partition}: {moved_to.unbound}" for partition, moved_to in moved.items() if moved_to.unbound
        ]
        return cls(_kept(ahead), _kept(unbound))

    def after(self, former: "MirrorNotes") -> "MirrorNotes":
        """Return these notes and those of an earlier run, so that each later run reports both."""
        return MirrorNotes(
            _kept(list(filter(None, (self.ahead, former.ahead)))),
            _kept(list(filter(None, (self.unbound, former.unbound)))),
        )

    @classmethod
    def parse(cls, metadata: str) -> "MirrorNotes":
        """Parse the result of `dumps`. Any other metadata is returned as a note."""
        try:
            return strict_json.loads(cls, metadata.encode())
        except ValueError:
            return cls(ahead=metadata)

    def dumps(self) -> str:
        return json.dumps(asdict(self)) if self != MirrorNotes() else ""


def check(job: Job) -> None:
    """Refuse the restore while a mirror has not read the existing records of the restored topics.

    It is also refused for a mirror of the engine `batches`, whose positions cannot be changed.
    """
    names = {lane.topic for lane in job.plan.continued_lanes.values()}
    for mirror in job.order.mirrors:
        with _opened(mirror, job.id) as opened:
            with readable(mirror, Refused):
                mirrored = _mirrored_by_batches(opened, names)
            if topics_of_it := mirrored & names:
                raise Refused(
                    "mirror-batches-restored",
                    f"Mirror {mirror.name} has the engine batches, which mirrors a re-created topic from its "
                    f"beginning: all restored records of {some(sorted(topics_of_it))} would arrive twice. "
                    "Nothing was written. Remove the flow from the inventory, deploy its site, and restore. "
                    "Then declare the flow again with another name and with topics at the target that are "
                    "empty.",
                )
    lanes = {
        partition: lane
        for partition, lane in job.plan.continued_lanes.items()
        if lane.topic in job.there and lane.topic not in job.known
    }
    if not (lanes and job.order.mirrors):
        return
    with connected(job.order) as source:
        for mirror in job.order.mirrors:
            with _opened(mirror, job.id) as opened, readable(mirror, Refused):
                unread = [
                    str(partition)
                    for partition, position in _former_positions(
                        job, source, opened.positions, lanes, {}
                    ).items()
                    if position.began_at < position.log.stable_end
                    and topics.visible(source, Range(*partition, position.began_at, position.log.stable_end))
                ]
            if unread:
                raise Refused(
                    "mirror-has-unread-records",
                    f"Mirror {mirror.name} has not read all records that {some(unread)} "
                    f"{'has' if len(unread) == 1 else 'have'} now. One position cannot skip the restored "
                    "records and include these. Start the mirror, stop the clients that write, wait until "
                    "`aqueduct mirror --until-caught-up` ends with 0, then run the command again.",
                )


def check_readable(job: Job) -> None:
    """Refuse the restore if the positions of a mirror cannot be read, and so could not be set afterwards."""
    for mirror in job.order.mirrors:
        with _opened(mirror, job.id) as opened, readable(mirror, Refused):
            if _mirrored_by_batches(opened):
                continue
            opened.positions.refresh()
            opened.positions.check()


@contextmanager
def readable(mirror: FollowingMirror, error_type: type[AqueductError]) -> Iterator[None]:
    """Raise an error with the name of the mirror, if its positions cannot be read.

    `Refused`: nothing was written. `Failed`: records were written, but no position was changed.
    """
    try:
        yield
    except Failed as error:
        if error.id not in UNREADABLE:
            raise
        result = "Nothing was written." if error_type is Refused else "None of its positions was changed."
        # The other errors contain the topic.
        topic = f"topic {positions_topic(mirror.name)}: " if isinstance(error, UnreadablePosition) else ""
        raise error_type(
            error.id,
            f"Mirror {mirror.name} at {mirror.end.bootstrap_servers}: {topic}{error.sentence} {result} If no "
            "service of this mirror wrote the record, replace the key of the mirror's site. Then run the "
            "same command again.",
        ) from None


def move(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[LeftOut, tuple[FlowRange, ...]]:
    """Set the positions of mirrors that read the restored topics, once; Failed if one cannot be set.

    Return the skipped items, and the ranges that are doubled at a mirror's target or exist only there.
    """
    left_out: list[Skipped] = []
    ranges: list[FlowRange] = []
    for mirror in job.order.mirrors:
        with _opened(mirror, job.id) as opened, readable(mirror, Failed):
            if _mirrored_by_batches(opened):  # of other topics; `check` refused restored ones
                continue
            if not opened.positions.exists:
                left_out.append(_unknown_mirror(mirror.name, opened.positions))
                continue
            saved_notes = opened.moved()
            moved = _new_positions(job, opened, written, workers, is_again=saved_notes is not None)
            bindings = {partition: moved_to.binding for partition, moved_to in moved.items()}
            if saved_notes is None or moved:
                saved_notes = MirrorNotes.of(moved).after(MirrorNotes.parse(saved_notes or "")).dumps()
                opened.move(
                    {partition: moved_to.next for partition, moved_to in moved.items()}, bindings, saved_notes
                )
            # Readers may see the former positions for a moment (KIP-98).
            ranges += ranges_of(mirror.name, job.id, {**opened.positions.bindings, **bindings})
            notes = MirrorNotes.parse(saved_notes)
            target = f"at {mirror.end.bootstrap_servers}: "  # several lakes may have a flow of this name
            if notes.ahead:
                left_out.append(Skipped(f"mirror {mirror.name}", target + notes.ahead, "mirror-ahead"))
            if notes.unbound:
                left_out.append(
                    Skipped(f"mirror {mirror.name}", target + notes.unbound, "mirror-position-unbound")
                )
    return tuple(left_out), tuple(ranges)


def ranges_of(name: str, restore_id: str, bindings: Mapping[TopicPartition, Binding]) -> Iterator[FlowRange]:
    """Yield the ranges of a mirror that a restore stored in its bindings."""
    for partition, bound in sorted(bindings.items()):
        if bound.restored and bound.restored.restore_id == restore_id:
            for restore_range in bound.restored.ranges:
                yield FlowRange(f"mirror {name}", partition, restore_range)


def _kept(notes: Sequence[str]) -> str:
    """List as many notes as fit into the metadata of a group. The bindings contain all ranges."""
    for limit in range(NAMED, 0, -1):
        if len(text := listed(notes, limit)) <= METADATA_BYTES // 4:
            return text
    return text[: METADATA_BYTES // 4]


def _mirrored_by_batches(opened: MirrorPositions, restored: Collection[str] = ()) -> set[str]:
    """Read the positions of a mirror of the engine `batches`; see `mirrored_by_batches`."""
    name = positions_topic(opened.mirror.name)
    topic = opened.client.topics([name]).get(name)
    if topic is None:
        return set()
    table = Table(opened.client, most_bytes=MOST_STATE_BYTES)
    table.refresh(topic.topic_partitions)
    return mirrored_by_batches({key: row.value for key, row in table.rows.items()}, restored)


def mirrored_by_batches(rows: Mapping[bytes, bytes], restored: Collection[str] = ()) -> set[str]:
    """Return the source topics in which a mirror of the engine `batches` has positions; else an empty set.

    `rows`: of its positions topic. UnreadablePosition if a key, or the position of a restored topic, cannot
    be read: it could refer to a restored topic. Positions of other topics are ignored.
    """
    holder = parse_holder(HOLDER_KEY, rows[HOLDER_KEY]) if HOLDER_KEY in rows else None
    if holder and holder.engine != BATCHES:  # these positions are outdated: MirrorMaker 2 has newer ones
        return set()
    mirrored = set()
    for key, value in rows.items():
        if key == HOLDER_KEY or not is_engine_key(key) or parse_status_key(key) is not None:
            continue
        name = parse_position_key(key).topic
        if name in restored:
            parse_position(key, value)
        mirrored.add(name)
    return mirrored


def _unknown_mirror(name: str, positions: FlowPositions) -> Skipped:
    """Return the skipped item of a mirror whose target has no positions."""
    reason = (
        f"its target has no topic {positions.topic}, so no position was adjusted. Check the name in "
        "--mirror. A mirror that never ran has no positions, and reads the restored topics from the start"
    )
    return Skipped(f"mirror {name}", reason, "mirror-unknown")


def _former_positions(
    job: Job,
    source: Client,
    positions: FlowPositions,
    lanes: Collection[TopicPartition],
    starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, _MirrorFound]:
    """Return the positions of a mirror in these partitions.

    `starts`: the ends of their logs before the restore.
    """
    positions.refresh()
    stored, bindings = positions.stored, positions.bindings
    mine = {
        partition: bindings.get(partition)
        for partition in sorted(lanes)
        if partition in stored or partition in bindings
    }
    logs = {
        partition: replace(log, end=starts.get(partition, log.end), bound_epoch_end=None)
        for partition, log in source_logs(source, mine).items()
    }
    next_offsets = {partition: stored[partition].next if partition in stored else None for partition in mine}
    evidence = positions.evidence(
        dict(
            suspects(
                {partition: (next_offsets[partition], mine[partition], logs[partition]) for partition in logs}
            )
        )
    )
    return {
        partition: judged(
            next_offsets[partition],
            mine[partition],
            log,
            evidence.get(partition, Evidence()),
            job.plan.backed_up_ids[partition.topic],
        )
        for partition, log in logs.items()
    }


def judged(
    position: int | None, bound: Binding | None, log: SourceLog, evidence: Evidence, backed_up: str
) -> _MirrorFound:
    verdict, offset = judge(position, bound, log, evidence), position or 0
    if bound is None:
        return _MirrorFound(
            at=offset,
            bound=bound,
            log=log,
            began_at=log.start,
            in_backup=offset,
            is_guess=True,
            reached=offset,
        )
    is_same = bound.topic_id == log.topic_id
    reached = offset if is_same else verdict.reached
    mirrored = is_same or (verdict.fit is PositionFit.RECREATED and verdict.is_certain)
    in_backup = reached if bound.topic_id == backed_up else bound.position_in(backed_up)
    unknown = bound.position_in(UNKNOWN_TOPIC)
    is_guess = in_backup is None and unknown is not None
    if is_guess:
        in_backup = unknown
    partly, copy = None, bound.copy
    if copy and copy.topic_id == backed_up and not is_same and in_backup is not None:
        if reached >= copy.end:
            in_backup = max(in_backup, copy.stop)
        else:
            partly = reached
    # The log was truncated below the position, so its new records were not mirrored.
    was_cut = is_same and verdict.fit is PositionFit.CUT
    began = offset if verdict.resume is None or not was_cut else verdict.resume
    between = 0
    if not is_same and offset > log.end and reached != offset:
        between = offset
    elif not is_same and bound.topic_id != backed_up and not (copy and copy.topic_id == backed_up):
        between = reached
    elif not is_same and copy and copy.topic_id == backed_up and partly is None and reached > copy.end:
        between = reached - copy.end  # records that clients wrote after an earlier restore
    return _MirrorFound(
        at=offset,
        bound=bound,
        log=log,
        began_at=max(began, log.start) if mirrored else log.start,
        in_backup=in_backup,
        is_guess=is_guess,
        reached=reached,
        between=between,
        partly=partly,
    )


def _new_positions(
    job: Job,
    opened: MirrorPositions,
    written: Mapping[TopicPartition, Written],
    workers: Workers,
    *,
    is_again: bool,
) -> dict[TopicPartition, _MirrorMoved]:
    """Return where a mirror continues in each partition, with notes on records that do not arrive once.

    `is_again`: the same restore has set its positions before. Then only positions in topics that were
    re-created since are set: those that are bound to another topic than the restored one.
    """
    lanes = job.plan.continued_lanes
    starts = {partition: restored.progress.start for partition, restored in written.items()}
    with connected(job.order) as source:
        old_positions = {
            partition: old
            for partition, old in _former_positions(job, source, opened.positions, lanes, starts).items()
            if not (is_again and _was_moved(old))
        }
        if not old_positions:
            return {}
        asked = {
            partition: {old.in_backup}
            for partition, old in old_positions.items()
            if old.in_backup is not None
        }
        answers = translate(job, asked, written, workers)
        syncs = opened.positions.sync_end()
        ends = offsets.ends(source, old_positions)
        moved = {}
        for partition, old in sorted(old_positions.items()):
            new: int | None = None
            if old.in_backup is not None:
                answer = answers[partition, old.in_backup]
                if isinstance(answer.new, Unsure):
                    raise Failed(
                        "mirror-position-unknown",
                        f"The position of mirror {opened.mirror.name} in {partition} cannot be translated: "
                        f"{answer.new.why}. None of its positions was changed.",
                    )
                new = answer.new
            producers = written[partition].progress.producers if partition in written else ()
            others = None
            if job.order.append and new is not None:
                others = _first_of_others(source, Range(*partition, old.began_at, new), producers)
            lane = lanes[partition]
            copy = RestoredCopy(job.plan.backed_up_ids[lane.topic], lane.stop, ends[partition])
            moved[partition] = continued(old, lane, new, others, copy=copy, syncs=syncs, restore_id=job.id)
        return moved


def _was_moved(old: _MirrorFound) -> bool:
    """Return whether an earlier run of the same restore set this position for the present topic.

    That run stored the restored copy, which stays until the position is bound to another topic. A position
    that never belonged to an earlier topic has nothing to skip.
    """
    if old.bound is None:
        return True
    return old.bound.topic_id == old.log.topic_id and (old.bound.copy is not None or not old.bound.earlier)


def continued(
    old: _MirrorFound,
    lane: RestoreLane,
    new: int | None,
    others: int | None,
    *,
    copy: RestoredCopy,
    syncs: int,
    restore_id: str,
) -> _MirrorMoved:
    """Return where the mirror continues. `others`: the first record of another client before `new`."""
    inexact = _Inexact()
    start = _restart(old, new, others)
    doubled = inexact.add_doubled(lane, new, others, (start, copy.end))
    unbound = inexact.add_unbound(old)
    inexact.add_ahead(old, lane)
    inexact.add_partly_read(old)
    binding = Binding(
        topic_id=old.log.topic_id,
        next=start,
        epoch=old.log.epoch,
        syncs=syncs,
        doubled=doubled,
        copy=copy,
        restored=RestoreRanges(restore_id, tuple(inexact.ranges)) if inexact.ranges else None,
        groups_unchecked=True,
    )
    return _MirrorMoved(next=start, binding=_next_binding(old, binding), notes=inexact.notes, unbound=unbound)


def _restart(old: _MirrorFound, new: int | None, others: int | None) -> int:
    """Return the first offset that the mirror reads. `new` and `others` are as in `continued`."""
    if new is None:
        return old.began_at
    return max(old.began_at, new) if others is None else others


@dataclass(kw_only=True)
class _Inexact:
    """The offsets of a partition that do not arrive exactly once, and the reasons."""

    ranges: list[RestoreRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_doubled(
        self, lane: RestoreLane, new: int | None, others: int | None, restored: OffsetSpan
    ) -> tuple[OffsetSpan, ...]:
        """Add the records that arrive twice, and return their offsets.

        `restored`: the offsets that the mirror reads if its position is unknown.
        """
        if new is None:
            first, last = restored
            self.notes.append(
                "its position in the backed-up topic is unknown, so it reads all restored records, offsets "
                f"{lane.segments[0].start if lane.segments else lane.stop} to "
                f"{lane.stop - 1} of the backup; records that had already arrived arrive twice",
            )
            if first >= last:
                return ()
            # This is the maximum, until an operator accepts it.
            self.ranges.append(RestoreRange(kind=DOUBLED, start=first, stop=last, log=IN_TOPIC, at_most=True))
            return (restored,)
        if others is None:
            return ()
        self.ranges.append(RestoreRange(kind=DOUBLED, start=others, stop=new, log=IN_TOPIC))
        self.notes.append(
            f"other clients wrote during the restore, so restored records from offset {others} to {new - 1} "
            "arrive twice"
        )
        return ((others, new),)

    def add_unbound(self, old: _MirrorFound) -> str:
        """Add a position without a proving binding, and return a note on it; empty if a binding proves it."""
        if not old.is_guess:
            return ""
        if old.in_backup is not None:
            self.ranges.append(
                RestoreRange(kind=UNBOUND, start=old.in_backup, stop=old.in_backup, log=IN_BACKUP)
            )
        return (
            f"its position {old.in_backup} was not bound to a topic id, and was assumed to refer to the "
            "topic that was backed up"
        )

    def add_ahead(self, old: _MirrorFound, lane: RestoreLane) -> None:
        """Add the records that only the mirror's target has."""
        if old.in_backup is not None and old.in_backup > lane.stop:
            self.notes.append(f"it has read up to {old.in_backup}, and the snapshot ends at {lane.stop}")
            self.ranges.append(RestoreRange(kind=AHEAD, start=lane.stop, stop=old.in_backup, log=IN_BACKUP))
        if old.between:
            self.notes.append(
                f"it had read {old.between} offsets of a topic of this name that was deleted after the "
                "backup; only the target of the mirror has them"
            )
            self.ranges.append(
                RestoreRange(kind=AHEAD, start=0, stop=old.between, log=IN_EARLIER, at_most=True)
            )

    def add_partly_read(self, old: _MirrorFound) -> None:
        """Add the part of an earlier restored copy that the mirror had read."""
        if old.partly is None:
            return
        self.notes.append(
            f"it had read a part of an earlier restore of these records, up to offset {old.partly} there; "
            "at most that part arrives twice"
        )
        self.ranges.append(RestoreRange(kind=DOUBLED, start=0, stop=old.partly, log=IN_EARLIER, at_most=True))


def _next_binding(old: _MirrorFound, binding: Binding) -> Binding:
    """Return a new binding that keeps the old one's earlier topics and doubled records."""
    before = old.bound
    if before is None:
        return replace(binding, earlier=(EarlierPosition(UNKNOWN_TOPIC, old.at),))
    if before.topic_id != old.log.topic_id:
        return before.followed_by(binding, old.reached)
    return replace(binding, earlier=before.earlier, doubled=(*before.doubled, *binding.doubled))


def _first_of_others(client: Client, span: Range, producers: Collection[int]) -> int | None:
    """Return the first offset of a record in the range that this restore did not write."""
    if span.start >= span.stop:
        return None
    for piece in fetch.read(client, span):
        for batch in piece.batches:
            if batch.producer_id not in producers:
                return max(batch.base_offset, span.start)
    return None


@contextmanager
def _opened(mirror: FollowingMirror, restore_id: str) -> Iterator[MirrorPositions]:
    with connect(mirror.end, CLIENT) as client:
        yield MirrorPositions(
            client=client, mirror=mirror, restore_id=restore_id, positions=FlowPositions(mirror.name, client)
        )


def _batch(records: Sequence[tuple[bytes, bytes | None]]) -> Ready:
    now = timestamps.now()
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 30,
    )  # fmt: skip
    for number, (key, value) in enumerate(records):
        builder.append(number, now, key, value, [])
    return Ready(bytearray(builder.build()), len(records), 0)
