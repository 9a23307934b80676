"""One task of dedup: raw topics in, clean topics and ledger out, transaction by transaction.

A transaction holds the clean topics' records, the ledger's entries and the raw topics' read position, so that
a kill at any moment leaves all three as they were.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from kafka.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    UnknownError,
)

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Refused
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.batches.batch import Damaged, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready, RecordTooLarge, ready
from aqueduct.kafka.batches.records import Record, RecordPlaces, Records, build
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.follow import NO_EPOCH, Follower
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.kafka.requests import in_lists
from aqueduct.link.dedup import raw_position
from aqueduct.link.dedup.raw_position import RawLog
from aqueduct.link.dedup.share import Counted, DedupCounts, DedupShare, loads, parse
from aqueduct.link.dedup.sorting import BucketState, Place, Sorter, check_number, tell
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.arrivals import Bucket, New, Unsound
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.wire.frame import Frame

POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 60  # after which the coordinator aborts the transaction of one that is gone
LEDGER_BATCH_BYTES = 900_000

# A broker's refusal of a batch for its records; and the errors for one that it can't read, or for a fault of
# the broker itself.
_REFUSALS = InvalidRecordError, InvalidTimestampError
_DOUBTFUL = CorruptRecordError, UnknownError


def dedup(share: DedupShare) -> DedupCounts:
    """Dedup until the time is over, or all is done; tell what this run did, in all attempts of the task.

    Fenced if another dedup took over a bucket.
    """
    with connect(share.end, share.group) as client, connect(share.end, share.group) as following:
        deadline: float | None = None
        producers = {number: producer_of(client, share.group, number) for number in share.buckets}
        unsound: dict[Place, str] = {}  # why frames can't be written, by where they are

        def attempt(progress: Callable[[], None]) -> DedupCounts:
            nonlocal deadline
            while True:
                try:
                    run = _Run(client, following, share, producers, unsound)
                    # The time begins with the reading: a slow start would leave none, in each round.
                    if deadline is None and share.seconds is not None:
                        deadline = time.monotonic() + share.seconds
                    return run.to_end(deadline, progress)
                except _Quarantine as found:  # again from what is committed, without it
                    unsound[found.place] = str(found)
                except KafkaError as error:
                    raw_position, reason = _refused(share, producers.values(), unsound, error)
                    unsound[raw_position] = reason

        return until_committed(client, attempt)


def check_there(
    end: End,
    topics: Mapping[str, Topic],
    raw_topics: Iterable[str],
    gap_topic: str,
    named: Iterable[str] = (),
) -> None:
    """Check the topics; Refused if one is missing, or raw topics and gap topic differ in partitions."""
    raw_topics = list(raw_topics)
    for name in [*raw_topics, gap_topic, *named]:
        if name not in topics:
            raise Refused("topic-unknown", f"The {end} has no topic {name}.")
    buckets = len(topics[gap_topic].partitions)
    for name in raw_topics:
        if (partitions := len(topics[name].partitions)) != buckets:
            raise Refused(
                "link-partitions-unequal",
                f"Raw topic {name} has {count(partitions, 'partition')} and gap topic {gap_topic} has "
                f"{buckets}. Both must have the same number of partitions, and this number must not change.",
            )


def producer_of(client: Client, group: str, bucket: int) -> TransactionalProducer:
    """Make the only producer that may write for a bucket; `begin` fences all others."""
    return TransactionalProducer(client, f"{group}-{bucket}", TIMEOUT_SECONDS, keep_times=True)


class _Quarantine(Exception):
    """A frame that can't be written, found when others had been."""

    def __init__(self, raw_position: Place, reason: str) -> None:
        super().__init__(reason)
        self.place = raw_position


@dataclass(frozen=True, kw_only=True)
class _FrameBatch(Ready):
    """A batch of a frame, which knows where that is."""

    raw_position: Place


