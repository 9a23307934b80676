"""The plan of a run: which offsets to read, and what the snapshot gains by them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut, Skipped
from aqueduct.store.manifest import (
    NO_EPOCH,
    NOT_READ,
    Gap,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    SnapshotPositions,
    StoredPartition,
    StoredTopic,
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A topic as it is in the cluster now."""

    name: str
    topic_id: str
    replication_factor: int
    compacted: bool
    settings: Mapping[str, str]
    starts: tuple[int, ...]  # the first offset of each partition
    ends: tuple[int, ...]  # its last stable offset
    epochs: tuple[int, ...]  # of its leader, when the leader returned the end
    # The offset at which the log leaves the epoch under which it was backed up, by partition.
    epoch_ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, kw_only=True)
class PlannedReading:
    """Offsets of one partition that are read into one instance."""

    stored_partition: StoredPartition
    start: int  # inclusive
    stop: int  # exclusive
    topic_id: str
    generation: bool  # whether the instance is a generation

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True)
class ReadingResult:
    """The result of one reading."""

    reading: PlannedReading
    reached: int  # every earlier offset is in a segment or a gap
    segments: tuple[Segment, ...]
    gaps: tuple[Gap, ...]
    left_out: LeftOut = ()

    @property
    def nothing(self) -> bool:
        """Return whether the reading failed before its first record."""
        return bool(self.left_out) and self.reached == self.reading.start


@dataclass(frozen=True, kw_only=True)
class BackupPlan:
    parent: Manifest | None
    topics: Mapping[str, StoredTopic]  # all topics of the new snapshot
    starts: SnapshotPositions
    positions: SnapshotPositions  # before anything is read
    epochs: SnapshotPositions
    readings: tuple[PlannedReading, ...]
    gaps: tuple[Gap, ...]  # deleted from the cluster since the last run
    left_out: LeftOut
    unchanged: tuple[str, ...] = ()  # compacted topics that keep their generation, because nothing changed


@dataclass(frozen=True)
class Generations:
    """The settings of the generations of compacted topics."""

    milliseconds: int  # after which the next generation is due, if the log has changed
    keep: int = 2  # maximum for each topic


class _Reached(NamedTuple):
    """The position of the backup in a partition before the run."""

    start: int  # the first offset that its instance covers
    position: int  # the next offset to read
    epoch: int  # of the leader when the partition was last read


class _PartitionPlan(NamedTuple):
    """One partition's part of a plan."""

    reached: _Reached  # before anything is read
    reading: PlannedReading | None = None
    gap: Gap | None = None
    skipped: Skipped | None = None


@dataclass(frozen=True, kw_only=True)
class _TopicPlan:
    """One topic's part of a plan."""

    topic: StoredTopic  # as the snapshot will have it
    removed: frozenset[int]  # instances that the snapshot no longer has
    unchanged: bool  # whether it keeps a generation that would be due
    partitions: Sequence[_PartitionPlan]

    @property
    def key(self) -> tuple[str, int]:
        return self.topic.name, active_instance(self.topic).number


def plan(
    parent: Manifest | None, sources: Iterable[Source], *, now: int, generations: Generations
) -> BackupPlan:
    """Plan a run; `now` is in milliseconds since 1970."""
    former = {topic.name: topic for topic in parent.topics} if parent else {}
    planned = [
        _plan_topic(parent, former.get(source.name), source, now=now, generations=generations)
        for source in sources
    ]
    return _join(parent, former, planned)


def _plan_topic(
    parent: Manifest | None, before: StoredTopic | None, source: Source, *, now: int, generations: Generations
) -> _TopicPlan:
    """Plan one topic. `before`: the topic in the parent."""
    due = unchanged = False
    if parent and before and _is_due(before, source, now, generations):
        due = _has_changed(parent, active_instance(before), source)
        unchanged = not due
    topic = _topic(before, source, now, generations.keep, due=due)
    former = before.instances if before else ()
    return _TopicPlan(
        topic=topic,
        removed=frozenset(instance.number for instance in former)
        - {instance.number for instance in topic.instances},
        unchanged=unchanged,
        partitions=[
            _plan_partition(topic, source, number, reached)
            for number, reached in enumerate(_reached(parent, topic, source))
        ],
    )


def _reached(parent: Manifest | None, topic: StoredTopic, source: Source) -> Iterator[_Reached]:
    """Yield the position of the backup in each partition of a topic.

    A new partition of a known topic is read from offset 0. A topic that is new to the store is read from its
    current start; earlier records do not count as a gap.
    """
    key = source.name, active_instance(topic).number
    positions = parent.positions.get(key) if parent else None
    if not parent or not positions:
        yield from (_Reached(start, start, NO_EPOCH) for start in source.starts)
        return
    starts, epochs = parent.starts[key], parent.epochs.get(key, ())
    for number in range(max(source.partitions, len(positions))):
        epoch = epochs[number] if number < len(epochs) else NO_EPOCH
        if number >= len(positions):
            yield _Reached(0, 0, epoch)
        elif positions[number] == NOT_READ and number < source.partitions:
            yield _Reached(source.starts[number], source.starts[number], epoch)
        else:
            yield _Reached(starts[number], positions[number], epoch)


