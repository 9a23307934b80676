"""Sorts the records of raw topics: what is written, what waits, and what is quarantined. It does no I/O."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Failed, Skipped
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import Record, readable
from aqueduct.link.dedup.share import MOST_TOLD, OTHERS, DedupCounts, DedupShare
from aqueduct.link.ledger.arrivals import Bucket
from aqueduct.link.ledger.arrivals import bucket as bucket_of
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame

OVERTAKEN_SECONDS = 60  # by which, at most, an announcement comes later than what was sent after it

# Of a source partition: what comes of a further topic id is set aside.
MOST_IDS = 1_000
# Of a bucket: ids of partitions that have no clean one, and ids after the first one of those that have.
MOST_EXTRA = 100_000
MOST_LEFT_OUT = 10_000  # names of topics that are not wanted and are counted one by one
# Bytes of frames that wait unpacked, or one frame: a few kilobytes of a raw topic may unpack to 256 MiB.
MOST_WAITING = 128 << 20

Place = tuple[TopicPartition, int]  # of a record in a raw topic

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Told:
    """An announcement that still has its time to wait."""

    came: int  # milliseconds since 1970
    raw: TopicPartition
    offset: int
    announcement: Announcement


@dataclass(kw_only=True)
class BucketState:
    """One bucket since this run began."""

    ledger: Bucket
    committed: dict[TopicPartition, int]
    counted: dict[TopicPartition, int]  # what comes before these raw offsets is in the counts of a run
    done: DedupCounts = field(default_factory=DedupCounts)
    uncommitted: bool = False  # something new is counted
    again: list[Frame] = field(default_factory=list)  # that are counted, and read again
    frames: list[Frame] = field(default_factory=list)
    waiting_bytes: int = 0  # of all these frames
    places: dict[int, tuple[TopicPartition, int]] = field(default_factory=dict)  # in raw topics, by id()
    # By partition the oldest announcement and, so that it may be followed at once, the newest.
    announced: dict[TopicPartition, list[Told]] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """The source topics of which something has crossed."""
        return self.ledger.topics | {topic for topic, _ in self.announced}

    def hear(self, pending: Told) -> None:
        about = TopicPartition(pending.announcement.topic, pending.announcement.partition)
        waiting = self.announced.setdefault(about, [])
        if not waiting or waiting[-1].announcement != pending.announcement:
            waiting[1:] = [pending]

    def matured(self, before: int) -> Iterator[Announcement]:
        """Yield the announcements that came before this time, each once."""
        for partition, waiting in list(self.announced.items()):
            while waiting and waiting[0].came <= before:
                yield waiting.pop(0).announcement
            if not waiting:
                del self.announced[partition]


class _KnownIds:
    """The topic ids of one bucket's source partitions. The ledger keeps them for good: they have a limit."""

    def __init__(self, ledger: Bucket, is_expected: Callable[[TopicPartition], bool]) -> None:
        """`is_expected`: whether a source partition has a clean one."""
        self._is_expected = is_expected
        self._ids = ledger.topic_ids()
        self._extra = sum(len(ids) - is_expected(partition) for partition, ids in self._ids.items())

    def refusal(self, partition: TopicPartition, topic_id: UUID) -> str:
        """Return why the ledger gets no entry of an id; empty: it has one, or may get it."""
        ids = self._ids.setdefault(partition, set())
        if str(topic_id) in ids:
            return ""
        if len(ids) >= MOST_IDS:
            return f"the ledger already has {count(MOST_IDS, 'topic ID')} of {partition}"
        extra = bool(ids) or not self._is_expected(partition)
        if extra and self._extra >= MOST_EXTRA:
            return (
                f"the ledger already has {MOST_EXTRA:,} topic IDs of former topics or of partitions without "
                "a clean partition"
            )
        self._extra += extra
        ids.add(str(topic_id))
        return ""


