"""Translates offsets of consumer groups: from the store to those of the same records at the target.

The indexes of the segments show the record to which an offset refers. The batch headers of the target show
the new offset of this record; they are read from the nearer end of the restored range. The translation needs
no stored state. Records of other clients do not disturb it, because restored ones have known producer ids.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import fetch, offsets
from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.offsets import Index, Inside
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.restore import settings
from aqueduct.snapshots.restore.job import CLIENT, Job
from aqueduct.snapshots.restore.outcome import Written
from aqueduct.snapshots.restore.plan import RestoreLane
from aqueduct.snapshots.restore.progress import RestoreProgress, UnopenedBatch
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.manifest import Segment
from aqueduct.store.objects import Objects
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.workers import Workers

MARGIN = 16  # offsets without records, such as markers, that are expected near the end of a log
SEGMENTS = 2  # whose descriptions are cached
LANES = 200  # maximum number of lanes whose offsets one task translates
QUESTIONED = 10  # to translate offsets, at most 1 / QUESTIONED of the bytes of a lane is read


@dataclass(frozen=True)
class Unsure:
    """The reason why the offset of a restored record is unknown."""

    why: str
    id: str


AGAIN = "to have offsets set, restore the topic under another name (old:new)"
COMPACTED = Unsure(
    f"Kafka may have compacted the restored records since; {AGAIN}", "restored-records-compacted"
)
EXPIRED = Unsure(
    f"a lifecycle rule of the store has deleted records since the restore; {AGAIN}", "restore-records-expired"
)
NEWER = Unsure("a restore of a newer snapshot wrote to this partition", "restore-superseded")
FORGOTTEN = Unsure(
    f"the target has deleted the progress of the restore (offsets.retention.minutes); {AGAIN}",
    "restore-progress-expired",
)
OPEN = Unsure("another producer has an open transaction in this partition", "transaction-open")
CHANGED = Unsure(
    "restored records are missing in this partition; find the program that deleted them",
    "restored-records-missing",
)


@dataclass(frozen=True)
class PositionQuestion:
    lane: RestoreLane
    offsets: tuple[int, ...]  # in the store
    progress: RestoreProgress


@dataclass(frozen=True, kw_only=True)
class QuestionShare:
    """The offsets that one task translates."""

    end: End
    store: str
    window: Window  # of timestamps
    questions: tuple[PositionQuestion, ...]


@dataclass(frozen=True)
class Answer:
    """The new offset, or why it is unknown. `note`: why it does not refer to the very next record."""

    new: int | Unsure
    note: str = ""


Answers = dict[tuple[TopicPartition, int], Answer]  # by partition at the target and offset in the store


def translate(
    job: Job,
    asked: Mapping[TopicPartition, Set[int]],
    written: Mapping[TopicPartition, Written],
    workers: Workers,
) -> Answers:
    """Translate offsets of the store to those of the same records, by partition at the target."""
    answers: Answers = {}
    questions = []
    elsewhere: dict[tuple[TopicPartition, int], int] = {}  # offsets whose next record is in a later part
    for lane in job.plan.lanes:
        for part, progress, reason, offsets_ in _parts(job, lane, asked.get(lane.target, ()), written):
            starts = {offset: max(offset, part.start) for offset in offsets_}
            if reason or progress is None:
                answers |= {(lane.target, offset): Answer(reason or FORGOTTEN) for offset in starts}
            else:
                questions.append(PositionQuestion(part, tuple(sorted({*starts.values()})), progress))
                elsewhere |= {(lane.target, offset): now for offset, now in starts.items() if offset != now}
    order = job.order
    tasks = [
        QuestionShare(
            end=order.tasks_end, store=order.store, window=job.plan.window, questions=tuple(some_questions)
        )
        for some_questions in in_lists(questions, LANES)
    ]
    size = sum(question.lane.unpacked_bytes for question in questions) // QUESTIONED
    work = Work(Verb.VERIFY, size, len(tasks))
    for task_answers in workers.parallel(work)(answer, tasks):
        answers |= task_answers
    return answers | {position: answers[position[0], now] for position, now in elsewhere.items()}


# The part of a lane that one restore wrote, its progress, why that is unknown, and the offsets to translate.
_Part = tuple[RestoreLane, RestoreProgress | None, Unsure | None, list[int]]


def _parts(
    job: Job, lane: RestoreLane, asked: Iterable[int], written: Mapping[TopicPartition, Written]
) -> Iterator[_Part]:
    """Yield the parts of earlier restores, and the lane, each with the offsets whose next record it has."""
    left = set(asked)
    for part in job.earlier.get(lane.target, ()):
        last = max((segment.last_offset or 0 for segment in part.segments), default=-1)
        mine = {offset for offset in left if offset < part.stop and offset <= last}
        if not mine:
            continue
        left -= mine
        reason = FORGOTTEN if part.progress is None else COMPACTED if part.compacted else None
        if any(gap.start < part.stop for gap in lane.expired):
            reason = EXPIRED
        of_part = replace(lane, start=part.start, stop=part.stop, segments=part.segments)
        yield of_part, None if reason else part.progress, reason, sorted(mine)
    if left:
        reason = NEWER if lane.start > lane.stop else _unknown_reason(job, lane, written)
        yield lane, None if reason else written[lane.target].progress, reason, sorted(left)


def _unknown_reason(job: Job, lane: RestoreLane, written: Mapping[TopicPartition, Written]) -> Unsure | None:
    """Return why restored records of a lane cannot be found by counting; None if they can."""
    if lane.target not in written:
        return FORGOTTEN
    ended = lane.topic in job.ended
    if ended and job.known[lane.topic].expired != job.plan.expired(lane.topic):
        return EXPIRED
    compacted = ended and "compact" in job.known[lane.topic].holds[settings.POLICY]
    return COMPACTED if compacted else None


def answer(share: QuestionShare) -> Answers:
    """Translate the offsets of one task, independently of each other."""
    objects = open_store(share.store)
    share_answers: Answers = {}
    with connect(share.end, CLIENT) as client:
        partitions = [question.lane.target for question in share.questions]
        ends, open_ = offsets.settled(client, partitions)
        for question in share.questions:
            partition = question.lane.target
            try:
                if partition in open_:
                    raise _OffsetUnknown(OPEN)
                answers = dict(_answers(client, objects, question, share.window, ends[partition]))
            except _OffsetUnknown as error:
                answers = {offset: Answer(error.why) for offset in question.offsets}
            share_answers |= {(partition, offset): answer for offset, answer in answers.items()}
    return share_answers


class _OffsetUnknown(Exception):
    """The new offsets cannot be determined."""

    def __init__(self, reason: Unsure) -> None:
        super().__init__(reason.why)
        self.why = reason


def _answers(
    client: Client, objects: Objects, question: PositionQuestion, window: Window, end: int
) -> Iterator[tuple[int, Answer]]:
    lane, progress = question.lane, question.progress
    source = _LaneSource(objects, lane.segments, window, progress.unopened)
    ranks = {offset: source.rank(offset) for offset in question.offsets}
    target_ranks = {min(rank, progress.records - 1) for rank in ranks.values()} if progress.records else set()
    target = _Target(client, lane, progress, end).offsets(target_ranks)
    for offset, rank in ranks.items():
        if rank < progress.records:
            new, kept, continues = target[rank], source.offset(rank), "at the next record inside it"
        else:
            after = target[progress.records - 1] + 1 if progress.records else progress.start
            new, kept, continues = _past_markers(client, lane, after, end), lane.stop, "after its last record"
        note = ""
        if source.lost(offset, kept) or _skipped(lane, offset, kept):
            note = f"its next records are outside the time window, so it continues {continues}"
        elif any(gap.start <= offset < gap.stop for gap in lane.expired):
            note = "its next records have expired in the store, so it continues after them"
        elif source.unopened(offset):
            note = "its next records were skipped, so it continues after them"
        yield offset, Answer(new, note)


def _skipped(lane: RestoreLane, old: int, kept: int) -> bool:
    """Return whether a segment outside the time window may have records in [`old`, `kept`)."""
    return any((s.last_offset or 0) >= old and (s.first_offset or 0) < kept for s in lane.skipped)


def _past_markers(client: Client, lane: RestoreLane, after: int, end: int) -> int:
    """Return the end of the log if no records follow `after`, so that a group there has no lag."""
    if end - after <= 1:  # at most a marker: each transaction of a restore ends with one
        return end
    pieces = fetch.read(client, Range(*lane.target, after, end))
    return next((batch.base_offset for piece in pieces for batch in piece.batches), end)


class _LaneSource:
    """The restored records of a lane in the store, by their offsets and by their ranks."""

    def __init__(
        self,
        objects: Objects,
        every: Sequence[Segment],
        window: Window,
        unopened: Sequence[UnopenedBatch] = (),
    ) -> None:
        self._objects = objects
        self._segments = every
        self._window = window
        self._unopened = unopened
        self._whole = not window.timed
        self._counted = unopened if self._whole else ()  # counted by the indexes of the segments
        self._described = lru_cache(SEGMENTS)(self._describe)

    def unopened(self, offset: int) -> UnopenedBatch | None:
        """Return the skipped batch that contains an offset; None if there is none."""
        return next((batch for batch in self._unopened if batch.first <= offset <= batch.last), None)

    def rank(self, offset: int) -> int:
        """Return the number of restored records before an offset."""
        if around := self.unopened(offset):
            offset = around.last + 1
        before = -sum(batch.records for batch in self._counted if batch.last < offset)
        for segment in self._segments:
            if segment.start >= offset:
                break
            if self._whole and segment.stop <= offset:
                before += segment.records
                continue
            described = self._described(segment)
            rank = described.index.rank(offset)
            before += rank.rank(described.batch(rank.place), offset) if isinstance(rank, Inside) else rank
        return before

    def offset(self, rank: int) -> int:
        """Return the offset of the record with `rank` records before it."""
        rank += sum(batch.records for batch in self._counted if self.rank(batch.first) <= rank)
        for segment in self._segments:
            described = None if self._whole and segment.records <= rank else self._described(segment)
            records = described.index.records if described else segment.records
            if described and rank < records:
                position = described.index.offset(rank)
                return (
                    position.offset(described.batch(position.place), rank)
                    if isinstance(position, Inside)
                    else position
                )
            rank -= records
        raise IndexError(f"no record has rank {rank}")

    def lost(self, old: int, kept: int) -> bool:
        """Return whether the time window excludes records in [`old`, `kept`)."""
        if self._whole or old >= kept:
            return False
        return self._every.rank(kept) > self._every.rank(old)

    @cached_property
    def _every(self) -> "_LaneSource":
        return _LaneSource(self._objects, self._segments, Window())

    def _describe(self, segment: Segment) -> "_Described":
        if self._whole:
            return _Described(
                index=segments.read_index(self._objects, segment), objects=self._objects, segment=segment
            )
        left_out = frozenset(batch.first for batch in self._unopened)
        kept = tuple(_kept(self._objects, segment, self._window, left_out))
        return _Described(index=Index.of(kept), objects=self._objects, segment=segment, kept=kept)


@dataclass(frozen=True, kw_only=True)
class _Described:
    index: Index
    objects: Objects
    segment: Segment
    kept: Sequence[Batch] = field(default=())

    def batch(self, batch_number: int) -> Batch:
        if self.kept:
            return self.kept[batch_number]
        stored = segments.read(self.objects, self.segment)
        batches = segments.batches(self.segment, stored, check_crc=False)
        return next(batch for number, batch in enumerate(batches) if number == batch_number)


def _kept(objects: Objects, segment: Segment, window: Window, left_out: Set[int]) -> Iterator[Batch]:
    """Yield a segment's batches as they were restored. `left_out`: first offsets of the skipped batches."""
    stored = segments.read(objects, segment)
    for batch in segments.batches(segment, stored, check_crc=False):
        if batch.base_offset not in left_out and (kept := cut(batch, window)):
            yield kept