def _plan_partition(topic: StoredTopic, source: Source, number: int, reached: _Reached) -> _PartitionPlan:
    """Plan the offsets of one partition that are new since the last backup."""
    if number >= source.partitions:
        return _PartitionPlan(reached)  # of a deleted topic of the same name; old brokers have no topic ids
    partition = StoredPartition(source.name, active_instance(topic).number, number)
    start, end, position = source.starts[number], source.ends[number], reached.position
    epoch_end = end if reached.epoch == NO_EPOCH else source.epoch_ends.get(number, end)
    if reason := _truncation(position, end, epoch_end):
        skipped = Skipped(f"{source.name}-{number}", reason, "partition-log-cut")
        return _PartitionPlan(reached, skipped=skipped)
    first = max(start, position)
    return _PartitionPlan(
        _Reached(reached.start, first, source.epochs[number]),
        reading=PlannedReading(
            stored_partition=partition,
            start=first,
            stop=end,
            topic_id=source.topic_id,
            generation=topic.compacted,
        )
        if end > first
        else None,
        gap=Gap(*partition, position, first) if first > position else None,
    )


def _join(
    parent: Manifest | None, former: Mapping[str, StoredTopic], planned: Sequence[_TopicPlan]
) -> BackupPlan:
    """Return the plan of all topics. Topics that the run does not back up stay unchanged."""
    removed = {(topic.topic.name, number) for topic in planned for number in topic.removed}

    def merged(before: SnapshotPositions, planned_numbers: SnapshotPositions) -> SnapshotPositions:
        return {key: numbers for key, numbers in before.items() if key not in removed} | {**planned_numbers}

    reached = {topic.key: [partition.reached for partition in topic.partitions] for topic in planned}
    partitions = [partition for topic in planned for partition in topic.partitions]
    return BackupPlan(
        parent=parent,
        topics={**former} | {topic.topic.name: topic.topic for topic in planned},
        starts=merged(
            parent.starts if parent else {},
            {key: tuple(partition.start for partition in of_topic) for key, of_topic in reached.items()},
        ),
        positions=merged(
            parent.positions if parent else {},
            {key: tuple(partition.position for partition in of_topic) for key, of_topic in reached.items()},
        ),
        epochs=merged(
            parent.epochs if parent else {},
            {
                topic.key: tuple(
                    partition.reached.epoch for partition in topic.partitions[: topic.topic.partitions]
                )
                for topic in planned
            },
        ),
        readings=tuple(partition.reading for partition in partitions if partition.reading),
        gaps=tuple(partition.gap for partition in partitions if partition.gap),
        left_out=tuple(partition.skipped for partition in partitions if partition.skipped),
        unchanged=tuple(topic.topic.name for topic in planned if topic.unchanged),
    )


def _truncation(position: int, end: int, epoch_end: int) -> str:
    """Return why a log is not the one that was backed up to this position; empty if it is."""
    if end < position:
        return f"its log was truncated: it ends at {end}, but was backed up to {position}"
    if epoch_end < position:
        where = f"at {epoch_end}" if epoch_end >= 0 else "at an offset that its leader does not know"
        return (
            f"its log was truncated {where} and has grown again, but it was backed up to {position}. The "
            "backup contains records that the topic lost (by an unclean leader election, or on a damaged "
            "disk). To back up the topic as it is now, back it up to another store"
        )
    return ""


