"""Runs of a made-up backup against a store in memory, and what the catalog then says."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct.errors import Failed, Refused
from aqueduct.store import names
from aqueduct.store.catalog import Catalog, Parent
from aqueduct.store.manifest import Gap, Instance, Manifest, Place, Segment, State, Topic, pack
from aqueduct.store.objects import Entry, Exists, Missing
from aqueduct.store.snapshots import Fold, Snapshot, follow, full_due


@dataclass
class Memory:
    """A store; `overwrites`: one whose server knows no conditional write."""

    objects: dict[str, bytes] = field(default_factory=dict)
    overwrites: bool = False
    url: str = "memory://store"
    reads: int = 0

    def read(self, path: str) -> memoryview:
        self.reads += 1
        if path not in self.objects:
            raise Missing(f"{self.url} has no object {path}.")
        return memoryview(self.objects[path])

    def stream(self, path: str, chunk_bytes: int = 0) -> Iterator[memoryview]:
        yield self.read(path)

    def create(self, path: str, data: bytes | bytearray | memoryview) -> None:
        if not self.overwrites and self.objects.get(path, data) != data:
            raise Exists(f"{self.url} has {path} already.")
        self.objects[path] = bytes(data)

    def head(self, path: str) -> int | None:
        return len(self.objects[path]) if path in self.objects else None

    def list(self, prefix: str, after: str | None = None) -> Iterator[Entry]:
        for path in sorted(self.objects):
            if path.startswith(f"{prefix}/") and (after is None or path > after):
                yield Entry(path, len(self.objects[path]))


@dataclass
class Source:
    """A cluster, seen by runs: what each has read of it."""

    topics: dict[str, Topic] = field(default_factory=dict)
    positions: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    # by place: offsets with records, and those that were lost
    kept: dict[Place, set[int]] = field(default_factory=dict)
    lost: dict[Place, set[int]] = field(default_factory=dict)

    def make(self, name: str, partitions: int = 2, keep: int = 2) -> Topic:
        """A topic, or its next instance; so many instances stay live."""
        former = self.topics[name].instances if name in self.topics else ()
        number = former[-1].number + 1 if former else 1
        passive = tuple(each._replace(state=State.PASSIVATE) for each in former)
        instances = (*passive, Instance(number, f"id{number}", State.ACTIVATE, 0))[-keep:]
        live = {each.number for each in instances}
        for table in (self.positions, self.kept, self.lost):
            for key in [key for key in table if key[0] == name and key[1] not in live]:
                del table[key]
        self.positions[name, number] = [0] * partitions
        self.topics[name] = Topic(name, f"id{number}", partitions, 1, number > 1, {}, instances)
        return self.topics[name]

    def read(self, name: str, partition: int, records: int, markers: int = 0) -> Segment:
        instance = self.topics[name].instances[-1].number
        offsets = self.positions[name, instance]
        start, stop = offsets[partition], offsets[partition] + records + markers
        offsets[partition] = stop
        self.kept.setdefault(Place(name, instance, partition), set()).update(range(start, start + records))
        return Segment(
            name,
            instance,
            partition,
            start,
            stop,
            start if records else None,
            start + records - 1 if records else None,
            records,
            records * 10,
            records * 3,
            f"{start:064}" if records else "",
            1,
            "",
            None,
            None,
            "r",
            True,
            False,
        )

    def lose(self, name: str, partition: int, length: int) -> Gap:
        instance = self.topics[name].instances[-1].number
        offsets = self.positions[name, instance]
        start = offsets[partition]
        offsets[partition] += length
        place = Place(name, instance, partition)
        self.lost.setdefault(place, set()).update(range(start, start + length))
        return Gap(*place, start, start + length)

    def manifest(
        self,
        parent: Parent,
        segments: tuple[Segment, ...] = (),
        gaps: tuple[Gap, ...] = (),
    ) -> Manifest:
        return Manifest(
            chain=parent.follow(),
            run=f"run-{parent.manifest.number if parent.manifest else 0}",
            created=5,
            started=1,
            ended=2,
            cluster="c",
            version="0",
            options={},
            positions={key: tuple(offsets) for key, offsets in self.positions.items()},
            topics=tuple(self.topics.values()),
            segments=segments,
            gaps=gaps,
            groups=(),
            acls=(),
            quotas=(),
            open_transactions=(),
            groups_ahead=(),
        )


actions = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 1),
        st.sampled_from(["read", "read", "markers", "lose", "recreate"]),
        st.integers(1, 5),
    ),
    max_size=4,
)


def run(source: Source, catalog: Catalog, steps: list[tuple[str, int, str, int]]) -> Manifest:
    parent = catalog.parent()
    segments: list[Segment] = []
    gaps: list[Gap] = []
    for name, partition, step, length in steps:
        if name not in source.topics or step == "recreate":
            topic = source.make(name)
            live = {each.number for each in topic.instances}
            # A run does not commit what it read of an instance that it drops.
            segments = [each for each in segments if each.topic != name or each.instance in live]
            gaps = [each for each in gaps if each.topic != name or each.instance in live]
        if step == "read":
            segments.append(source.read(name, partition, length, markers=length % 2))
        elif step == "markers":
            segments.append(source.read(name, partition, 0, markers=length))
        elif step == "lose":
            gaps.append(source.lose(name, partition, length))
    return catalog.commit(source.manifest(parent, tuple(segments), tuple(gaps)))


def covered(snapshot: Snapshot) -> dict[Place, tuple[int, int]]:
    """By place: how many records it has, and how many offsets were lost."""
    places = snapshot.segments.keys() | snapshot.gaps.keys()
    return {
        place: (
            sum(each.records for each in snapshot.segments.get(place, ())),
            sum(each.stop - each.start for each in snapshot.gaps.get(place, ())),
        )
        for place in places
    }


@settings(max_examples=60)
@given(st.lists(actions, min_size=1, max_size=12))
def test_every_snapshot_is_what_its_run_saw(runs: list[list[tuple[str, int, str, int]]]) -> None:
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    seen = []
    for steps in runs:
        run(source, catalog, steps)
        places = source.kept.keys() | source.lost.keys()
        coverage = {
            place: (len(source.kept.get(place, ())), len(source.lost.get(place, ()))) for place in places
        }
        seen.append((dict(source.topics), coverage, {k: tuple(v) for k, v in source.positions.items()}))
    assert catalog.numbers() == list(range(1, len(runs) + 1))
    for number, (topics, coverage, positions) in enumerate(seen, 1):
        snapshot = catalog.snapshot(number)
        assert (snapshot.topics, covered(snapshot)) == (topics, coverage)
        assert snapshot.manifest.positions == positions
    for summary, (topics, coverage, _) in zip(catalog.summaries(), seen, strict=True):
        active = {(topic.name, topic.instances[-1].number) for topic in topics.values()}
        assert summary.records == sum(count for place, (count, _) in coverage.items() if place[:2] in active)
        assert summary.unpacked_bytes == 10 * summary.records
        assert summary.stored_bytes == 3 * summary.records
        assert summary.topics == len(topics)
        assert summary.generations == tuple(
            (topic.name, each.number, each.state)
            for topic in topics.values()
            if topic.compacted
            for each in topic.instances
        )


@settings(max_examples=60)
@given(st.lists(actions, min_size=1, max_size=6), st.data())
def test_what_is_not_covered_is_found(
    runs: list[list[tuple[str, int, str, int]]], data: st.DataObject
) -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    for steps in [[("a", 0, "read", 3)], *runs]:
        run(source, catalog, steps)
    full = catalog.snapshot().full()
    assert folded(full).full() == full
    pieces = [*full.segments, *full.gaps]
    if not pieces:
        return
    harmed = data.draw(st.sampled_from(pieces))
    position = full.positions[harmed.place[:2]][harmed.partition]
    instead = data.draw(
        st.sampled_from(
            [
                [],
                [harmed, harmed],
                [harmed._replace(stop=harmed.stop + 1)],
                [harmed._replace(stop=harmed.start)],
            ]
        )
    )
    whole_place = [each for each in pieces if each.place == harmed.place]
    if not instead and (whole_place[0] is harmed or len(whole_place) == 1):
        return  # where a partition's first offsets are missing nothing tells that they were there
    if not instead and harmed.start == min(each.start for each in whole_place):
        return
    assert position >= harmed.stop
    segments = [each for each in full.segments if each is not harmed]
    gaps = [each for each in full.gaps if each is not harmed]
    if isinstance(harmed, Segment):
        segments += instead
    else:
        gaps += instead
    with pytest.raises(Failed, match=r"^Snapshot \d+ is damaged: [ab]-[01] \(g\d+\) "):
        folded(replace(full, segments=tuple(segments), gaps=tuple(gaps)))


def folded(manifest: Manifest) -> Snapshot:
    fold = Fold()
    fold.add(manifest)
    return fold.snapshot()


def test_coverage_that_is_lacking_is_named() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    run(source, catalog, [("a", 1, "read", 4), ("a", 1, "read", 2), ("a", 1, "lose", 3), ("a", 1, "read", 2)])
    full = catalog.snapshot().full()
    with pytest.raises(Failed, match=r"^Snapshot 1 is damaged: a-1 \(g1\) lacks offsets 6 to 8\.$"):
        folded(replace(full, gaps=()))
    with pytest.raises(Failed, match=r"a-1 \(g1\) ends at 11, not at its position 12\.$"):
        folded(replace(full, positions={("a", 1): (0, 12)}, segments=full.segments))
    with pytest.raises(Failed, match=r"a \(g1\) has no position\.$"):
        folded(replace(full, positions={}))


def test_ranges_without_records_are_joined_in_a_full_manifest() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    run(source, catalog, [("a", 0, "markers", 1), ("a", 0, "markers", 1), ("a", 0, "read", 2)])
    run(source, catalog, [("a", 0, "markers", 3)])
    run(source, catalog, [("a", 0, "lose", 1), ("a", 0, "markers", 1)])
    ranges = [(each.start, each.stop, each.records) for each in catalog.snapshot().full().segments]
    assert ranges == [(0, 2, 0), (2, 7, 2), (8, 9, 0)]


def test_an_instance_that_left_takes_its_segments_with_it() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    for number in range(3):
        run(source, catalog, [("a", 0, "recreate", 1), ("a", 0, "read", number + 1)])
    assert {place.instance for place in catalog.snapshot().segments} == {3, 2}
    assert {place.instance for place in catalog.snapshot(2).segments} == {2, 1}


def test_what_reading_and_writing_cost_over_many_runs() -> None:
    """The arithmetic of full_due, with idle runs, busy runs, and a store that grows."""
    store = Memory()
    source, catalog = Source(), Catalog.open_or_make(store)
    for number in range(300):
        steps = [("a", 0, "read", 1)] * (20 if number % 10 == 0 else number % 3)
        written = run(source, catalog, [*steps, ("b", 0, "read", 1)] if number == 0 else steps)
        if written.full and number:
            newest = written.number
        sizes = {each: store.head(names.snapshot(each)) or 0 for each in catalog.numbers()}
        chain = range(written.chain.base, written.number + 1)
        largest = max(sizes.values()) if written.number < 3 else sizes[written.number]
        assert sum(sizes[each] for each in chain) <= 2 * sizes[written.chain.base] + largest
    fulls = [each for each in catalog.numbers() if catalog.manifest(each).full]
    increments = sum(sizes[each] for each in catalog.numbers() if each not in fulls)
    assert newest > 100
    assert 2 < len(fulls) < 100
    assert sum(sizes.values()) <= 3 * increments


def test_a_run_reads_only_the_newest_manifest() -> None:
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    run(source, catalog, [("a", 0, "read", 3)])
    run(source, catalog, [("a", 0, "read", 3)])
    store.reads = 0
    increment = source.manifest(catalog.parent())
    assert not full_due(replace(increment, chain=replace(increment.chain, base_bytes=10**9)))
    assert store.reads == 1


def test_of_two_runs_at_once_one_wins() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    run(source, catalog, [("a", 0, "read", 3)])
    mine = source.manifest(catalog.parent(), segments=(source.read("a", 0, 1),))
    other = replace(mine, run="other")
    assert catalog.commit(mine) == mine
    assert catalog.commit(mine) == mine  # its answer may have been lost
    with pytest.raises(Exists):
        catalog.commit(other)
    assert catalog.manifest(2).run == mine.run


def test_a_store_is_made_once() -> None:
    store = Memory()
    with pytest.raises(Refused, match=r"^There is no backup in memory://store: store.json is missing\.$"):
        Catalog.open(store)
    identity = Catalog.open_or_make(store).id
    assert Catalog.open_or_make(store).id == Catalog.open(store).id == identity
    assert Catalog.open_or_make(Memory()).id != identity


def test_a_server_that_overwrites_is_refused() -> None:
    store = Memory(overwrites=True)
    for _ in range(2):
        with pytest.raises(Refused, match="If-None-Match"):
            Catalog.open_or_make(store)


@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (b'{"format":2,"id":"a"}', Refused, "update Aqueduct"),
        (b'{"format":1}', Failed, "damaged"),
        (b'{"format":1,"id":7}', Failed, "damaged"),
        (b"", Failed, "damaged"),
    ],
)
def test_a_store_json_that_is_no_use(content: bytes, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=rf"^memory://store/store\.json .*{sentence}"):
        Catalog.open(Memory({"store.json": content}))


def test_no_such_snapshot() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    with pytest.raises(Refused, match=r"^There is no snapshot in memory://store yet\.$"):
        catalog.snapshot()
    run(source, catalog, [("a", 0, "read", 3)])
    with pytest.raises(Refused, match=r"^There is no snapshot 7 in memory://store\.$"):
        catalog.snapshot(7)


def test_a_chain_with_a_manifest_missing_or_in_another_place_is_damaged() -> None:
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    first = run(source, catalog, [("a", 0, "read", 3)])
    second = source.manifest(Parent(first, 10**6))
    third = source.manifest(Parent(second, 10))
    store.create(names.snapshot(2), pack(second))
    store.create(names.snapshot(3), pack(third))
    assert catalog.snapshot().manifest == third
    whole = store.objects.pop(names.snapshot(2))
    with pytest.raises(Failed, match=r"^Snapshot 3 is damaged: memory://store has no object snapshots/"):
        catalog.snapshot()
    store.objects[names.snapshot(2)] = store.objects[names.snapshot(1)]
    with pytest.raises(Failed, match=r"0000000002\.json\.zst is damaged: it says that it is snapshot 1\.$"):
        catalog.snapshot()
    store.objects[names.snapshot(2)] = whole[:-1]
    with pytest.raises(Failed, match=r"0000000002\.json\.zst is damaged"):
        catalog.snapshot()
    fold = Fold()
    with pytest.raises(Failed, match=r"^Snapshot 3 does not follow nothing"):
        fold.add(third)


def test_the_first_is_full_and_stands_alone() -> None:
    first = Source().manifest(Parent(None, 0))
    assert (first.full, first.number, first.chain.parent) == (True, 1, None)
    second = replace(first, chain=follow(first, 100))
    assert (second.full, second.chain.base_bytes, second.chain.increments_bytes) == (False, 100, 0)
    third = replace(first, chain=follow(second, 60))
    assert (third.chain.base_bytes, third.chain.increments_bytes, full_due(third)) == (100, 60, False)
    fourth = replace(first, chain=follow(third, 40))
    assert (fourth.chain.increments_bytes, full_due(fourth)) == (100, True)
