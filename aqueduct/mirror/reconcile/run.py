"""Compares the two ends of a flow (see aqueduct/mirror/reconcile).

Everything is read once, in ranges, to digests. The lanes for which the digests leave a question are read a
second time, each by one task, with its ends side by side.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aqueduct.common.offset_ranges import Range, shares, split
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Failed
from aqueduct.mirror.reconcile import reader, store_reader
from aqueduct.mirror.reconcile.difference import Stream, out_of_order, unmatched
from aqueduct.mirror.reconcile.digest import RangeDigest, RecordColumns, RecordHeader
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedLane, ComparedTopics, lanes, topic_partitions
from aqueduct.mirror.reconcile.reader import UnreadableBatch
from aqueduct.mirror.reconcile.stored import ComparedEnd, StoredEnd, narrowed
from aqueduct.mirror.reconcile.verdict import Difference, Verdict
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import check_not_removed
from aqueduct.work import sampling
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.progress import Size, note
from aqueduct.work.runner import Runner
from aqueduct.work.workers import Workers

TASK_OFFSETS = 1_000_000  # a task of the first reading: some seconds of work


def reconcile(flow: ComparedFlow, topics: ComparedTopics, workers: Workers) -> list[Verdict]:
    """Return a verdict on every lane."""
    return compare(flow, plan(flow, topics), workers)


def compare(flow: ComparedFlow, every: Sequence[ComparedLane], workers: Workers) -> list[Verdict]:
    """Return a verdict on each of these lanes."""
    offsets = sum(len(each) for lane in every for each in lane.ranges if each)
    note(f"Reading {count(offsets, 'offset')} of {count(len(every), 'partition')} at both ends.")
    run = workers.runner(_work(flow, every, workers))
    try:
        verdicts = first_reading(flow, every, run)
        unclear = sum(verdict.needs_second_reading for verdict in verdicts)
        if unclear:
            note(f"Reading {count(unclear, 'partition')} again to find the differences.")
            verdicts = second_reading(flow, verdicts, run)
    except Failed:
        for end in flow.ends:
            if isinstance(end, StoredEnd):
                check_not_removed(open_store(end.url), end.snapshot)
        raise
    return verdicts


def _work(flow: ComparedFlow, every: Sequence[ComparedLane], workers: Workers) -> Work:
    """Return the work of reading all ends."""
    size = 0
    for number, end in enumerate(flow.ends):
        ranges_ = [part for lane in every if (part := lane.ranges[number])]
        if isinstance(end, StoredEnd):
            size += sum(end.unpacked_bytes(part) for part in ranges_)
        else:
            size += sampling.reading(Verb.RECONCILE, end, ranges_, workers).size
    return Work(Verb.RECONCILE, size)


def plan(flow: ComparedFlow, topics: ComparedTopics) -> list[ComparedLane]:
    """List the lanes to compare. The target is asked first: what comes meanwhile is missing, not extra."""
    partitions = [_partitions(end) for end in flow.ends]
    names = topics.choose(partitions[1:])
    chosen = [list(names.values()), *[list(names)] * len(flow.sources)]
    partitions = [
        counts if isinstance(end, StoredEnd) else reader.known_partitions(end, mine, counts)
        for end, mine, counts in zip(flow.ends, chosen, partitions, strict=True)
    ]
    asked_by_end = zip(flow.ends, topic_partitions(names, partitions), strict=True)
    return list(lanes(names, [ranges(end, asked) for end, asked in asked_by_end]))


# What is the same of a cluster and a store.


def _partitions(end: ComparedEnd) -> Mapping[str, int]:
    return end.counts() if isinstance(end, StoredEnd) else reader.partitions(end)


def ranges(end: ComparedEnd, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Range]:
    """Return the offsets of each partition: those that a cluster has now, or that a snapshot covers."""
    return end.ranges(asked) if isinstance(end, StoredEnd) else reader.ranges(end, asked)


def _split(end: ComparedEnd, whole: Range) -> Iterable[Range]:
    return end.split(whole, TASK_OFFSETS) if isinstance(end, StoredEnd) else split(whole, TASK_OFFSETS)


def read(
    end: ComparedEnd, parts: Sequence[Range], header: RecordHeader | None = None
) -> Iterator[tuple[Range, RecordColumns | UnreadableBatch]]:
    """Yield the records of ranges of different partitions: each range's in order."""
    if isinstance(end, StoredEnd):
        yield from store_reader.read(end, parts, header)
    else:
        for part, messages in reader.read(end, parts):
            if isinstance(messages, UnreadableBatch):
                yield part, messages
            else:
                yield part, RecordColumns.of(messages, header)


