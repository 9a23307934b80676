"""Plans a round of a table: which offsets are read, by its log and the cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from aqueduct.common import offset_ranges
from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import LeftOut, Refused, Skipped
from aqueduct.kafka.batches.batch import Unopened
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import Definition, Positions, State

NO_LEADER = -1  # instead of an end, and of an epoch
ROUND_OFFSETS = 20_000_000  # of a table in a commit, at most: what a lander that dies has done in vain


@dataclass(frozen=True, kw_only=True)
class SourceTopic:
    """A topic as it is in the cluster now."""

    name: str
    id: str
    starts: tuple[int, ...]  # the first offset of each partition
    ends: tuple[int, ...]  # its last stable offset, or NO_LEADER
    epochs: tuple[int, ...] = ()  # of its leader, when it told that


@dataclass(frozen=True, kw_only=True)
class LandPlan:
    """What a round of a table reads."""

    ranges: tuple[Range, ...]
    next: Positions  # if all of it is read
    topic_ids: Mapping[str, str]  # of topics that are new
    gaps: tuple[Range, ...]  # that retention deleted before they were read
    left_out: LeftOut
    whole: bool  # nothing is left for another round


def plan(
    state: State,
    topics: Iterable[SourceTopic],
    every: Set[str],
    *,
    stops: Mapping[TopicPartition, int],
    takes: Callable[[str], bool] = lambda _: True,
    unmatched: Iterable[str] = (),
    epoch_ends: Mapping[TopicPartition, int] | None = None,
    at_most: int = ROUND_OFFSETS,
) -> LandPlan:
    """Plan up to the topics' ends, or to `stops` where there are some.

    A new topic is read from its start on. `every`: the names of all topics that the cluster has; `takes`:
    whether a topic is declared; `unmatched`: the declared patterns that match no topic. `epoch_ends`: where
    logs leave the epochs under which they landed.
    """
    unread = _Unread(left_out=[*_unmatched(unmatched), *_missing(state, every, takes)])
    after = {topic: dict(positions) for topic, positions in state.positions.items()}
    topic_by_name = {topic.name: topic for topic in topics}
    for topic in topic_by_name.values():
        landed_id = state.topic_ids.get(topic.name)
        if landed_id and landed_id != topic.id:
            unread.left_out.append(_recreated(topic, landed_id))
            continue
        positions = after.setdefault(topic.name, {})
        # What a new topic lost before is nobody's; an added partition is read from offset 0.
        firsts = (0,) * len(topic.starts) if landed_id else topic.starts
        unread.add(topic, positions, firsts, stops=stops, epoch_ends=epoch_ends or {})
    round_ranges = _at_most(unread.ranges, at_most)
    for planned_range in round_ranges:
        after[planned_range.topic][str(planned_range.partition)] = planned_range.stop
    return LandPlan(
        ranges=tuple(round_ranges),
        next=after,
        topic_ids={
            topic.name: topic.id for topic in topic_by_name.values() if topic.name not in state.topic_ids
        },
        gaps=tuple(unread.gaps),
        left_out=tuple(unread.left_out),
        whole=round_ranges == unread.ranges,
    )


@dataclass(kw_only=True)
class _Unread:
    """The offsets of a table's topics that have not landed, and what cannot land."""

    ranges: list[Range] = field(default_factory=list)
    gaps: list[Range] = field(default_factory=list)
    left_out: list[Skipped]

    def add(
        self,
        topic: SourceTopic,
        positions: dict[str, int],
        firsts: Sequence[int],
        *,
        stops: Mapping[TopicPartition, int],
        epoch_ends: Mapping[TopicPartition, int],
    ) -> None:
        """Add the partitions of a topic, and set `positions` to where each is read from.

        `firsts`: the first offset to read of each partition that has no position.
        """
        for number, (start, end) in enumerate(zip(topic.starts, topic.ends, strict=True)):
            partition = TopicPartition(topic.name, number)
            if end == NO_LEADER:
                self.left_out.append(
                    Skipped(str(partition), "the partition has no leader", "landed-partition-leaderless")
                )
                continue
            begin = positions.get(str(number), firsts[number])
            if reason := _truncated(begin, end, epoch_ends.get(partition, begin)):
                self.left_out.append(Skipped(str(partition), reason, "landed-topic-truncated"))
                continue
            if start > begin:
                self.gaps.append(Range(topic.name, number, begin, start))
            positions[str(number)] = begin = max(start, begin)
            stop = min(end, stops.get(partition, end))
            if stop > begin:
                self.ranges.append(Range(topic.name, number, begin, stop))


def _missing(state: State, every: Set[str], takes: Callable[[str], bool]) -> Iterator[Skipped]:
    """Yield the landed topics that are declared, and that the cluster does not have any more."""
    for name in sorted(filter(takes, state.positions.keys() - every)):
        yield Skipped(
            f"topic {name}",
            "the topic no longer exists in the cluster; its rows stay in the table",
            "landed-topic-missing",
        )


