"""A snapshot: what the manifests from a full one on add up to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from aqueduct.errors import Failed
from aqueduct.store.manifest import NOT_READ, Chain, Gap, Manifest, Place, Segment, State, Topic

Lineage = tuple[str, int]  # topic, instance


@dataclass(frozen=True)
class Snapshot:
    """Everything that is live at one number, the coverage of every partition checked."""

    manifest: Manifest  # of that number: groups, ACLs, quotas, times
    topics: Mapping[str, Topic]
    segments: Mapping[Place, Sequence[Segment]]  # of a place: in the order of offsets
    gaps: Mapping[Place, Sequence[Gap]]

    def places(self, topic: str, instance: int) -> Iterator[Place]:
        """The partitions of an instance, empty ones too."""
        for partition in range(len(self.manifest.positions[topic, instance])):
            yield Place(topic, instance, partition)

    def full(self) -> Manifest:
        """The same as a full manifest; ranges without records are joined to the segments before them."""
        return replace(
            self.manifest,
            chain=replace(self.manifest.chain, base=self.manifest.number, base_bytes=0, increments_bytes=0),
            topics=tuple(self.topics.values()),
            segments=tuple(chain.from_iterable(map(_joined, self.segments.values()))),
            gaps=tuple(chain.from_iterable(self.gaps.values())),
        )


@dataclass(frozen=True)
class Summary:
    """A line of `aqueduct snapshots`; records, bytes and gaps are those of ACTIVATE instances."""

    number: int
    created: int
    topics: int
    records: int
    unpacked_bytes: int
    stored_bytes: int
    gaps: int
    generations: tuple[tuple[str, int, State], ...]  # topic, instance, state; of compacted topics


def follow(parent: Manifest | None, stored_bytes: int) -> Chain:
    """Where the snapshot after `parent` stands, whose object has so many bytes.

    Without a parent it is the store's first, and full.
    """
    if parent is None:
        return Chain(number=1, parent=None, base=1, base_bytes=0, increments_bytes=0)
    return Chain(
        number=parent.number + 1,
        parent=parent.number,
        base=parent.chain.base,
        base_bytes=stored_bytes if parent.full else parent.chain.base_bytes,
        increments_bytes=0 if parent.full else parent.chain.increments_bytes + stored_bytes,
    )


def full_due(increment: Manifest) -> bool:
    """Whether it is to be written as a full manifest: the increments before it are as large as their base.

    Counted in stored bytes, because an increment without new segments is not free: it holds every position.
    Let a full manifest have F bytes, and the increments after it i1, i2, ...; the next full one comes when
    I = i1 + ... + in >= F.

    Reading a snapshot: its base and the increments before the newest have at most F + F bytes, then comes the
    newest: at most 2 F + i.
    Writing: the next full manifest holds what the base and the increments hold, so it has about F + I <= 2 I
    bytes at most. Every byte of an increment so pays for two of a full one: all that is ever written is at
    most three times the increments, for any number of runs.
    """
    return not increment.full and increment.chain.increments_bytes >= increment.chain.base_bytes


class Fold:
    """Adds manifests up, in the order of their numbers, beginning with a full one."""

    def __init__(self) -> None:
        self._newest: Manifest | None = None
        self._topics: dict[str, Topic] = {}
        self._segments: dict[Lineage, list[Segment]] = {}
        self._gaps: dict[Lineage, list[Gap]] = {}
        self._sums: dict[Lineage, tuple[int, int, int]] = {}  # records, bytes unpacked and stored

    def add(self, manifest: Manifest) -> None:
        """Failed if it does not follow the one before it."""
        if manifest.full:
            self._segments, self._gaps, self._sums = {}, {}, {}
        elif self._newest is None or manifest.chain.parent != self._newest.number:
            before = f"snapshot {self._newest.number}" if self._newest else "nothing"
            raise Failed(f"Snapshot {manifest.number} does not follow {before}: the store is damaged.")
        self._newest = manifest
        self._topics = {topic.name: topic for topic in manifest.topics}
        live = {(topic.name, each.number) for topic in manifest.topics for each in topic.instances}
        for gone in (self._segments.keys() | self._gaps.keys()) - live:
            for pieces in (self._segments, self._gaps, self._sums):
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
        for gap in manifest.gaps:
            self._gaps.setdefault((gap.topic, gap.instance), []).append(gap)

    def snapshot(self) -> Snapshot:
        """What it is now. Failed where offsets are covered by nothing, or twice."""
        manifest = self._last()
        segments, gaps = _by_place(self._segments), _by_place(self._gaps)
        snapshot = Snapshot(manifest, dict(self._topics), segments, gaps)
        _check(snapshot)
        return snapshot

    def summary(self) -> Summary:
        manifest = self._last()
        active = [
            (topic.name, each.number)
            for topic in self._topics.values()
            for each in topic.instances
            if each.state is State.ACTIVATE
        ]
        sums = [self._sums[each] for each in active if each in self._sums]
        records, unpacked, stored = map(sum, zip((0, 0, 0), *sums, strict=True))
        return Summary(
            manifest.number,
            manifest.created,
            len(self._topics),
            records,
            unpacked,
            stored,
            sum(len(self._gaps.get(each, ())) for each in active),
            tuple(
                (topic.name, each.number, each.state)
                for topic in self._topics.values()
                if topic.compacted
                for each in topic.instances
            ),
        )

    def _last(self) -> Manifest:
        if self._newest is None:
            raise ValueError("no manifest was added")
        return self._newest


Piece = TypeVar("Piece", Segment, Gap)


def _by_place(lineages: Mapping[Lineage, Sequence[Piece]]) -> dict[Place, tuple[Piece, ...]]:
    found: dict[Place, list[Piece]] = {}
    for piece in chain.from_iterable(lineages.values()):
        found.setdefault(piece.place, []).append(piece)
    return {place: tuple(sorted(pieces, key=_START)) for place, pieces in found.items()}


_START = attrgetter("start")


def _check(snapshot: Snapshot) -> None:
    number, positions = snapshot.manifest.number, snapshot.manifest.positions
    lineages = {(topic.name, each.number) for topic in snapshot.topics.values() for each in topic.instances}
    if odd := sorted(lineages ^ positions.keys()):
        topic, instance = odd[0]
        which = "no position" if odd[0] in lineages else "a position, but is no instance"
        raise Failed(f"Snapshot {number} is damaged: {topic} (g{instance}) has {which}.")
    for place in snapshot.segments.keys() | snapshot.gaps.keys():
        offsets = positions.get(place[:2], ())
        position = offsets[place.partition] if place.partition < len(offsets) else NOT_READ
        pieces: list[Segment | Gap] = [*snapshot.segments.get(place, ()), *snapshot.gaps.get(place, ())]
        if fault := _fault(sorted(pieces, key=_START), position):
            raise Failed(f"Snapshot {number} is damaged: {place} {fault}.")


def _fault(pieces: Sequence[Segment | Gap], position: int) -> str | None:
    """What is wrong where pieces, sorted by their starts, are not one range up to the position."""
    expected = pieces[0].start
    for piece in pieces:
        if piece.start > expected:
            return f"lacks offsets {expected} to {piece.start - 1}"
        if piece.start < expected:
            return f"has offsets {piece.start} to {min(piece.stop, expected) - 1} twice"
        if piece.stop <= piece.start:
            return f"has an empty range at offset {piece.start}"
        expected = piece.stop
    return f"ends at {expected}, not at its position {position}" if expected != position else None


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Ranges without records joined to what is before them."""
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
