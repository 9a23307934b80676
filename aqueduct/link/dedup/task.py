"""One task of dedup: raw topics in, clean topics and ledger out, transaction by transaction.

A transaction holds the clean topics' records, the ledger's entries and the raw topics' read position, so that
a kill at any moment leaves all three as they were.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import UUID

from aqueduct import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.batches.batch import Damaged
from aqueduct.kafka.batches.bodies import body, key_and_value
from aqueduct.kafka.batches.produce import Ready, ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.batches.records import records as records_of
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.follow import Follower, News
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.kafka.requests import METADATA_BYTES, in_lists
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.arrivals import Bucket, New, Unsound
from aqueduct.link.ledger.arrivals import bucket as bucket_of
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame
from aqueduct.names import TopicPartition
from aqueduct.strict_json import ADDED
from aqueduct.wording import count

POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 60  # after which the coordinator aborts the transaction of one that is gone
LEDGER_BATCH_BYTES = 900_000
OVERTAKEN_SECONDS = 60  # by which, at most, an announcement comes later than what was sent after it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Clean:
    """A clean topic."""

    topic: str
    partitions: int
    max_bytes: int  # its max.message.bytes


@dataclass(frozen=True)
class DedupShare:
    """The share of one task."""

    end: End
    group: str  # which the raw topics' position is committed as
    run: str
    raw_topics: Mapping[str, UUID | None]  # with their ids
    gap_topic: str
    buckets: tuple[int, ...]
    partitions: int  # of each raw topic and of the gap topic, so all buckets
    clean: Mapping[str, Clean]  # by the source topic's name
    every_topic: bool  # one that is not in `clean` is a fault; else it is left out
    grace_seconds: float
    seconds: float | None  # how long; None: until all is read and every announcement had its grace
    # Clean topics that were deleted since the service began, by the source topic's name.
    gone: Mapping[str, str] = field(default_factory=dict)

    def why_not_writable(self, topic: str, partition: int) -> str:
        """Return why a source partition has no clean partition; empty: it has one, or is not wanted."""
        clean = self.clean.get(topic)
        if clean is None and topic in self.gone:
            return (
                f"the {self.end} has no topic {self.gone[topic]} any more: create it with as many partitions "
                "as at the source, or remove it from --topics"
            )
        if clean is None and self.every_topic:
            return (
                f"the {self.end} has no topic {topic}: create it with as many partitions as at the source, "
                "or name the topics that are wanted with --topics"
            )
        if clean and partition >= clean.partitions:
            return f"{clean.topic} of the {self.end} has only {clean.partitions} partitions: add some"
        return ""


@dataclass
class DedupCounts:
    """The counts of one run of a task."""

    records: int = 0
    bytes: int = 0
    frames: int = 0
    repeated: int = 0  # offsets that had arrived before
    malformed: int = 0  # records of the raw topics that aren't frames
    quarantined: int = field(default=0, metadata=ADDED)  # frames that can't be written; they are missing
    contradicted: int = field(default=0, metadata=ADDED)  # announcements of a log that ends before what came
    missing: int = 0  # offsets that the ledger lists at the end
    lost: int = 0  # of these others, those that can't be sent again
    lag: int = 0  # raw records that were not read at the end
    committed_time: float = 0.0  # of the last transaction, seconds since 1970
    left_out: dict[str, int] = field(default_factory=dict)  # frames, by source topics that are not wanted
    silent: tuple[str, ...] = ()  # sentences on senders that were not heard of when the run began
    # Source topics of which something has crossed, by the ledger and what waits for its grace at the end.
    crossed: tuple[str, ...] = field(default=(), metadata=ADDED)
    # Sentences on what was quarantined or contradicted, the first; they are not kept with the position.
    told: tuple[str, ...] = field(default=(), metadata=ADDED)

    def add(self, other: "DedupCounts") -> None:
        self.records += other.records
        self.bytes += other.bytes
        self.frames += other.frames
        self.repeated += other.repeated
        self.malformed += other.malformed
        self.quarantined += other.quarantined
        self.contradicted += other.contradicted
        self.told = (*self.told, *other.told)[:MOST_TOLD]
        self.missing += other.missing
        self.lost += other.lost
        self.lag += other.lag
        self.committed_time = max(self.committed_time, other.committed_time)
        self.left_out = dict(Counter(self.left_out) + Counter(other.left_out))
        self.crossed = tuple(sorted({*self.crossed, *other.crossed}))


MOST_TOLD = 20
OTHERS = "other topics"  # no topic's name has a space


@dataclass(frozen=True)
class Counted:
    """The metadata of a position: how far its raw partition was counted, and a run's counts of its bucket.

    So a task that is run again knows what it did before, and what is read again is not counted again.
    """

    topic_id: str  # the raw topic's
    stop: int
    run: str
    done: DedupCounts

    def dumps(self) -> str:
        """Return JSON that Kafka keeps; what is left out is named as far as there is room."""
        text = strict_json.dumps(replace(self, done=replace(self.done, told=()))).decode()
        if len(text.encode()) <= METADATA_BYTES:
            return text
        names = sorted(self.done.left_out, key=self.done.left_out.__getitem__)
        few = {name: self.done.left_out[name] for name in names[len(names) // 2 + 1 :] if name != OTHERS}
        rest = sum(self.done.left_out.values()) - sum(few.values())
        return replace(self, done=replace(self.done, told=(), left_out={OTHERS: rest} | few)).dumps()


def dedup(share: DedupShare) -> DedupCounts:
    """Dedup until the time is over, or all is done; tell what this run did, in all attempts of the task.

    Fenced if another dedup took over a bucket.
    """
    with connect(share.end, share.group) as client, connect(share.end, share.group) as following:
        deadline = None if share.seconds is None else time.monotonic() + share.seconds
        producers = {number: producer_of(client, share.group, number) for number in share.buckets}
        unsound: dict[tuple[TopicPartition, int], str] = {}  # why frames can't be written, by where they are

        def attempt(progress: Callable[[], None]) -> DedupCounts:
            while True:
                run = _Run(client, following, share, producers, unsound)
                try:
                    while run.step(deadline):
                        progress()
                    return run.counts()
                except _Quarantine as found:  # again from what is committed, without it
                    unsound[found.place] = str(found)

        return until_committed(client, attempt)


def check_there(
    end: End, found: Mapping[str, Topic], raw_topics: Iterable[str], gap_topic: str, named: Iterable[str] = ()
) -> None:
    """Check the topics; Refused if one is missing, or raw topics and gap topic differ in partitions."""
    raw_topics = list(raw_topics)
    for name in [*raw_topics, gap_topic, *named]:
        if name not in found:
            raise Refused("topic-unknown", f"The {end} has no topic {name}.")
    buckets = len(found[gap_topic].partitions)
    for name in raw_topics:
        if (partitions := len(found[name].partitions)) != buckets:
            raise Refused(
                f"Raw topic {name} has {count(partitions, 'partition')} and gap topic {gap_topic} has "
                f"{buckets}: they must have the same number, which must not change."
            )


def producer_of(client: Client, group: str, bucket: int) -> TransactionalProducer:
    """Make the only producer that may write for a bucket; `begin` fences all others."""
    return TransactionalProducer(client, f"{group}-{bucket}", TIMEOUT_SECONDS, keep_times=True)


@dataclass(frozen=True)
class _Told:
    """An announcement that still has its time to wait."""

    came: int  # milliseconds since 1970
    raw: TopicPartition
    offset: int
    announcement: Announcement


class _Quarantine(Exception):
    """A frame that can't be written, found when others had been."""

    def __init__(self, place: tuple[TopicPartition, int], why: str) -> None:
        super().__init__(why)
        self.place = place