def _recreated(topic: SourceTopic, landed_id: str) -> Skipped:
    reason = (
        f"the topic was deleted and re-created: its topic ID is {topic.id}, but the rows in the table come "
        f"from the topic ID {landed_id}"
    )
    return Skipped(f"topic {topic.name}", reason, "landed-topic-recreated")


def absent(table: LandTable, state: State, every: Collection[str]) -> LeftOut:
    """Return the declared topics that the cluster does not have and that never landed.

    `every`: the names of all topics that the cluster has.
    """
    names = [name for name in table.named_topics if name not in every and name not in state.positions]
    reason = "the cluster has no topic with this name, or the client may not describe the topic"
    unknown = (Skipped(f"topic {name}", reason, "topic-unknown") for name in names)
    return (*_unmatched(table.unmatched(every)), *unknown)


def _unmatched(patterns: Iterable[str]) -> Iterator[Skipped]:
    reason = "no whole topic name of the cluster matches this pattern"
    return (Skipped(f"topics {pattern}", reason, "pattern-matches-nothing") for pattern in patterns)


def epochs_to_ask(state: State, topics: Iterable[SourceTopic]) -> dict[TopicPartition, int]:
    """Return under which leader epoch each partition landed, as far as the table knows."""
    return {
        TopicPartition(topic.name, int(number)): epoch
        for topic in topics
        if state.topic_ids.get(topic.name) == topic.id
        for number, epoch in state.epochs.get(topic.name, {}).items()
        if int(number) < len(topic.ends) and topic.ends[int(number)] != NO_LEADER
    }


def _truncated(position: int, end: int, epoch_end: int) -> str:
    """Return why a log is not the one that landed up to this position; empty: it is."""
    if end < position:
        return f"the log was truncated: it ends at {end}, but records before offset {position} have landed"
    if epoch_end < position:
        at = f"at offset {epoch_end}" if epoch_end >= 0 else "at an unknown offset"
        return (
            f"the log was truncated {at}, but records before offset {position} have landed. The table "
            "contains records that the topic lost. To land the new records from this offset on, run "
            "`aqueduct land reset`"
        )
    return ""


@dataclass(frozen=True, kw_only=True)
class LandedPartition:
    """How far a topic's partition has landed."""

    landed: int  # the next offset
    start: int  # the topic's first offset: what retention deleted before does not wait
    end: int | None  # the topic's last stable offset; None: the landing of the partition stands still
    has_begun: bool = True  # the table has a position of it

    @property
    def lag(self) -> int | None:
        """Return how many offsets have not landed; None: it is unknown."""
        return None if self.end is None else self.end - max(self.start, self.landed)


def progress(
    state: State,
    topics: Iterable[SourceTopic],
    epoch_ends: Mapping[TopicPartition, int] | None = None,
    *,
    takes: Callable[[str], bool] = lambda _: True,
) -> dict[TopicPartition, LandedPartition]:
    """Return how far each partition of a table's topics has landed, also of those that are gone.

    `topics`: those that the table takes, and that the cluster has. `epoch_ends` and `takes` as in `plan`.
    """
    topic_by_name = {topic.name: topic for topic in topics}
    by_partition = {}
    for name in sorted({*topic_by_name, *filter(takes, state.positions)}):
        positions = state.positions.get(name, {})
        topic = topic_by_name.get(name)
        is_landed_one = topic is not None and state.topic_ids.get(name, topic.id) == topic.id
        starts, ends = (topic.starts, topic.ends) if topic else ((), ())
        for number in sorted({*range(len(ends)), *map(int, positions)}):
            partition = TopicPartition(name, number)
            start, end = (starts[number], ends[number]) if number < len(ends) else (0, NO_LEADER)
            landed = positions.get(str(number), start)
            epoch_end = (epoch_ends or {}).get(partition, landed)
            lands = is_landed_one and end != NO_LEADER and not _truncated(landed, end, epoch_end)
            by_partition[partition] = LandedPartition(
                landed=landed, start=start, end=end if lands else None, has_begun=str(number) in positions
            )
    return by_partition


def lag(
    state: State,
    topics: Iterable[SourceTopic],
    epoch_ends: Mapping[TopicPartition, int] | None = None,
    *,
    takes: Callable[[str], bool] = lambda _: True,
) -> int | None:
    """Return how many offsets of the topics that a table takes have not landed; arguments as in `progress`.

    None: it is unknown, because the landing of a partition stands still, or because no topic exists.
    """
    lags = [partition.lag for partition in progress(state, topics, epoch_ends, takes=takes).values()]
    known = [of_partition for of_partition in lags if of_partition is not None]
    return sum(known) if known and len(known) == len(lags) else None