@dataclass(frozen=True, kw_only=True)
class ReconcileShare:
    """The work of one task of the first reading: ranges of an end, each of another partition."""

    number: int
    end: ComparedEnd
    ranges: tuple[Range, ...]
    header: RecordHeader | None


OFFSETS: Size[ReconcileShare] = Size("offsets", lambda share: sum(map(len, share.ranges)))


def first_reading(flow: ComparedFlow, every: Sequence[ComparedLane], run: Runner) -> list[Verdict]:
    tasks = []
    for number, end in enumerate(flow.ends):
        whole = (lane.ranges[number] for lane in every)
        parts = (part for lane_range in whole if lane_range for part in _split(end, lane_range))
        tasks += [
            ReconcileShare(number=number, end=narrowed(end, share), ranges=share, header=flow.header)
            for share in shares(parts, TASK_OFFSETS)
        ]
    digests: defaultdict[tuple[int, str, int], RangeDigest] = defaultdict(RangeDigest)
    for results in run(read_share, tasks, OFFSETS):
        for number, part, reading in results:
            digests[number, part.topic, part.partition] += reading  # in the order of their offsets
    return [
        Verdict(
            lane,
            tuple(
                digests[number, part.topic, part.partition] if part else RangeDigest()
                for number, part in enumerate(lane.ranges)
            ),
        )
        for lane in every
    ]


def read_share(share: ReconcileShare) -> list[tuple[int, Range, RangeDigest]]:
    readings = dict.fromkeys(share.ranges, RangeDigest())
    for part, records in read(share.end, share.ranges, share.header):
        if isinstance(records, UnreadableBatch):
            readings[part] += RangeDigest(unreadable=records.reason)
        else:
            readings[part] += RangeDigest.of(records)
    return [(share.number, part, reading) for part, reading in readings.items()]


@dataclass(frozen=True, kw_only=True)
class SecondReading:
    """The work of one task of the second reading: a lane, and what is known of it already."""

    flow: ComparedFlow
    lane: ComparedLane
    timed: bool
    same_records: bool


def second_reading(flow: ComparedFlow, verdicts: Sequence[Verdict], run: Runner) -> list[Verdict]:
    readings = [
        SecondReading(
            flow=_narrowed(flow, verdict.lane),
            lane=verdict.lane,
            timed=verdict.timed,
            same_records=verdict.same_records,
        )
        for verdict in verdicts
        if verdict.needs_second_reading
    ]
    answers = iter(run(look_closer, readings))
    return [
        replace(verdict, difference=next(answers)) if verdict.needs_second_reading else verdict
        for verdict in verdicts
    ]


def _narrowed(flow: ComparedFlow, lane: ComparedLane) -> ComparedFlow:
    target, *sources = (
        narrowed(end, [part] if part else []) for end, part in zip(flow.ends, lane.ranges, strict=True)
    )
    return replace(flow, target=target, sources=tuple(sources))


def look_closer(reading: SecondReading) -> Difference:
    flow, lane = reading.flow, reading.lane
    streams = [
        _stream(end, part, flow.header, reading.timed)
        for end, part in zip(flow.ends, lane.ranges, strict=True)
    ]
    if reading.same_records:
        return Difference(out_of_order=out_of_order(streams))
    return Difference(unmatched=tuple(unmatched(streams)))


def _stream(end: ComparedEnd, part: Range | None, header: RecordHeader | None, timed: bool) -> Stream:
    for _, records in read(end, [part], header) if part else ():
        if isinstance(records, UnreadableBatch):
            raise Failed("cluster-request-failed", f"The second reading failed: {records.reason}.")
        yield records.fingerprints(timed), records.offsets