@dataclass
class _Bucket:
    """One bucket since this run began."""

    ledger: Bucket
    committed: dict[TopicPartition, int]
    counted: dict[TopicPartition, int]  # what comes before these raw offsets is in the counts of a run
    done: DedupCounts = field(default_factory=DedupCounts)
    uncommitted: bool = False  # something new is counted
    again: list[Frame] = field(default_factory=list)  # that are counted, and read again
    frames: list[Frame] = field(default_factory=list)
    places: dict[int, tuple[TopicPartition, int]] = field(default_factory=dict)  # in raw topics, by id()
    # By partition the oldest announcement and, so that it may be followed at once, the newest.
    announced: dict[TopicPartition, list[_Told]] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """The source topics of which something has crossed."""
        return self.ledger.topics | {topic for topic, _ in self.announced}

    def hear(self, told: _Told) -> None:
        about = TopicPartition(told.announcement.topic, told.announcement.partition)
        waiting = self.announced.setdefault(about, [])
        if not waiting or waiting[-1].announcement != told.announcement:
            waiting[1:] = [told]

    def matured(self, before: int) -> Iterator[Announcement]:
        """Yield the announcements that came before this time, each once."""
        for partition, waiting in list(self.announced.items()):
            while waiting and waiting[0].came <= before:
                yield waiting.pop(0).announcement
            if not waiting:
                del self.announced[partition]