def _at_most(unread: Sequence[Range], offsets: int) -> list[Range]:
    """Return the ranges, the longest of them cut so that all together have so many offsets."""
    limit, room = offsets, offsets
    for number, whole in enumerate(sorted(unread, key=len)):
        limit = max(1, room // (len(unread) - number))
        if len(whole) > limit:
            break
        room -= len(whole)
    else:
        return list(unread)
    return [
        Range(whole.topic, whole.partition, whole.start, min(whole.stop, whole.start + limit))
        for whole in unread
    ]


@dataclass(frozen=True, kw_only=True)
class ReadRange:
    """A range as it was read: up to `reached`, and why no further, with the identifier of that."""

    range: Range
    reached: int
    why: str = ""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class UnopenedRange:
    """Offsets of a batch that is not opened, for it unpacks to too much: they do not land."""

    range: Range
    why: str

    id = Unopened.id

    def __str__(self) -> str:
        offsets = f"offsets {self.range.start} to {self.range.stop - 1}"
        return str(Skipped(f"{self.range.topic_partition}, {offsets}", self.why, self.id))


def joined(unopened: Iterable[UnopenedRange]) -> list[UnopenedRange]:
    """Return the ranges in order, those of one batch that several tasks read as one."""
    whole: list[UnopenedRange] = []
    for part in sorted(unopened, key=lambda skipped: (skipped.range.topic_partition, skipped.range.start)):
        last = whole[-1] if whole else None
        if (
            last
            and last.why == part.why
            and last.range.topic_partition == part.range.topic_partition
            and last.range.stop == part.range.start
        ):
            whole[-1] = replace(last, range=replace(last.range, stop=part.range.stop))
        else:
            whole.append(part)
    return whole


def settle(todo: LandPlan, results: Sequence[Sequence[ReadRange]]) -> tuple[Positions, set[int]]:
    """Return the positions to commit, and which of the tasks' results count.

    A file holds rows of all ranges of a task, so a task counts as a whole or not at all: not if it lies
    beyond what was read of its partition. By `shares` such a task has nothing else.
    """
    positions = {topic: dict(of_topic) for topic, of_topic in todo.next.items()}
    for planned_range in todo.ranges:
        positions[planned_range.topic][str(planned_range.partition)] = planned_range.start
    counts: set[int] = set()
    for number, result in enumerate(results):  # as `shares` has them: a partition's in the order of offsets
        if all(positions[read.range.topic][str(read.range.partition)] == read.range.start for read in result):
            counts.add(number)
            for read in result:
                positions[read.range.topic][str(read.range.partition)] = read.reached
    return positions, counts


def shares(planned_ranges: Sequence[Range], at_most: int) -> list[tuple[Range, ...]]:
    """Return the ranges in groups of about so many offsets, one for each task; a long one is several.

    What is not the first of its partition goes alone: where it doesn't count, because what is before it broke
    off, it takes nothing with it.
    """
    firsts, others = [], []
    for whole in planned_ranges:
        first, *rest = offset_ranges.split(whole, at_most)
        firsts.append(first)
        others += [(part,) for part in rest]
    return [*offset_ranges.shares(firsts, at_most), *others]


def next_schema(state: State, declared: Definition, table: LandTable) -> int:
    """Return the number of the table's schema, a new one if columns were added.

    Refused if the table can't become what is declared.
    """
    stored = state.definition
    if stored is None or stored == declared:
        return max(state.schema, 1)
    had, has = ({column.name: column for column in of.columns} for of in (stored, declared))
    wrong = [f"the column {name} was removed" for name in had if name not in has]
    both = [(had[name], has[name]) for name in had if name in has]
    wrong += [
        (f"the type of {old.name} is {new.type} instead of {old.type}")
        for old, new in both
        if old.type != new.type
    ]
    wrong += [
        f"{old.name} is read as {new.means} instead of {old.means}"
        for old, new in both
        if old.means != new.means
    ]
    if stored.partition != declared.partition:
        wrong.append(
            f"its partition is {declared.partition or 'none'} instead of {stored.partition or 'none'}"
        )
    if stored.bad != declared.bad:
        wrong.append(f"its bad table is {declared.bad} instead of {stored.bad}")
    if stored.late not in ("", declared.late):
        wrong.append(f"its table of late rows is {declared.late} instead of {stored.late}")
    if stored.filtered not in ("", declared.filtered):
        wrong.append(f"its table of filtered rows is {declared.filtered}, not {stored.filtered}")
    if stored.kind != declared.kind:
        wrong.append(f"it is of the kind {declared.kind} instead of {stored.kind}")
    if stored.tombstones != declared.tombstones:
        wrong.append(f"tombstones are {'kept' if declared.tombstones else 'dropped'} now")
    if wrong:
        raise Refused(
            "table-change-unsupported",
            f"The table {table.full_name} cannot be changed as declared: {some(wrong)}. You can only add "
            "columns. For other changes, declare a new table.",
        )
    return state.schema + 1