def _refused(
    share: DedupShare,
    producers: Iterable[TransactionalProducer],
    unsound: Mapping[Place, str],
    error: KafkaError,
) -> tuple[Place, str]:
    """Return which frame is not to be written, and why; raise an error of a producer that is no frame's."""
    rejected = (producer.rejected_batch for producer in producers)
    batch = next((batch for batch in rejected if isinstance(batch, _FrameBatch)), None)
    if batch is None or batch.raw_position in unsound:  # of an attempt before
        raise error
    if not (isinstance(error, _REFUSALS) or (isinstance(error, _DOUBTFUL) and not _is_readable(batch))):
        raise error
    reason = (
        f"the {share.end} rejected the records ({str(error).rstrip('.')}). Set the limits of the source "
        "topic for the clean topic, and send the missing offsets again"
    )
    return batch.raw_position, reason


def _is_readable(batch: Ready) -> bool:
    try:
        RecordPlaces.of(list(walk(batch.data)))
    except (Damaged, ValueError):
        return False
    return True


def send_new(
    share: DedupShare, producer: TransactionalProducer, new: New, counts: DedupCounts, raw_position: Place
) -> None:
    """Write what is new of a frame; Unsound if it can't be read, or the clean topic allows no such record."""
    clean = share.clean[new.topic_partition.topic]
    batches = ready(new.batches, max_bytes=clean.max_bytes)
    while True:
        try:
            batch = next(batches, None)
        except (Damaged, RecordTooLarge) as error:
            raise Unsound(new.frame, str(error)) from None
        if batch is None:
            return
        framed = _FrameBatch(
            data=batch.data, count=batch.count, next_offset=batch.next_offset, raw_position=raw_position
        )
        producer.send(clean.topic, new.topic_partition.partition, framed)
        counts.records += batch.count
        counts.bytes += len(batch.data)


