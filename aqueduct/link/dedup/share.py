"""The share of one task of dedup, and the counts of what it did."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from aqueduct.common import strict_json
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import METADATA_BYTES

NO_EPOCH = -1


@dataclass(frozen=True)
class Clean:
    """A clean topic."""

    topic: str
    partitions: int
    max_bytes: int  # its max.message.bytes


@dataclass(frozen=True, kw_only=True)
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
                f"the {self.end} no longer has the topic {self.gone[topic]}; create the topic with the "
                "number of partitions of the source, or remove the topic from --topics"
            )
        if clean is None and self.every_topic:
            return (
                f"the {self.end} has no topic {topic}; create the topic with the number of partitions of "
                "the source, or select the required topics with --topics"
            )
        if clean and partition >= clean.partitions:
            return (
                f"{clean.topic} of the {self.end} has only {clean.partitions} partitions; add partitions "
                "to this topic"
            )
        return ""


@dataclass(kw_only=True)
class DedupCounts:
    """The counts of one run of a task."""

    records: int = 0
    bytes: int = 0
    frames: int = 0
    repeated: int = 0  # offsets that had arrived before
    malformed: int = 0  # records of the raw topics that aren't frames
    quarantined: int = 0  # frames that can't be written; they are missing
    # Records that are frames, and neither written nor listed as missing.
    unlisted: int = 0
    contradicted: int = 0  # announcements of a log that ends before what came
    # Raw partitions whose position was of an earlier topic or log.
    rewound: int = 0
    missing: int = 0  # offsets that the ledger lists at the end
    lost: int = 0  # of these others, those that can't be sent again
    lag: int = 0  # raw records that were not read at the end
    committed_time: float = 0.0  # of the last transaction, seconds since 1970
    left_out: dict[str, int] = field(default_factory=dict)  # frames, by source topics that are not wanted
    silent: tuple[str, ...] = ()  # sentences on senders that were not heard of when the run began
    # Source topics of which something has crossed, by the ledger and what waits for its grace at the end.
    crossed: tuple[str, ...] = ()
    # Sentences on what was quarantined or contradicted, the first; they are not kept with the position.
    told: tuple[str, ...] = ()

    def add(self, other: "DedupCounts") -> None:
        self.records += other.records
        self.bytes += other.bytes
        self.frames += other.frames
        self.repeated += other.repeated
        self.malformed += other.malformed
        self.quarantined += other.quarantined
        self.unlisted += other.unlisted
        self.contradicted += other.contradicted
        self.rewound += other.rewound
        self.told = (*self.told, *other.told)[:MOST_TOLD]
        self.missing += other.missing
        self.lost += other.lost
        self.lag += other.lag
        self.committed_time = max(self.committed_time, other.committed_time)
        self.left_out = dict(Counter(self.left_out) + Counter(other.left_out))
        self.crossed = tuple(sorted({*self.crossed, *other.crossed}))


MOST_TOLD = 20
OTHERS = "other topics"  # no topic's name has a space


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The metadata of a position: how far its raw partition was counted, and a run's counts of its bucket.

    So a task that is run again knows what it did before, and what is read again is not counted again.
    """

    topic_id: str  # the raw topic's
    stop: int
    run: str
    done: DedupCounts
    # Of the leader that wrote the last batch before the position; -1: it is unknown.
    epoch: int = NO_EPOCH

    def dumps(self) -> str:
        """Return JSON that Kafka keeps; what is left out is named as far as there is room."""
        text = strict_json.dumps(replace(self, done=replace(self.done, told=()))).decode()
        if len(text.encode()) <= METADATA_BYTES:
            return text
        names = sorted(self.done.left_out, key=self.done.left_out.__getitem__)
        few = {name: self.done.left_out[name] for name in names[len(names) // 2 + 1 :] if name != OTHERS}
        rest = sum(self.done.left_out.values()) - sum(few.values())
        return replace(self, done=replace(self.done, told=(), left_out={OTHERS: rest} | few)).dumps()


def loads(metadata: str, topic_id: UUID | None) -> Counted | None:
    """Parse what was committed with a position; None if it is not of this topic."""
    counted = parse(metadata)
    return counted if counted and counted.topic_id == str(topic_id) else None


def parse(metadata: str) -> Counted | None:
    """Parse what was committed with a position, of whatever topic; None if it is nothing of dedup's."""
    try:
        return strict_json.loads(Counted, metadata.encode())
    except strict_json.Unreadable:
        return None