class Sorter:
    """Sorts what one task reads into its buckets."""

    def __init__(
        self,
        share: DedupShare,
        buckets: Mapping[int, BucketState],
        unsound: Mapping[Place, str],
    ) -> None:
        """`unsound`: why frames can't be written, by where they are."""
        self._share = share
        self._buckets = buckets
        self._unsound = unsound
        self._ids = {
            number: _KnownIds(bucket.ledger, lambda partition: not share.why_not_writable(*partition))
            for number, bucket in buckets.items()
        }

    def sort(
        self,
        raw: TopicPartition,
        batches: Iterable[Batch],
        make_room: Callable[[TopicPartition, int], None] = lambda *_: None,
    ) -> None:
        """Sort what comes next in a partition of a raw topic.

        `make_room` writes the frames that wait. It is told of the raw offset from which on, in the partition,
        nothing is sorted yet.
        """
        bucket = self._buckets[raw.partition]
        for record in readable(batches, partial(self._set_unread_aside, bucket, raw)):
            waiting = sum(state.waiting_bytes for state in self._buckets.values())
            if waiting and waiting + _unpacked_size(record) > MOST_WAITING:
                make_room(raw, record.offset)
            self._sort(bucket, raw, record)
            if (raw, record.offset) in self._unsound:  # of the next one, all begins after this one
                make_room(raw, record.offset + 1)

    def _sort(self, bucket: BucketState, raw: TopicPartition, record: Record) -> None:
        raw_position, new = (raw, record.offset), record.offset >= bucket.counted.get(raw, 0)
        try:
            _, value = key_and_value(record.body)
            sent = frame.unpack(value or b"")
        except (frame.Malformed, Damaged, IndexError, ValueError):
            bucket.done.malformed += new
            self._count(bucket, raw_position, new=new)
            return
        if aside := self._aside(raw_position, sent):
            if new:
                bucket.done.unlisted += 1
                tell(bucket.done, f"{aside}.")
        elif reason := self._unsound.get(raw_position) or self._share.why_not_writable(
            sent.topic, sent.partition
        ):
            self._quarantine(bucket, raw_position, sent, reason, new=new)
        elif sent.topic not in self._share.clean:
            if new and isinstance(sent, Frame):
                _leave_out(bucket.done, sent.topic)
        elif isinstance(sent, Announcement):
            bucket.hear(Told(came=record.timestamp, raw=raw, offset=record.offset, announcement=sent))
            if new:
                self._compare(bucket, sent, record.timestamp)
            return
        else:
            (bucket.frames if new else bucket.again).append(sent)
            bucket.waiting_bytes += len(sent.batches)
            bucket.places[id(sent)] = raw_position
        self._count(bucket, raw_position, new=new)

    def _count(self, bucket: BucketState, raw_position: Place, *, new: bool) -> None:
        if new:
            bucket.counted[raw_position[0]] = raw_position[1] + 1
            bucket.uncommitted = True

    def _aside(self, raw_position: Place, sent: Frame | Announcement) -> Skipped | None:
        """Return why a record is neither written nor entered into the ledger; None if it may be."""
        (raw_topic, number), _ = raw_position
        should = bucket_of(sent.topic, sent.partition, self._share.partitions)
        if should != number:  # in the ledger, too, it would be in two partitions
            return Skipped(
                _which(raw_position, sent),
                f"this record belongs to partition {should} of {self._share.partitions}, so it was not "
                "written. The ledger lists its offsets as missing after the next announcement of the "
                f"sender. Find out which principal wrote the record to {raw_topic}",
                "raw-record-misplaced",
            )
        share = self._share
        if not (share.every_topic or sent.topic in share.clean or sent.topic in share.gone):
            return None  # it is left out, and gets no entry
        partition = TopicPartition(sent.topic, sent.partition)
        if fault := self._ids[number].refusal(partition, sent.topic_id):
            return Skipped(
                _which(raw_position, sent),
                f"this record has the topic ID {sent.topic_id}, and {fault}. The record is neither written "
                "nor listed as missing. If the topic was not re-created that often, the private key of the "
                "sender may be compromised: create a new key for the sender. Send the records under another "
                "topic name",
                "ledger-ids-exceeded",
            )
        return None

    def _set_unread_aside(
        self, bucket: BucketState, raw: TopicPartition, batch: Batch, error: Exception
    ) -> None:
        first = max(batch.base_offset, bucket.counted.get(raw, 0))
        if first > batch.last_offset:  # it was counted before
            return
        bucket.done.malformed += batch.last_offset + 1 - first
        self._count(bucket, (raw, batch.last_offset), new=True)
        aside = Skipped(
            f"offsets {first} to {batch.last_offset} of {raw}",
            f"the batch cannot be read. {str(error).rstrip('.')}. Find out which principal wrote the batch "
            f"to {raw.topic}",
            "raw-batch-unreadable",
        )
        tell(bucket.done, f"{aside}.")

    def _quarantine(
        self,
        bucket: BucketState,
        raw_position: Place,
        sent: Frame | Announcement,
        reason: str,
        *,
        new: bool,
    ) -> None:
        """Enter a frame as missing, tell of it, and go on; it may be sent again."""
        if isinstance(sent, Frame):
            bucket.ledger.miss(sent)
        if new and isinstance(sent, Frame):
            bucket.done.quarantined += 1
            tell(bucket.done, f"{_which(raw_position, sent)}. These offsets were not written: {reason}.")

    def _compare(self, bucket: BucketState, sent: Announcement, came: int) -> None:
        """Tell of a partition whose ledger knows more than its log has: what is to come there is not new."""
        late = int(max(OVERTAKEN_SECONDS, self._share.grace_seconds) * 1000)
        bound = bucket.ledger.contradicted(sent, came - late)
        if bound is None:
            return
        bucket.done.contradicted += 1
        sentence = (
            f"{sent.topic}-{sent.partition}: the sender announces a log that ends before offset {bound}, "
            f"but the ledger in {self._share.gap_topic} contains all offsets up to {bound}. Dedup treats "
            "records below this offset as duplicates. The source log was truncated, or the private key of "
            "the sender is compromised. Find out which of the two happened, and send the records under "
            "another topic name."
        )
        if sentence not in bucket.done.told:
            tell(bucket.done, sentence)


