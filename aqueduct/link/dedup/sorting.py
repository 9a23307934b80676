"""Sorts the records of raw topics: what is written, what waits, and what is quarantined. It does no I/O."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import records as records_of
from aqueduct.link.dedup.share import MOST_TOLD, DedupCounts, DedupShare
from aqueduct.link.ledger.arrivals import Bucket
from aqueduct.link.ledger.arrivals import bucket as bucket_of
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame
from aqueduct.names import TopicPartition

OVERTAKEN_SECONDS = 60  # by which, at most, an announcement comes later than what was sent after it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """An announcement that still has its time to wait."""

    came: int  # milliseconds since 1970
    raw: TopicPartition
    offset: int
    announcement: Announcement


@dataclass
class BucketState:
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
    announced: dict[TopicPartition, list[Told]] = field(default_factory=dict)

    def hear(self, told: Told) -> None:
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


class Sorter:
    """Sorts what one task reads into its buckets."""

    def __init__(
        self,
        share: DedupShare,
        buckets: Mapping[int, BucketState],
        unsound: Mapping[tuple[TopicPartition, int], str],
    ) -> None:
        """`unsound`: why frames can't be written, by where they are."""
        self._share = share
        self._buckets = buckets
        self._unsound = unsound

    def sort(self, raw: TopicPartition, batches: Iterable[Batch]) -> None:
        """Sort what comes next in a partition of a raw topic."""
        raw_topic, number = raw
        bucket = self._buckets[number]
        for batch in batches:
            for record in records_of(batch):
                new = record.offset >= bucket.counted.get(raw, 0)
                try:
                    _, value = key_and_value(record.body)
                    found = frame.unpack(value or b"")
                except (frame.Malformed, Damaged, IndexError, ValueError):
                    bucket.done.malformed += new
                else:
                    check_number(self._share, found.topic, found.partition, number, raw_topic)
                    place = raw, record.offset
                    if why := self._unsound.get(place) or self._nowhere(found.topic, found.partition):
                        self._quarantine(bucket, place, found, why, new=new)
                        continue
                    wanted = found.topic in self._share.clean
                    if isinstance(found, Announcement):
                        if wanted:
                            bucket.hear(Told(record.timestamp, raw, record.offset, found))
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
                    bucket.counted[raw] = record.offset + 1
                    bucket.uncommitted = True

    def _nowhere(self, topic: str, partition: int) -> str:
        """Return why there is no clean partition for a source's; empty: there is, or none is wanted."""
        clean = self._share.clean.get(topic)
        if clean is None and self._share.every_topic:
            return (
                f"the {self._share.end} has no topic {topic}: create it with as many partitions as at the "
                "source, or name the topics that are wanted with --topics"
            )
        if clean and partition >= clean.partitions:
            return f"{clean.topic} of the {self._share.end} has only {clean.partitions} partitions: add some"
        return ""

    def _quarantine(
        self,
        bucket: BucketState,
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

    def _compare(self, bucket: BucketState, told: Announcement, came: int) -> None:
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


def check_number(share: DedupShare, topic: str, partition: int, number: int, where: str) -> None:
    """Check that a frame's source partition is in its bucket.

    If it were in two, records would be written twice.
    """
    should = bucket_of(topic, partition, share.partitions)
    if should != number:
        raise Failed(
            f"{where}-{number} of the {share.end} holds {topic}-{partition}, which belongs to partition "
            f"{should} of {share.partitions}: the raw topics and {share.gap_topic} have got more partitions "
            "since. That can't be taken back: make them and the clean topics anew, and send everything again."
        )


def _tell(done: DedupCounts, said: str) -> None:
    log.error(said)
    done.told = (*done.told, said)[:MOST_TOLD]
