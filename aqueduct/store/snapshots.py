"""Snapshots: the sum of a full manifest and the increments after it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from aqueduct.errors import Failed
from aqueduct.store.manifest import (
    NOT_READ,
    Chain,
    Gap,
    InstanceState,
    Manifest,
    Segment,
    StoredPartition,
    StoredTopic,
)

TopicInstance = tuple[str, int]  # topic, instance
OLDEST_BASE = 86_400_000  # milliseconds; prune keeps what a snapshot builds on, so no more than a day of them


UNTRUSTED = "snapshot-not-trusted"


def _numbers(first: int, last: int | None) -> str:
    return str(first) if last in (None, first) else f"{first} to {last}"


class Broken(Failed):
    """The error of an unusable snapshot. `reason`: a phrase after its name."""

    id = "snapshot-unusable"

    def __init__(
        self,
        number: int,
        reason: str,
        root: "Broken | None" = None,
        *,
        untrusted: bool = False,
        through: int | None = None,
    ) -> None:
        super().__init__(f"Snapshot{'s' if through else ''} {_numbers(number, through)} {reason}.")
        if untrusted or (root and root.id == UNTRUSTED):
            self.id = UNTRUSTED
        self.number = number
        self.through = through or number  # the last one of several in a row
        self.why = reason
        self.root = root or self  # the fault of the snapshot that it builds on

    @property
    def numbers(self) -> str:
        return _numbers(self.number, self.through)

    def above(self, number: int) -> "Broken":
        """Return the fault of a snapshot that builds on this broken one."""
        return Broken(number, f"builds on snapshot {self.root.number}, which {self.root.why}", self.root)


class Stored(NamedTuple):
    """A manifest, with the properties of its object."""

    manifest: Manifest
    size: int  # bytes
    sha256: str
    signed: bool = False  # by whomever
    encrypted: bool = False


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The live content at one number. Each partition is covered from its start to its position."""

    manifest: Manifest  # of that number: groups, ACLs, quotas, times
    topics: Mapping[str, StoredTopic]
    segments: Mapping[StoredPartition, Sequence[Segment]]  # of a partition: in the order of offsets
    gaps: Mapping[StoredPartition, Sequence[Gap]]

    def partitions(self, topic: str, instance: int) -> Iterator[StoredPartition]:
        """Yield the partitions of an instance, including empty ones."""
        for partition in range(len(self.manifest.positions[topic, instance])):
            yield StoredPartition(topic, instance, partition)

    def full(self) -> Manifest:
        """Return the snapshot as a full manifest.

        Ranges without records are joined to the segments before them.
        """
        return replace(
            self.manifest,
            chain=replace(
                self.manifest.chain,
                base=self.manifest.number,
                base_bytes=0,
                increments_bytes=0,
                base_created=0,
            ),
            segments=tuple(chain.from_iterable(map(_joined, self.segments.values()))),
            gaps=tuple(chain.from_iterable(self.gaps.values())),
        )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A line of `aqueduct snapshots`; records, bytes and gaps are those of ACTIVATE instances."""

    number: int
    created: int
    topics: int
    records: int
    unpacked_bytes: int
    stored_bytes: int
    gaps: int
    newest_time: int | None  # of its records, in milliseconds since 1970; None: it has none
    # topic, instance, state; of compacted topics, and of others that have more than one
    generations: tuple[tuple[str, int, InstanceState], ...]
    instances: tuple[tuple[str, int, InstanceState], ...]  # the same, of all topics


def follow(parent: Stored | None, number: int) -> Chain:
    """Return the chain fields of a snapshot after `parent`; without a parent it is full."""
    if parent is None:
        return Chain(
            number=number, parent=None, parent_sha256=None, base=number, base_bytes=0, increments_bytes=0
        )
    before = parent.manifest
    return Chain(
        number=number,
        parent=before.number,
        parent_sha256=parent.sha256,
        base=before.chain.base,
        base_bytes=parent.size if before.full else before.chain.base_bytes,
        increments_bytes=0 if before.full else before.chain.increments_bytes + parent.size,
        base_created=before.created if before.full else before.chain.base_created,
    )


def full_due(increment: Manifest) -> bool:
    """Return whether a full manifest is due.

    It is due if the increments are as large as their base, or the base is a day old, or the number before the
    increment is not its parent, because then the chain would not be one range.

    Counted in stored bytes, because an increment without new segments is not free: it holds every position.
    Let a full manifest have F bytes, and the increments after it i1, i2, ...; the next full one comes when
    I = i1 + ... + in >= F.

    Reading a snapshot: its base and the increments before the newest have at most F + F bytes, then comes the
    newest: at most 2 F + i.
    Writing: the next full manifest holds what the base and the increments hold, so it has about F + I <= 2 I
    bytes at most. Every byte of an increment so pays for two of a full one: all that is ever written is at
    most three times the increments, for any number of runs, and one full one a day.
    """
    own_chain = increment.chain
    large = own_chain.increments_bytes >= own_chain.base_bytes
    old = increment.created - own_chain.base_created >= OLDEST_BASE
    return not increment.full and (large or old or own_chain.parent != own_chain.number - 1)


class Fold:
    """Adds manifests in the order of their numbers, beginning with a full one."""

    def __init__(self) -> None:
        self._newest: Manifest | None = None
        self._sha256 = ""  # of its object
        self._segments: dict[TopicInstance, list[Segment]] = {}
        self._gaps: dict[TopicInstance, list[Gap]] = {}
        self._sums: dict[TopicInstance, tuple[int, int, int]] = {}  # records, bytes unpacked and stored
        self._times: dict[TopicInstance, int] = {}  # of the newest record

    def add(self, manifest: Manifest, sha256: str = "") -> None:
        """Add the next manifest, with the digest of its object.

        Broken if it does not build on the previous one, or if offsets are missing or covered twice.
        """
        if manifest.full:
            self._newest, self._segments, self._gaps, self._sums, self._times = None, {}, {}, {}, {}
        elif self._newest is None or manifest.chain.parent != self._newest.number:
            raise Broken(manifest.number, f"builds on snapshot {manifest.chain.parent}, which is lost")
        elif manifest.chain.parent_sha256 != self._sha256:
            reason = f"builds on another snapshot {manifest.chain.parent} than the one in the store"
            raise Broken(manifest.number, reason)
        _check(manifest, self._newest)
        self._newest, self._sha256 = manifest, sha256
        for gone in (self._segments.keys() | self._gaps.keys()) - manifest.positions.keys():
            for pieces in (self._segments, self._gaps, self._sums, self._times):
                pieces.pop(gone, None)
        for segment in manifest.segments:
            lineage = segment.topic, segment.instance
            self._segments.setdefault(lineage, []).append(segment)
            records, unpacked, stored = self._sums.get(lineage, (0, 0, 0))
            self._sums[lineage] = (
                records + segment.records,
                unpacked + segment.unpacked_bytes,
                stored + segment.stored_bytes,
            )
            if segment.max_time is not None:
                self._times[lineage] = max(segment.max_time, self._times.get(lineage, -1))
        for gap in manifest.gaps:
            self._gaps.setdefault((gap.topic, gap.instance), []).append(gap)

    def snapshot(self) -> Snapshot:
        """Return the snapshot after the last added manifest."""
        manifest = self._last()
        topics = {topic.name: topic for topic in manifest.topics}
        return Snapshot(
            manifest=manifest,
            topics=topics,
            segments=_by_partition(self._segments),
            gaps=_by_partition(self._gaps),
        )

    def summary(self, now: int = 0) -> Summary:
        """Return the summary of the snapshot, without segments that expired before `now`, in milliseconds."""
        manifest = self._last()
        active = [
            (topic.name, each.number)
            for topic in manifest.topics
            for each in topic.instances
            if each.state is InstanceState.ACTIVATE
        ]
        sums = [self._sums[lineage] for lineage in active if lineage in self._sums]
        records, unpacked, stored = map(sum, zip((0, 0, 0), *sums, strict=True))
        old = [
            segment
            for lineage in active
            if lineage[0] in manifest.lifecycle
            for segment in self._segments.get(lineage, ())
            if segment.expires is not None and segment.expires <= now
        ]
        gaps = sum(len(self._gaps.get(lineage, ())) for lineage in active)
        return Summary(
            number=manifest.number,
            created=manifest.created,
            topics=len(manifest.topics),
            records=records - sum(segment.records for segment in old),
            unpacked_bytes=unpacked - sum(segment.unpacked_bytes for segment in old),
            stored_bytes=stored - sum(segment.stored_bytes for segment in old),
            gaps=gaps + len({segment.stored_partition for segment in old}),
            newest_time=max(
                (self._times[lineage] for lineage in active if lineage in self._times), default=None
            ),
            generations=tuple(
                (topic.name, instance.number, instance.state)
                for topic in manifest.topics
                if topic.compacted or len(topic.instances) > 1
                for instance in topic.instances
            ),
            instances=tuple(
                (topic.name, instance.number, instance.state)
                for topic in manifest.topics
                for instance in topic.instances
            ),
        )

    def _last(self) -> Manifest:
        if self._newest is None:
            raise ValueError("no manifest was added")
        return self._newest


SegmentOrGap = TypeVar("SegmentOrGap", Segment, Gap)


def _by_partition(
    lineages: Mapping[TopicInstance, Sequence[SegmentOrGap]],
) -> dict[StoredPartition, tuple[SegmentOrGap, ...]]:
    pieces_by_partition: dict[tuple[str, int, int], list[SegmentOrGap]] = {}
    for piece in chain.from_iterable(lineages.values()):
        pieces_by_partition.setdefault(_PLACE(piece), []).append(piece)
    return {
        StoredPartition(*partition): tuple(sorted(pieces, key=_START))
        for partition, pieces in pieces_by_partition.items()
    }


_START = attrgetter("start")
_PLACE = itemgetter(slice(3))  # a StoredPartition's fields: of a million pieces each would take too long


def _check(manifest: Manifest, parent: Manifest | None) -> None:
    """Check a manifest; Broken if a partition isn't covered from its start to its position.

    It begins at its start, or continues where the parent left it. `parent`: None if the manifest is full.
    """
    lineages = {(topic.name, instance.number) for topic in manifest.topics for instance in topic.instances}
    for bound, of in (("start", manifest.starts), ("position", manifest.positions)):
        for topic, instance in sorted(lineages ^ of.keys()):
            which = f"no {bound}" if (topic, instance) in lineages else f"a {bound}, but is not an instance"
            raise Broken(manifest.number, f"is damaged: {topic} (g{instance}) has {which}")
    new: dict[tuple[str, int, int], list[Segment | Gap]] = {}
    pieces: Iterable[Segment | Gap] = chain[Segment | Gap](manifest.segments, manifest.gaps)
    for piece in pieces:
        new.setdefault(_PLACE(piece), []).append(piece)
    touched = {stored[:2] for stored in new}
    for lineage, positions in manifest.positions.items():
        now = manifest.starts[lineage], positions
        before = (parent.starts.get(lineage, ()), parent.positions.get(lineage, ())) if parent else ((), ())
        if now == before and lineage not in touched:
            continue
        if len(now[0]) != len(now[1]):
            which = (
                f"{lineage[0]} (g{lineage[1]}) has starts of {len(now[0])} partitions, not of {len(now[1])}"
            )
            raise Broken(manifest.number, f"is damaged: {which}")
        columns = zip_longest(*before, *now, fillvalue=NOT_READ)
        for partition, (begun, reached, start, stop) in enumerate(columns):
            stored = StoredPartition(*lineage, partition)
            mine = sorted(new.pop(stored, ()), key=_START)
            if begun not in (NOT_READ, start):
                fault = f"starts at {start}, but at {begun} in the previous snapshot"
            else:
                fault = _fault(mine, start if reached == NOT_READ else reached, stop)
            if fault:
                raise Broken(manifest.number, f"is damaged: {stored} {fault}")
    for stray in new:
        reason = f"is damaged: {StoredPartition(*stray)} is not one of its partitions"
        raise Broken(manifest.number, reason)


def _fault(pieces: Sequence[Segment | Gap], start: int, stop: int) -> str:
    """Return why pieces, sorted by start, do not cover `start` to `stop` exactly once; else empty."""
    for piece in pieces:
        if piece.start > start:
            return f"lacks offsets {start} to {piece.start - 1}"
        if piece.start < start:
            return f"has offsets {piece.start} to {min(piece.stop, start) - 1} twice"
        if piece.stop <= piece.start:
            return f"has an empty range at offset {piece.start}"
        start = piece.stop
    if start < stop:
        return f"lacks offsets {start} to {stop - 1}"
    return f"has offsets up to {start - 1}, but its position is {stop}" if start > stop else ""


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Join ranges without records to the segments before them."""
    last: Segment | None = None
    for segment in segments:
        if last and not segment.records and last.stop == segment.start:
            last = last._replace(stop=segment.stop)
        else:
            if last:
                yield last
            last = segment
    if last:
        yield last