def check_number(share: DedupShare, topic: str, partition: int, number: int, where: str) -> None:
    """Check that a frame's source partition is in its bucket.

    If it were in two, records would be written twice.
    """
    should = bucket_of(topic, partition, share.partitions)
    if should != number:
        raise Failed(
            "link-partitions-changed",
            f"{where}-{number} of the {share.end} contains records of {topic}-{partition}, which belongs to "
            f"partition {should} of {share.partitions}. Partitions were added to the raw topics and "
            f"{share.gap_topic} after records had arrived. This cannot be repaired. Create new raw topics, "
            "a new gap topic and new clean topics, and send all records again.",
        )


def _unpacked_size(record: Record) -> int:
    """Return how many bytes of batches a raw record unpacks to; 0 of one that can't be read."""
    try:
        _, value = key_and_value(record.body)
        return frame.unpacked_size(value or b"")
    except (frame.Malformed, IndexError, ValueError):
        return 0


def _which(raw_position: Place, sent: Frame | Announcement) -> str:
    (raw_topic, number), offset = raw_position
    of = f"{sent.topic}-{sent.partition}"
    subject = (
        f"offsets {sent.first} to {sent.last} of {of}"
        if isinstance(sent, Frame)
        else f"an announcement of {of}"
    )
    return f"{raw_topic}-{number} has {subject} at offset {offset}"


def _leave_out(counts: DedupCounts, topic: str) -> None:
    counted = topic if topic in counts.left_out or len(counts.left_out) < MOST_LEFT_OUT else OTHERS
    counts.left_out[counted] = counts.left_out.get(counted, 0) + 1


def tell(counts: DedupCounts, sentence: str) -> None:
    """Keep a sentence, and log it; of many alike only the first ones, for the counts have all."""
    if len(counts.told) < MOST_TOLD:
        log.error(sentence)
        counts.told = (*counts.told, sentence)