class _Target:
    """The restored records of a lane at the target."""

    def __init__(self, client: Client, lane: RestoreLane, progress: RestoreProgress, end: int) -> None:
        self._client = client
        self._lane = lane
        self._done = progress
        self._end = end

    def offsets(self, ranks: Iterable[int]) -> dict[int, int]:
        """Return the offsets of records by their ranks, the numbers of restored records before them."""
        every = sorted(ranks)
        total = self._done.records
        low = [rank for rank in every if 2 * rank < total]
        high = every[len(low) :]
        offset_by_rank: dict[int, int] = {}
        if low:
            index = self._first(low[-1] + 1)
            offset_by_rank |= {rank: self._offset(index, rank) for rank in low}
        if high:
            index = self._last(total - high[0])
            offset_by_rank |= {rank: self._offset(index, rank - total + index.records) for rank in high}
        return offset_by_rank

    def _first(self, records: int) -> Index:
        parts: list[Index] = []
        for part in self._read(self._done.start):
            parts.append(part)
            records -= part.records
            if records <= 0:
                return Index.joined(parts)
        raise self._changed()

    def _last(self, records: int) -> Index:
        reach = records + MARGIN
        while True:
            start = max(self._done.start, self._end - reach)
            index = Index.joined(self._read(start))
            if index.records >= records:
                return index
            if start == self._done.start:
                raise self._changed()
            reach *= 2

    def _read(self, start: int) -> Iterator[Index]:
        if start == self._end:
            return
        for piece in fetch.read(self._client, Range(*self._lane.target, start, self._end)):
            if piece.lost:
                raise self._changed()
            yield Index.of([batch for batch in piece.batches if batch.producer_id in self._done.producers])

    def _offset(self, index: Index, rank: int) -> int:
        offset = index.offset(rank)
        if isinstance(offset, Inside):
            raise self._changed()
        return offset

    def _changed(self) -> _OffsetUnknown:
        return _OffsetUnknown(CHANGED)