class _Run:
    """One attempt of a task, from what is committed to the next error, or to the end."""

    def __init__(
        self,
        client: Client,
        following: Client,
        share: DedupShare,
        producers: Mapping[int, TransactionalProducer],
        unsound: dict[Place, str],
    ) -> None:
        self._client = client
        self._share = share
        self._producers = producers
        self._unsound = unsound
        for producer in producers.values():
            producer.begin()  # what a predecessor left open is aborted, and it is fenced
        partitions = [TopicPartition(topic, number) for topic in share.raw_topics for number in share.buckets]
        starts = offsets.log_starts(client, partitions)
        progress = groups.progress(client, share.group, partitions)
        committed = {partition: offset for partition, (offset, _) in progress.items()}
        rewound = self._rewound(progress, starts)
        # Where retention outran us, the ledger will tell what is missing.
        self._follower = Follower(
            following,
            {partition: max(starts[partition], committed.get(partition, 0)) for partition in partitions}
            | rewound,
            self._note_cut,
            {
                partition: counted.epoch
                for partition, (_, metadata) in progress.items()
                if partition not in rewound and (counted := parse(metadata)) and counted.epoch != NO_EPOCH
            },
        )
        self._cut: dict[TopicPartition, tuple[int, int]] = {}  # since the last poll: position, new end
        for raw, offset in [*unsound]:
            if offset < self._follower.positions[raw]:  # it is not read again
                del unsound[raw, offset]
        self._buckets = {number: self._bucket(number, progress) for number in share.buckets}
        self._sorter = Sorter(share, self._buckets, unsound)
        self._ends = offsets.ends(client, partitions)
        # From where on, in a partition that came last, nothing is sorted yet.
        self._unsorted: dict[TopicPartition, int] = {}
        self._progress: Callable[[], None] = lambda: None
        for partition, start in rewound.items():
            self._rewind(partition, committed[partition], start)

    def _rewound(
        self, progress: groups.CommittedOffsets, starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where to continue in the partitions whose position is of an earlier topic or log."""
        counted = {partition: parse(metadata) for partition, (_, metadata) in progress.items()}
        ends = offsets.ends(self._client, progress, "read_uncommitted")
        epochs = {
            partition: of.epoch
            for partition, of in counted.items()
            if of and of.epoch != NO_EPOCH and of.topic_id == str(self._share.raw_topics[partition.topic])
        }
        epoch_ends = offsets.ends_of_epochs(self._client, epochs)
        logs = {
            partition: RawLog(
                topic_id=self._share.raw_topics[partition.topic],
                start=starts[partition],
                end=ends[partition],
                epoch_end=epoch_ends.get(partition),
            )
            for partition in progress
        }
        moves = {
            partition: raw_position.outdated(offset, counted[partition], logs[partition])
            for partition, (offset, _) in progress.items()
        }
        return {partition: start for partition, start in moves.items() if start is not None}

    def _note_cut(self, partition: TopicPartition, position: int, end: int) -> None:
        self._cut[partition] = position, end

    def _rewind(self, partition: TopicPartition, position: int, start: int) -> None:
        """Count and commit a partition from `start` on, where it is read again."""
        bucket = self._buckets[partition.partition]
        bucket.committed.pop(partition, None)
        bucket.counted[partition] = min(start, bucket.counted.get(partition, 0))
        bucket.done.rewound += 1
        bucket.uncommitted = True
        tell(bucket.done, raw_position.sentence(partition, position, start))

    def _follow_cut_logs(self) -> None:
        """Follow logs again that were cut while they were followed, from their new ends on."""
        for partition, (position, end) in self._cut.items():
            start = max(0, end)
            self._follower.follow({partition: start})
            for raw, offset in [*self._unsound]:
                if raw == partition and offset >= start:  # of the log as it was
                    del self._unsound[raw, offset]
            self._rewind(partition, position, start)
        self._cut.clear()

    def _bucket(self, number: int, progress: groups.CommittedOffsets) -> BucketState:
        """Return a bucket as it was committed."""
        bucket = BucketState(ledger=Bucket(self._ledger(number)), committed={}, counted={})
        for partition, (offset, metadata) in progress.items():
            if partition.partition != number:
                continue
            bucket.committed[partition] = offset
            if counted := loads(metadata, self._share.raw_topics[partition.topic]):
                bucket.counted[partition] = counted.stop
                if counted.run == self._share.run:
                    bucket.done = counted.done
        return bucket

    def _ledger(self, number: int) -> dict[TopicPartition, LedgerPartition]:
        ledger = gap_topic.part(self._client, self._share.gap_topic, [number])
        for topic, partition in ledger:
            check_number(self._share, topic, partition, number, self._share.gap_topic)
        return ledger

    def to_end(self, deadline: float | None, progress: Callable[[], None]) -> DedupCounts:
        self._progress = progress
        while self.step(deadline):
            progress()
        return self.counts()

    def step(self, deadline: float | None) -> bool:
        """Poll once, and commit the transactions; return whether there may be more to do."""
        now = time.monotonic()
        wait = POLL_SECONDS if deadline is None else max(0.0, min(POLL_SECONDS, deadline - now))
        polled = self._follower.poll(wait)
        self._follow_cut_logs()
        self._unsorted = {news.topic_partition: news.start for news in polled}
        for news in polled:
            self._sorter.sort(news.topic_partition, news.batches, self._make_room)
            self._unsorted.pop(news.topic_partition, None)
        self._write_all()
        if deadline is not None:
            return time.monotonic() < deadline
        return not self._caught_up()

    def _caught_up(self) -> bool:
        """Return whether everything that was there when the run began is done."""
        positions = self._follower.positions
        return all(positions[partition] >= end for partition, end in self._ends.items()) and not any(
            bucket.announced for bucket in self._buckets.values()
        )

    def counts(self) -> DedupCounts:
        """Return what was done, and what is left to do."""
        positions = self._follower.positions
        ends = offsets.ends(self._client, positions)
        counts = DedupCounts(
            lag=sum(max(0, ends[partition] - position) for partition, position in positions.items())
        )
        for bucket in self._buckets.values():
            missing, lost = bucket.ledger.missing()
            counts.add(replace(bucket.done, missing=missing, lost=lost, crossed=tuple(bucket.topics)))
        return counts

    def _make_room(self, raw: TopicPartition, unsorted: int) -> None:
        """Commit what is sorted: what comes from this offset on would take too much memory beside it."""
        self._unsorted[raw] = unsorted
        self._write_all()
        self._progress()

    def _write_all(self) -> None:
        """Write and commit what is sorted."""
        # One bucket's brokers write while the next one's batches are made.
        for commit in [self._write(number, bucket) for number, bucket in self._buckets.items()]:
            commit()

    def _write(self, number: int, bucket: BucketState) -> Callable[[], None]:
        """Write what came for one bucket into one transaction, and return the function that commits it."""
        self._write_frames(number, bucket)
        changed = self._write_ledger(number, bucket)
        return partial(self._commit, number, bucket, self._reached(number, bucket), changed=changed)

    def _write_frames(self, number: int, bucket: BucketState) -> None:
        """Write the records of the frames that came: those that wait from before, then the new ones."""
        bucket.done.frames += len(bucket.frames)
        self._write_records(number, bucket, bucket.again)
        repeated = bucket.ledger.repeated
        self._write_records(number, bucket, bucket.frames)
        bucket.done.repeated += bucket.ledger.repeated - repeated
        bucket.places.clear()
        bucket.waiting_bytes = 0

    def _write_records(self, number: int, bucket: BucketState, frames: list[Frame]) -> None:
        try:
            for new in bucket.ledger.arrive(frames):
                raw_position = bucket.places[id(new.frame)]
                send_new(self._share, self._producers[number], new, bucket.done, raw_position)
        except Unsound as error:
            raise _Quarantine(bucket.places[id(error.frame)], str(error).rstrip(".")) from None
        frames.clear()

    def _write_ledger(self, number: int, bucket: BucketState) -> bool:
        """Write the entries of the ledger that changed; return whether one did."""
        now = timestamps.now()
        for announcement in bucket.matured(now - int(self._share.grace_seconds * 1000)):
            bucket.ledger.announce(announcement)
        changes = bucket.ledger.changes(now)
        for batch in entries(changes, now):
            self._producers[number].send(self._share.gap_topic, number, batch)
        return bool(changes)

    def _commit(
        self, number: int, bucket: BucketState, reached: dict[TopicPartition, int], *, changed: bool
    ) -> None:
        """Commit the bucket's transaction with its position, unless it has nothing new."""
        if not (changed or bucket.uncommitted or reached != bucket.committed):
            return
        bucket.done.committed_time = time.time()
        positions = {
            partition: (offset, self._counted(partition, bucket)) for partition, offset in reached.items()
        }
        producer = self._producers[number]
        producer.commit_offsets(self._share.group, positions)
        producer.commit()
        producer.begin()
        bucket.committed, bucket.uncommitted = reached, False

    def _counted(self, raw: TopicPartition, bucket: BucketState) -> str:
        topic_id = str(self._share.raw_topics[raw.topic])
        return Counted(
            topic_id=topic_id,
            stop=bucket.counted.get(raw, 0),
            run=self._share.run,
            done=bucket.done,
            epoch=self._follower.epochs.get(raw, NO_EPOCH),
        ).dumps()

    def _reached(self, number: int, bucket: BucketState) -> dict[TopicPartition, int]:
        """Return a position that leaves out no announcement that still has its time to wait."""
        reached = {
            partition: min(position, self._unsorted.get(partition, position))
            for partition, position in self._follower.positions.items()
            if partition.partition == number
        }
        for pending in chain.from_iterable(bucket.announced.values()):
            reached[pending.raw] = min(reached[pending.raw], pending.offset)
        return {
            partition: max(position, bucket.committed.get(partition, 0))
            for partition, position in reached.items()
        }


def entries(changes: Mapping[str, str | None], now: int) -> Iterator[Ready]:
    """Yield the ledger's records as batches that a broker takes."""
    bodies = (body(key.encode(), None if value is None else value.encode()) for key, value in changes.items())
    for some in in_lists(bodies, LEDGER_BATCH_BYTES, len):
        rows = [Record(now, number, entry_body) for number, entry_body in enumerate(some)]
        yield Ready(build(Records.listed(rows), codec="zstd"), len(rows), 0)
