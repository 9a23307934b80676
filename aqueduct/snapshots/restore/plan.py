"""The plan of a restore: which stored records go to which partition, in which tasks."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut, Skipped
from aqueduct.kafka.batches.cutting import Window
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.restore.request import Request
from aqueduct.store.manifest import Gap, Instance, Segment, StoredPartition, StoredTopic
from aqueduct.store.snapshots import Snapshot

# Small partitions share a task and its transactions.
SHARE_BYTES = 64 << 20
SHARE_LANES = 500


@dataclass(frozen=True, kw_only=True)
class RestoreLane:
    """The records of one partition, and the partition of the target to which they are written."""

    stored_partition: StoredPartition  # in the store
    topic: str  # at the target
    stop: int  # exclusive: the end of the partition in the snapshot
    segments: tuple[Segment, ...]  # in order, those that may have records in the time window
    skipped: tuple[Segment, ...]  # those without records in the time window
    expired: tuple[Gap, ...] = ()  # ranges that lifecycle rules of the store deleted
    start: int = 0  # the first offset of the snapshot to write

    def after(self, start: int) -> "RestoreLane":
        """Return the lane without the records before this offset, which earlier restores wrote."""
        return replace(
            self,
            start=start,
            segments=tuple(segment for segment in self.segments if segment.stop > start),
        )

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.topic, self.stored_partition.partition)

    @property
    def records(self) -> int:
        """Return the maximum number of records; a time window can reduce it."""
        return sum(segment.records for segment in self.segments)

    @property
    def unpacked_bytes(self) -> int:
        return sum(segment.unpacked_bytes for segment in self.segments)

    def __str__(self) -> str:
        return f"{self.topic}-{self.stored_partition.partition}"


@dataclass(frozen=True, kw_only=True)
class RestorePlan:
    snapshot: int
    window: Window
    topics: Mapping[str, tuple[StoredTopic, Instance]]  # by the name at the target
    lanes: tuple[RestoreLane, ...]
    gaps: tuple[Gap, ...]
    skipped: tuple[str, ...]  # topics of the snapshot without the selected instance
    # The restores that it continues, by topic at the target.
    continues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Lanes that are not written: an unknown earlier restore may have written these records.
    unknown: tuple[RestoreLane, ...] = ()

    def partitions(self, target: str) -> tuple[RestoreLane, ...]:
        return self._by_topic[target]

    @cached_property
    def _by_topic(self) -> dict[str, tuple[RestoreLane, ...]]:
        lanes = groupby(self.lanes, attrgetter("topic"))
        return {target: tuple(of_topic) for target, of_topic in lanes}

    @property
    def at_most(self) -> bool:
        """Return whether the lanes may have fewer records than their segments.

        The exact number is known only after the batches are read.
        """
        return self.window.timed and any(lane.segments for lane in self.lanes)

    def expired(self, target: str) -> int:
        """Return the number of offsets of a topic that have expired in the store."""
        return sum(gap.stop - gap.start for lane in self.partitions(target) for gap in lane.expired)

    @property
    def left_out(self) -> LeftOut:
        """Return the expired records, and the partitions to which nothing is appended."""
        return tuple(
            Skipped(
                f"records of {lane}",
                "it has transactional records with timestamps of this backup, and the target does not store "
                "which restore wrote them, so nothing is appended to this partition. Restore the topic under "
                "another name (old:new) and compare both. To write all its records again, pass a new "
                "--restore-id",
                "append-origin-unknown",
            )
            for lane in self.unknown
        ) + tuple(
            Skipped(
                f"offsets {gap.start} to {gap.stop - 1} of the backup of {lane}",
                f"a lifecycle rule of the store deleted them by {timestamps.text(gap.expired or 0)}",
                "records-expired",
            )
            for lane in self.lanes
            for gap in lane.expired
        )

    def without(self, unknown: Set[TopicPartition]) -> "RestorePlan":
        """Return the plan that writes nothing to these partitions, without topics that have no other ones."""
        writing = {lane.topic for lane in self.lanes if lane.target not in unknown}
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name in writing},
            lanes=tuple(
                replace(lane, segments=()) if lane.target in unknown else lane
                for lane in self.lanes
                if lane.topic in writing
            ),
            unknown=tuple(lane for lane in self.lanes if lane.target in unknown),
        )

    @cached_property
    def unknown_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(lane.target for lane in self.unknown)

    @cached_property
    def continued_lanes(self) -> dict[TopicPartition, RestoreLane]:
        """Return the lanes in which mirrors and links continue: of known origin, and not renamed.

        To mirrors and links, a renamed topic is a new one.
        """
        return {
            lane.target: lane
            for lane in self.lanes
            if lane.topic == lane.stored_partition.topic and lane.target not in self.unknown_partitions
        }

    @cached_property
    def backed_up_ids(self) -> dict[str, str]:
        """Return the backed-up id of each topic, by its name at the target."""
        return {target: instance.topic_id for target, (_, instance) in self.topics.items()}

    def unknown_of(self, target: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions to which nothing is written."""
        return tuple(lane.target.partition for lane in self.unknown if lane.topic == target)

    @property
    def renamed(self) -> dict[str, str]:
        """Name at the target by name in the snapshot."""
        return {topic.name: target for target, (topic, _) in self.topics.items()}


def plan(snapshot: Snapshot, request: Request) -> RestorePlan:
    """Plan a restore; Refused if a topic or an instance does not exist."""
    topics = request.choose(snapshot.topics)
    lanes: list[RestoreLane] = []
    gaps: list[Gap] = []
    for target, (topic, instance) in topics.items():
        positions = snapshot.manifest.positions[topic.name, instance.number]
        for partition in snapshot.partitions(topic.name, instance.number):
            stop = positions[partition.partition]
            parted: tuple[list[Segment], list[Segment]] = [], []
            for segment in snapshot.segments.get(partition, ()):
                if segment.records:
                    parted[_outside(segment, request.window)].append(segment)
            missing = snapshot.gaps.get(partition, ())
            expired = tuple(gap for gap in missing if gap.expired is not None)
            inside, skipped_ = map(tuple, parted)
            lanes.append(
                RestoreLane(
                    stored_partition=partition,
                    topic=target,
                    stop=max(stop, 0),
                    segments=inside,
                    skipped=skipped_,
                    expired=expired,
                )
            )
            gaps += missing
    asked = {old for old, _ in request.names} or snapshot.topics.keys()
    skipped = sorted(asked - {topic.name for topic, _ in topics.values()})
    return RestorePlan(
        snapshot=snapshot.manifest.number,
        window=request.window,
        topics=topics,
        lanes=tuple(lanes),
        gaps=tuple(gaps),
        skipped=tuple(skipped),
    )


def _outside(segment: Segment, window: Window) -> bool:
    newest, oldest = segment.max_time, segment.min_time
    before = newest is not None and newest < window.first_time
    return before or (oldest is not None and oldest > window.last_time)


def shares(lanes: Iterable[RestoreLane]) -> Iterator[tuple[RestoreLane, ...]]:
    """Yield shares of lanes, always the same for the same plan.

    Each share has its own producer, whose transactional id contains the number of the share.
    """
    return map(tuple, in_lists(lanes, SHARE_BYTES, attrgetter("unpacked_bytes"), most=SHARE_LANES))