class _Run:
    """One attempt of a task, from what is committed to the next error, or to the end."""

    def __init__(
        self,
        client: Client,
        following: Client,
        share: DedupShare,
        producers: Mapping[int, TransactionalProducer],
        unsound: Mapping[tuple[TopicPartition, int], str],
    ) -> None:
        self._unsound = unsound
        self._client = client
        self._share = share
        self._producers = producers
        for producer in producers.values():
            producer.begin()  # what a predecessor left open is aborted, and it is fenced
        partitions = [TopicPartition(topic, number) for topic in share.raw_topics for number in share.buckets]
        starts = offsets.log_starts(client, partitions)
        progress = groups.progress(client, share.group, partitions)
        committed = {partition: offset for partition, (offset, _) in progress.items()}
        # Where retention outran us, the ledger will tell what is missing.
        self._follower = Follower(
            following, {each: max(starts[each], committed.get(each, 0)) for each in partitions}
        )
        self._buckets = {number: self._bucket(number, progress) for number in share.buckets}
        self._ends = offsets.ends(client, partitions)

    def _bucket(self, number: int, progress: groups.CommittedOffsets) -> _Bucket:
        """Return a bucket as it was committed."""
        found = _Bucket(Bucket(self._ledger(number)), {}, {})
        for each, (offset, metadata) in progress.items():
            if each.partition != number:
                continue
            found.committed[each] = offset
            if counted := _loads(metadata, self._share.raw_topics[each.topic]):
                found.counted[each] = counted.stop
                if counted.run == self._share.run:
                    found.done = counted.done
        return found

    def _ledger(self, number: int) -> dict[TopicPartition, LedgerPartition]:
        ledger = gap_topic.part(self._client, self._share.gap_topic, [number])
        for topic, partition in ledger:
            self._check_number(topic, partition, number, self._share.gap_topic)
        return ledger

    def step(self, deadline: float | None) -> bool:
        """Poll once, and commit the transactions; return whether there may be more to do."""
        now = time.monotonic()
        wait = POLL_SECONDS if deadline is None else max(0.0, min(POLL_SECONDS, deadline - now))
        for news in self._follower.poll(wait):
            self._sort(news)
        # One bucket's brokers write while the next one's batches are made.
        for commit in [self._write(number, bucket) for number, bucket in self._buckets.items()]:
            commit()
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
        found = DedupCounts(lag=sum(max(0, ends[partition] - at) for partition, at in positions.items()))
        for bucket in self._buckets.values():
            missing, lost = bucket.ledger.missing()
            found.add(replace(bucket.done, missing=missing, lost=lost, crossed=tuple(bucket.topics)))
        return found

    def _sort(self, news: News) -> None:
        raw_topic, number = news.topic_partition
        bucket = self._buckets[number]
        for batch in news.batches:
            for record in records_of(batch):
                new = record.offset >= bucket.counted.get(news.topic_partition, 0)
                try:
                    _, value = key_and_value(record.body)
                    found = frame.unpack(value or b"")
                except (frame.Malformed, Damaged, IndexError, ValueError):
                    bucket.done.malformed += new
                else:
                    self._check_number(found.topic, found.partition, number, raw_topic)
                    place = news.topic_partition, record.offset
                    why = self._share.why_not_writable(found.topic, found.partition)
                    if why := self._unsound.get(place) or why:
                        self._quarantine(bucket, place, found, why, new=new)
                        continue
                    wanted = found.topic in self._share.clean
                    if isinstance(found, Announcement):
                        if wanted:
                            bucket.hear(_Told(record.timestamp, news.topic_partition, record.offset, found))
                            if new:
                                self._compare(bucket, found, record.timestamp)
                        continue
                    if wanted:
                        (bucket.frames if new else bucket.again).append(found)
                        bucket.places[id(found)] = place
                    elif new:
                        left_out = bucket.done.left_out
                        left_out[found.topic] = left_out.get(found.topic, 0) + 1
                if new:
                    bucket.counted[news.topic_partition] = record.offset + 1
                    bucket.uncommitted = True

    def _check_number(self, topic: str, partition: int, number: int, where: str) -> None:
        """Check that a frame's source partition is in its bucket.

        If it were in two, records would be written twice.
        """
        should = bucket_of(topic, partition, self._share.partitions)
        if should != number:
            raise Failed(
                f"{where}-{number} of the {self._share.end} holds {topic}-{partition}, which belongs to "
                f"partition {should} of {self._share.partitions}: the raw topics and {self._share.gap_topic} "
                "have got more partitions since. That can't be taken back: make them and the clean topics "
                "anew, and send everything again."
            )

    def _quarantine(
        self,
        bucket: _Bucket,
        place: tuple[TopicPartition, int],
        found: Frame | Announcement,
        why: str,
        *,
        new: bool,
    ) -> None:
        """Enter a frame as missing, tell of it, and go on; it may be sent again."""
        if isinstance(found, Frame):
            bucket.ledger.miss(found)
        if not new:
            return
        (raw_topic, number), offset = place
        bucket.counted[place[0]] = offset + 1
        bucket.uncommitted = True
        if isinstance(found, Frame):
            bucket.done.quarantined += 1
            what = f"offsets {found.first} to {found.last} of {found.topic}-{found.partition}"
            said = f"{raw_topic}-{number} has {what} at offset {offset}, which are not written: {why}."
            _tell(bucket.done, said)

    def _compare(self, bucket: _Bucket, told: Announcement, came: int) -> None:
        """Tell of a partition whose ledger knows more than its log has: what is to come there is not new."""
        late = int(max(OVERTAKEN_SECONDS, self._share.grace_seconds) * 1000)
        known = bucket.ledger.contradicted(told, came - late)
        if known is None:
            return
        bucket.done.contradicted += 1
        said = (
            f"{told.topic}-{told.partition}: its sender announces a log that ends before offset {known}, and "
            f"the ledger in {self._share.gap_topic} knows of all up to there: so what comes below it is not "
            "taken for new. Its log was cut, or somebody else has, or had, the sender's key: see who, "
            "and let the topic cross by another name."
        )
        if said not in bucket.done.told:
            _tell(bucket.done, said)

    def _write(self, number: int, bucket: _Bucket) -> Callable[[], None]:
        """Write what came for one bucket into one transaction, and return the function that commits it."""
        producer, done = self._producers[number], bucket.done
        done.frames += len(bucket.frames)
        for frames in (bucket.again, bucket.frames):
            repeated = bucket.ledger.repeated
            try:
                for new in bucket.ledger.arrive(frames):
                    self._send(producer, new, done)
            except Unsound as error:
                raise _Quarantine(bucket.places[id(error.frame)], str(error).rstrip(".")) from None
            frames.clear()
        bucket.places.clear()
        done.repeated += bucket.ledger.repeated - repeated  # of the new ones
        now = int(time.time() * 1000)
        for told in bucket.matured(now - int(self._share.grace_seconds * 1000)):
            bucket.ledger.announce(told)
        changes = bucket.ledger.changes(now)
        for each in entries(changes, now):
            producer.send(self._share.gap_topic, number, each)
        reached = self._reached(number, bucket)

        def commit() -> None:
            if not (changes or bucket.uncommitted or reached != bucket.committed):
                return
            done.committed_time = time.time()
            positions = {each: (offset, self._counted(each, bucket)) for each, offset in reached.items()}
            producer.commit_offsets(self._share.group, positions)
            producer.commit()
            producer.begin()
            bucket.committed, bucket.uncommitted = reached, False

        return commit

    def _send(self, producer: TransactionalProducer, new: New, done: DedupCounts) -> None:
        clean = self._share.clean[new.topic_partition.topic]
        try:
            for each in ready(new.batches, max_bytes=clean.max_bytes):
                producer.send(clean.topic, new.topic_partition.partition, each)
                done.records += each.count
                done.bytes += len(each.data)
        except Damaged as error:
            raise Unsound(new.frame, str(error)) from None

    def _counted(self, raw: TopicPartition, bucket: _Bucket) -> str:
        topic_id = str(self._share.raw_topics[raw.topic])
        return Counted(topic_id, bucket.counted.get(raw, 0), self._share.run, bucket.done).dumps()

    def _reached(self, number: int, bucket: _Bucket) -> dict[TopicPartition, int]:
        """Return a position that leaves out no announcement that still has its time to wait."""
        reached = {each: at for each, at in self._follower.positions.items() if each.partition == number}
        for told in chain.from_iterable(bucket.announced.values()):
            reached[told.raw] = min(reached[told.raw], told.offset)
        return {partition: max(at, bucket.committed.get(partition, 0)) for partition, at in reached.items()}


def _tell(done: DedupCounts, said: str) -> None:
    log.error(said)
    done.told = (*done.told, said)[:MOST_TOLD]


def _loads(metadata: str, topic_id: UUID | None) -> Counted | None:
    """Parse what was committed with a position; None if it is not of this topic."""
    try:
        found = strict_json.loads(Counted, metadata.encode())
    except strict_json.Unreadable:
        return None
    return found if found.topic_id == str(topic_id) else None


def entries(changes: Mapping[str, str | None], now: int) -> Iterator[Ready]:
    """Yield the ledger's records as batches that a broker takes."""
    bodies = (body(key.encode(), None if value is None else value.encode()) for key, value in changes.items())
    for some in in_lists(bodies, LEDGER_BATCH_BYTES, len):
        rows = [Record(now, number, each) for number, each in enumerate(some)]
        yield Ready(build(Records.listed(rows), codec="zstd"), len(rows), 0)