def epochs_to_ask(parent: Manifest | None, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Return the leader epoch under which each partition was backed up, as far as the parent has it.

    `ids`: the current topic ids, by name.
    """
    epochs: dict[TopicPartition, int] = {}
    for topic in parent.topics if parent else ():
        active = active_instance(topic)
        if parent and ids.get(topic.name) == active.topic_id:
            of_topic = parent.epochs.get((topic.name, active.number), ())
            known_epochs = {number: epoch for number, epoch in enumerate(of_topic) if epoch != NO_EPOCH}
            epochs |= {TopicPartition(topic.name, number): epoch for number, epoch in known_epochs.items()}
    return epochs


def shares(readings: Sequence[PlannedReading], at_most: int) -> list[tuple[PlannedReading, ...]]:
    """Divide the readings into shares of about `at_most` offsets, one for each task.

    A large partition is divided among several tasks; one task reads many small partitions.
    """
    tasks: list[list[PlannedReading]] = []
    room = 0
    for whole in readings:
        start = whole.start
        while start < whole.stop:
            # A task for only a few offsets takes longer than it saves.
            if not tasks or room < min(at_most // 2, whole.stop - start):
                tasks.append([])
                room = at_most
            rest = whole.stop - start
            stop = whole.stop if rest <= room + at_most // 2 else start + room
            tasks[-1].append(
                PlannedReading(
                    stored_partition=whole.stored_partition,
                    start=start,
                    stop=stop,
                    topic_id=whole.topic_id,
                    generation=whole.generation,
                )
            )
            room -= stop - start
            start = stop
    return [tuple(share) for share in tasks]


@dataclass(frozen=True, kw_only=True)
class Added:
    """The part of a snapshot that its run adds."""

    topics: tuple[StoredTopic, ...]
    starts: SnapshotPositions
    positions: SnapshotPositions
    epochs: SnapshotPositions
    segments: tuple[Segment, ...]
    gaps: tuple[Gap, ...]
    generation_ends: SnapshotPositions


def settle(todo: BackupPlan, results: Sequence[ReadingResult]) -> Added:
    """Return what the snapshot gains by these results. Only complete parts count.

    In a partition, results count up to the first incomplete reading. A generation that is incomplete in any
    partition does not count, if the topic has an earlier one.
    """
    topics, positions = dict(todo.topics), {key: list(offsets) for key, offsets in todo.positions.items()}
    for result in results:  # of each partition in the order of offsets
        topic, instance, partition = result.reading.stored_partition
        if positions[topic, instance][partition] == result.reading.start:
            positions[topic, instance][partition] = result.reached
    before = {topic.name: topic for topic in todo.parent.topics} if todo.parent else {}
    for stored in (result.reading.stored_partition for result in results if result.left_out):
        if todo.parent and stored.topic in before and stored[:2] not in todo.parent.positions:
            former = topics[stored.topic] = before[stored.topic]
            positions.pop(stored[:2], None)
            of_topic = {(stored.topic, instance.number) for instance in former.instances}
            positions |= {key: list(todo.parent.positions[key]) for key in of_topic}
    kept = {key: tuple(offsets) for key, offsets in positions.items()}
    starts = {**(todo.parent.starts if todo.parent else {}), **todo.starts}
    epochs = {**(todo.parent.epochs if todo.parent else {}), **todo.epochs}
    pieces = [(result.segments, result.gaps) for result in results]
    segments = (segment for written, _ in pieces for segment in written)
    gaps = (*todo.gaps, *(gap for _, lost in pieces for gap in lost))
    return Added(
        topics=tuple(topics.values()),
        starts={key: starts[key] for key in kept},
        positions=kept,
        epochs={key: epochs[key] for key in kept if key in epochs},
        segments=tuple(segment for segment in segments if _covered(segment, kept)),
        gaps=tuple(gap for gap in gaps if _covered(gap, kept)),
        generation_ends=_generation_ends(todo.parent, topics.values(), kept),
    )


def _generation_ends(
    parent: Manifest | None, topics: Iterable[StoredTopic], positions: SnapshotPositions
) -> SnapshotPositions:
    """Return the end of each generation when it was read; for generations of this run, the current end."""
    former_ends = parent.generation_ends if parent else {}
    former_positions = parent.positions if parent else {}
    keys = [
        (topic.name, instance.number) for topic in topics if topic.compacted for instance in topic.instances
    ]
    new = {key: positions[key] for key in keys if key not in former_positions and key in positions}
    return {key: former_ends[key] for key in keys if key in former_ends and key in positions} | new


def _covered(piece: Segment | Gap, positions: SnapshotPositions) -> bool:
    offsets = positions.get((piece.topic, piece.instance))
    return offsets is not None and piece.stop <= offsets[piece.partition]


def active_instance(topic: StoredTopic) -> Instance:
    return next(instance for instance in topic.instances if instance.state is InstanceState.ACTIVATE)


def _is_due(former: StoredTopic, source: Source, now: int, generations: Generations) -> bool:
    """Return whether the next generation of a topic is due."""
    active = active_instance(former)
    same = active.topic_id == source.topic_id and former.compacted == source.compacted
    return source.compacted and same and now - active.started >= generations.milliseconds


def _has_changed(parent: Manifest, active: Instance, source: Source) -> bool:
    """Return whether the log has changed since the generation was read. If that is unknown, it has."""
    key = source.name, active.number
    return parent.generation_ends.get(key) != source.ends or parent.starts.get(key) != source.starts


def _topic(former: StoredTopic | None, source: Source, now: int, keep: int, *, due: bool) -> StoredTopic:
    """Return the next state of a topic. It has a new instance if it was re-created or a generation is due."""
    instances: tuple[Instance, ...] = ()
    if former:
        active = active_instance(former)
        if active.topic_id == source.topic_id and former.compacted == source.compacted and not due:
            instances = former.instances
        else:
            # The next generation contains the records of the former one, but not those of a deleted topic.
            copies = [instance for instance in former.instances if instance.topic_id == source.topic_id]
            gone = copies[: max(0, len(copies) + 1 - keep)]
            kept = (instance for instance in former.instances if instance not in gone)
            instances = tuple(instance._replace(state=InstanceState.PASSIVATE) for instance in kept)
    if not any(instance.state is InstanceState.ACTIVATE for instance in instances):
        number = max((instance.number for instance in former.instances), default=0) + 1 if former else 1
        instances += (Instance(number, source.topic_id, InstanceState.ACTIVATE, now),)
    return StoredTopic(
        name=source.name,
        topic_id=source.topic_id,
        partitions=source.partitions,
        replication_factor=source.replication_factor,
        compacted=source.compacted,
        settings=source.settings,
        instances=instances,
    )
