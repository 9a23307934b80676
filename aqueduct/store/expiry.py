"""Expiry of segments, where lifecycle rules of the bucket remove objects by their age.

Amazon S3 User Guide, "Lifecycle configuration elements": an object expires at the first midnight of UTC after
so many days since it was created, and is removed at some time after that. So a segment that is there is used,
however old; one that is not there is damage before its expiry, and retention after it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from aqueduct.errors import LeftOut
from aqueduct.store import names
from aqueduct.store.manifest import Gap, Segment, StoredPartition, StoredTopic
from aqueduct.store.objects import Objects
from aqueduct.store.snapshots import Snapshot

DAY = 86_400_000  # milliseconds


@dataclass(frozen=True)
class Expiry:
    """The days after which topics' segments expire, and whether a run changed that."""

    days: Mapping[str, int]  # by topic
    compacted: tuple[str, ...]  # that were asked for and have no rule: a record's age tells nothing there
    before: Mapping[str, int]  # as the snapshot before had it

    @property
    def changed(self) -> frozenset[str]:
        topics = self.days.keys() | self.before.keys()
        return frozenset(topic for topic in topics if self.days.get(topic) != self.before.get(topic))


@dataclass(frozen=True, kw_only=True)
class RulesPut:
    """The rules of a bucket after a run."""

    ours: int
    changed: int  # of ours: written, or removed
    others: int
    clashes: LeftOut  # rules of others that remove what is in the store, too


def expiry(
    topics: Iterable[StoredTopic], days: int, chosen: Callable[[str], object], before: Mapping[str, int]
) -> Expiry:
    """Return which topics' segments expire after `days`; 0: none."""
    expiring = [topic for topic in topics if days and chosen(topic.name)]
    return Expiry(
        {topic.name: days for topic in expiring if not topic.compacted},
        tuple(sorted(topic.name for topic in expiring if topic.compacted)),
        before,
    )


def expires(written: int, days: int) -> int:
    """Return when an object that was written at a time expires; both in milliseconds since 1970."""
    return (written // DAY + days + 1) * DAY


def with_expiry(segments: Iterable[Segment], days: Mapping[str, int], written: int) -> tuple[Segment, ...]:
    """Return new segments with their expiry. `written`: a time not after their writing."""
    return tuple(
        segment._replace(expires=expires(written, days[segment.topic]))
        if segment.topic in days and segment.records
        else segment
        for segment in segments
    )


def revised(snapshot: Snapshot, rules: Expiry, objects: Objects, written: int) -> Snapshot:
    """Return the snapshot with a new expiry of existing segments, after lifecycle rules have changed.

    The expiry counts from the store's time of an object. A removed object was written at `written` or before,
    in milliseconds.
    """

    def found(segment: Segment, times: Mapping[str, float]) -> Segment:
        days = rules.days.get(segment.topic)
        stored_time = times.get(segment.path)
        if stored_time is not None:
            return segment._replace(expires=expires(int(stored_time * 1000), days) if days else None)
        if not days:
            return segment
        bound = expires(written, days)
        return segment._replace(expires=min(bound, segment.expires or bound))

    changed = {
        partition: of for partition, of in snapshot.segments.items() if partition.topic in rules.changed
    }
    revisions: dict[StoredPartition, tuple[Segment, ...]] = {}
    for topic, partitions in groupby(sorted(changed), attrgetter("topic")):
        times = {entry.path: entry.written for entry in objects.list(f"{names.TOPICS}/{topic}")}
        for partition in partitions:
            revisions[partition] = tuple(
                found(segment, times) if segment.records else segment for segment in changed[partition]
            )
    return replace(snapshot, segments={**snapshot.segments, **revisions})


def retained(snapshot: Snapshot, objects: Objects, now: int) -> Snapshot:
    """Return the snapshot with a gap in place of each expired segment that the store has removed.

    Lists the folders of topics that have such a segment. `now`: milliseconds since 1970.
    """
    old = {
        partition: segments
        for partition, segments in snapshot.segments.items()
        if any(expired(segment, now) for segment in segments)
    }
    if not old:
        return snapshot
    segments, gaps = dict(snapshot.segments), dict(snapshot.gaps)
    for topic, partitions in groupby(sorted(old), attrgetter("topic")):
        paths = {entry.path for entry in objects.list(f"{names.TOPICS}/{topic}")}
        for partition in partitions:
            pieces: list[Segment | Gap] = [*gaps.get(partition, ())]
            pieces += (_gap(segment) if _gone(segment, paths, now) else segment for segment in old[partition])
            joined = list(_joined(sorted(pieces, key=attrgetter("start"))))
            segments[partition] = tuple(piece for piece in joined if isinstance(piece, Segment))
            gaps[partition] = tuple(piece for piece in joined if isinstance(piece, Gap))
    return replace(
        snapshot,
        segments={partition: of for partition, of in segments.items() if of},
        gaps={partition: of for partition, of in gaps.items() if of},
    )


def expired(segment: Segment, now: int) -> bool:
    """Return whether the store may have removed a segment at a time."""
    return segment.expires is not None and segment.expires <= now


def _gone(segment: Segment, paths: set[str], now: int) -> bool:
    return expired(segment, now) and not {segment.path, segment.index_path} <= paths


def _gap(segment: Segment) -> Gap:
    return Gap(*segment.stored_partition, segment.start, segment.stop, segment.expires)


def _joined(pieces: Iterable[Segment | Gap]) -> Iterator[Segment | Gap]:
    """Join expired ranges, and following ranges without records, to one gap."""
    last: Gap | None = None
    for piece in pieces:
        old = piece.expired if isinstance(piece, Gap) else None
        empty = isinstance(piece, Segment) and not piece.records
        if last and (old is not None or empty):
            last = last._replace(stop=piece.stop, expired=max(last.expired or 0, old or 0))
            continue
        if last:
            yield last
        last = piece if isinstance(piece, Gap) and old is not None else None
        if last is None:
            yield piece
    if last:
        yield last
