"""Runs of a made-up backup against a store in memory, and what the catalog then says."""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import manifests
from kit.identifiers import has_fact, raises

from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.store import names, validation
from aqueduct.store.catalog import Catalog, Parent
from aqueduct.store.manifest import (
    Chain,
    Gap,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredPartition,
    StoredTopic,
    pack,
)
from aqueduct.store.objects import Entry, Exists, MissingObject
from aqueduct.store.snapshots import (
    OLDEST_BASE,
    Broken,
    Fold,
    Snapshot,
    Stored,
    Summary,
    follow,
    full_due,
)


@dataclass
class Memory:
    """A store; `overwrites`: one whose server knows no conditional write."""

    objects: dict[str, bytes] = field(default_factory=dict)
    overwrites: bool = False
    url: str = "memory://store"
    reads: int = 0

    def read(self, path: str, at_most: int | None = None) -> memoryview:
        self.reads += 1
        if path not in self.objects:
            raise MissingObject(f"{self.url} has no object {path}.")
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
                yield Entry(path, len(self.objects[path]), 0)


@dataclass
class Source:
    """A cluster, seen by runs: what each has read of it."""

    store: str = ""  # the id of the last one that it was backed up to
    topics: dict[str, StoredTopic] = field(default_factory=dict)
    starts: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    positions: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    # by place: offsets with records, and those that were lost
    kept: dict[StoredPartition, set[int]] = field(default_factory=dict)
    lost: dict[StoredPartition, set[int]] = field(default_factory=dict)

    def make(self, name: str, partitions: int = 2, keep: int = 2) -> StoredTopic:
        """Make a topic, or its next instance; so many instances stay live."""
        former = self.topics[name].instances if name in self.topics else ()
        number = former[-1].number + 1 if former else 1
        passive = tuple(each._replace(state=InstanceState.PASSIVATE) for each in former)
        instances = (*passive, Instance(number, f"id{number}", InstanceState.ACTIVATE, 0))[-keep:]
        live = {each.number for each in instances}
        for table in (self.starts, self.positions, self.kept, self.lost):
            for key in [key for key in table if key[0] == name and key[1] not in live]:
                del table[key]
        self.positions[name, number] = [number * 7] * partitions  # what was before is deleted
        self.starts[name, number] = tuple(self.positions[name, number])
        self.topics[name] = StoredTopic(
            name=name,
            topic_id=f"id{number}",
            partitions=partitions,
            replication_factor=1,
            compacted=number > 1,
            settings={},
            instances=instances,
        )
        return self.topics[name]

    def read(self, name: str, partition: int, records: int, markers: int = 0) -> Segment:
        instance = self.topics[name].instances[-1].number
        offsets = self.positions[name, instance]
        start, stop = offsets[partition], offsets[partition] + records + markers
        offsets[partition] = stop
        self.kept.setdefault(StoredPartition(name, instance, partition), set()).update(
            range(start, start + records)
        )
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
        place = StoredPartition(name, instance, partition)
        self.lost.setdefault(place, set()).update(range(start, start + length))
        return Gap(*place, start, start + length)

    def manifest(
        self,
        parent: Parent,
        segments: tuple[Segment, ...] = (),
        gaps: tuple[Gap, ...] = (),
    ) -> Manifest:
        return manifests.manifest(
            chain=parent.follow(),
            store=self.store,
            run=f"run-{parent.manifest.number if parent.manifest else 0}",
            created=5,
            started=1,
            ended=2,
            starts=dict(self.starts),
            positions={key: tuple(offsets) for key, offsets in self.positions.items()},
            topics=tuple(self.topics.values()),
            segments=segments,
            gaps=gaps,
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
    source.store = catalog.id
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


def covered(snapshot: Snapshot) -> dict[StoredPartition, tuple[int, int]]:
    """Return by place the number of its records, and of its lost offsets."""
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
        assert isinstance(summary, Summary)
        active = {(topic.name, topic.instances[-1].number) for topic in topics.values()}
        assert summary.records == sum(count for place, (count, _) in coverage.items() if place[:2] in active)
        assert summary.unpacked_bytes == 10 * summary.records
        assert summary.stored_bytes == 3 * summary.records
        assert summary.topics == len(topics)
        assert summary.generations == tuple(
            (topic.name, each.number, each.state)
            for topic in topics.values()
            if topic.compacted or len(topic.instances) > 1
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
    segments = [each for each in full.segments if each is not harmed]
    gaps = [each for each in full.gaps if each is not harmed]
    if isinstance(harmed, Segment):
        segments += instead
    else:
        gaps += instead
    with raises(Failed, "snapshot-unusable", f"Snapshot {full.number}") as error:
        folded(replace(full, segments=tuple(segments), gaps=tuple(gaps)))
    assert re.search(r"\b[ab]-[01] \(g\d+\) ", str(error.value))


def folded(manifest: Manifest) -> Snapshot:
    fold = Fold()
    fold.add(manifest)
    return fold.snapshot()


def test_coverage_that_is_lacking_is_named() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    run(source, catalog, [("a", 1, "read", 4), ("a", 1, "read", 2), ("a", 1, "lose", 3), ("a", 1, "read", 2)])
    full = catalog.snapshot().full()
    for claims, facts in (
        ({"gaps": ()}, ("a-1 (g1)", 13, 15)),
        ({"segments": (), "gaps": ()}, ("a-1 (g1)", 7, 17)),
        ({"segments": full.segments[1:]}, ("a-1 (g1)", 7, 10)),
        ({"positions": {("a", 1): (7, 19)}}, ("a-1 (g1)", "18 to 18")),
        ({"positions": {("a", 1): (7, 17)}}, ("a-1 (g1)", "position", 17)),
        ({"positions": {("a", 1): (9, 18)}}, ("a-0 (g1)", 7, 8)),
        ({"starts": {("a", 1): (6, 7)}}, ("a-0 (g1)", "6 to 6")),
        ({"starts": {("a", 1): (7, 8)}}, ("a-1 (g1)", "7 to 7", "twice")),
        ({"starts": {("a", 1): (7,)}}, ("a (g1)", "starts", 1, 2)),
        ({"positions": {}}, ("a (g1)", "position")),
        ({"starts": {**full.starts, ("b", 1): (0,)}}, ("b (g1)", "start")),
        ({"gaps": (*full.gaps, Gap("a", 1, 2, 0, 3))}, ("a-2 (g1)",)),
        ({"gaps": (*full.gaps, Gap("b", 1, 0, 0, 3))}, ("b-0 (g1)",)),
    ):
        with raises(Failed, "snapshot-unusable", "Snapshot 1", *facts):
            folded(replace(full, **claims))  # type: ignore[arg-type]


def test_an_increment_goes_on_where_its_parent_ended() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    first = run(source, catalog, [("a", 0, "read", 5), ("b", 0, "read", 3)])
    for claims, facts in (
        ({}, ("a-0 (g1)", 13, 14)),  # there was a marker
        ({"positions": first.positions}, ()),
        (
            {"starts": {**first.starts, ("b", 1): (8, 7)}, "positions": first.positions},
            ("b-0 (g1)", 8),
        ),
        ({"positions": {**first.positions, ("b", 1): (10, 7)}}, ("b-0 (g1)", 10)),
        (
            {
                "starts": {**first.starts, ("b", 1): (7,)},
                "positions": {**first.positions, ("b", 1): first.positions["b", 1][:1]},
            },
            ("b-1 (g1)", -1, 7),
        ),
        ({"positions": {**first.positions, ("b", 1): (11, 8)}}, ("b-1 (g1)", "7 to 7")),
    ):
        fold = Fold()
        fold.add(first, "of the first")
        chain = follow(Stored(first, 100, "of the first"), 2)
        moved = {**first.positions, ("a", 1): (15, 7)}
        made = replace(first, chain=chain, positions=moved, segments=(), gaps=())
        if facts:
            with raises(Failed, "snapshot-unusable", "Snapshot 2", *facts):
                fold.add(replace(made, **claims))  # type: ignore[arg-type]
        else:
            fold.add(replace(made, **claims))  # type: ignore[arg-type]


def test_full_manifest_joins_ranges_without_records() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    run(source, catalog, [("a", 0, "markers", 1), ("a", 0, "markers", 1), ("a", 0, "read", 2)])
    run(source, catalog, [("a", 0, "markers", 3)])
    run(source, catalog, [("a", 0, "lose", 1), ("a", 0, "markers", 1)])
    ranges = [(each.start, each.stop, each.records) for each in catalog.snapshot().full().segments]
    assert ranges == [(7, 9, 0), (9, 14, 2), (15, 16, 0)]


def test_segments_of_removed_instance_leave_snapshot() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    for number in range(3):
        run(source, catalog, [("a", 0, "recreate", 1), ("a", 0, "read", number + 1)])
    assert {place.instance for place in catalog.snapshot().segments} == {3, 2}
    assert {place.instance for place in catalog.snapshot(2).segments} == {2, 1}


def test_what_reading_and_writing_cost_over_many_runs() -> None:
    """Check the arithmetic of full_due, with idle runs, busy runs, and a store that grows."""
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
    with raises(Refused, "backup-missing", "store.json"):
        Catalog.open(store)
    identity = Catalog.open_or_make(store).id
    assert Catalog.open_or_make(store).id == Catalog.open(store).id == identity
    assert Catalog.open_or_make(Memory()).id != identity


def test_a_server_that_overwrites_is_refused() -> None:
    store = Memory(overwrites=True)
    for _ in range(2):
        with raises(Refused, "store-write-unsupported", "If-None-Match"):
            Catalog.open_or_make(store)


@pytest.mark.parametrize(
    ("content", "kind", "id_", "facts"),
    [
        (b'{"format":2,"id":"a"}', Refused, "store-format-unsupported", ("format 2", 1)),
        (b'{"format":1}', Failed, "store-identity-damaged", ("id", "prefix")),
        (b'{"format":1,"id":7}', Failed, "store-identity-damaged", ()),
        (b"", Failed, "store-identity-damaged", ()),
    ],
)
def test_a_store_json_that_is_no_use(
    content: bytes, kind: type[AqueductError], id_: str, facts: tuple[object, ...]
) -> None:
    with raises(kind, id_, "memory://store/store.json", *facts):
        Catalog.open(Memory({"store.json": content}))


def test_lost_manifest_and_nonexistent_snapshot_have_different_errors() -> None:
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    for _ in range(2):
        run(source, catalog, [("a", 0, "read", 3)])
    del store.objects[names.snapshot(1)]
    with raises(Failed, "snapshot-unusable", "Snapshot 1"):
        catalog.snapshot(1)
    for number in (0, 3):
        with raises(Refused, "snapshot-missing", f"snapshot {number}"):
            catalog.snapshot(number)


def test_no_such_snapshot() -> None:
    source, catalog = Source(), Catalog.open_or_make(Memory())
    with raises(Refused, "snapshot-missing"):
        catalog.snapshot()
    run(source, catalog, [("a", 0, "read", 3)])
    with raises(Refused, "snapshot-missing", "snapshot 7"):
        catalog.snapshot(7)


RUNS = 6
FULL = (1, 4)


@pytest.fixture(scope="module")
def made() -> tuple[Source, Memory]:
    """Return a store of six snapshots; 2 and 3 build on 1, 5 and 6 on 4."""
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    with pytest.MonkeyPatch.context() as due:
        due.setattr("aqueduct.store.catalog.full_due", lambda each: each.number in FULL)
        for number in range(1, RUNS + 1):
            run(source, catalog, [("a", 0, "read", number), ("b", 1, "read", number)])
    return source, store


@pytest.fixture
def broken(made: tuple[Source, Memory]) -> tuple[Source, Memory, Catalog]:
    """Copy the store, so that a test can break it."""
    source, store = deepcopy(made)
    return source, store, Catalog.open(store)


def told(catalog: Catalog) -> list[int | str]:
    return [each.why if isinstance(each, Broken) else each.number for each in catalog.summaries()]


@given(
    lost=st.sets(st.integers(1, RUNS)),
    cut=st.sets(st.integers(1, RUNS)),
    flipped=st.sets(st.integers(1, RUNS)),
)
def test_only_intact_snapshots_are_usable_and_continued(
    made: tuple[Source, Memory], lost: set[int], cut: set[int], flipped: set[int]
) -> None:
    store = deepcopy(made[1])
    catalog = Catalog.open(store)
    for number in cut:
        store.objects[names.snapshot(number)] = store.objects[names.snapshot(number)][:-1]
    for number in flipped:
        data = bytearray(store.objects[names.snapshot(number)])
        data[-9] ^= 1
        store.objects[names.snapshot(number)] = bytes(data)
    for number in lost:
        del store.objects[names.snapshot(number)]
    harmed = lost | cut | flipped
    there = sorted(set(range(1, RUNS + 1)) - lost)
    whole = [each for each in there if not harmed & set(range(max(f for f in FULL if f <= each), each + 1))]
    assert [each for each in told(catalog) if isinstance(each, int)] == whole
    for number in there:
        if number in whole:
            assert catalog.snapshot(number).manifest.number == number
        else:
            way = f"--snapshot {whole[-1]}" if whole else "memory://store"
            with raises(Failed, "snapshot-unusable", f"Snapshot {number}", way):
                catalog.snapshot(number)
    if not there:
        assert catalog.parent() == Parent(None, 1)
        return
    newest = there[-1]
    ways = [f"snapshot {whole[-1]}"] if whole else []
    below = range(max(f for f in FULL if f <= newest), newest)
    if newest in harmed or (lost | cut) & set(below):
        with raises(Failed, "snapshot-unusable", f"Snapshot {newest}", "--past-damage", *ways):
            catalog.parent()
    followed = catalog.parent(past_damage=True)
    assert (followed.number, followed.manifest and followed.manifest.number) == (
        newest + 1,
        whole[-1] if whole else None,
    )


def test_run_past_damage_rereads_records_and_continues_chain(
    broken: tuple[Source, Memory, Catalog],
) -> None:
    source, store, catalog = broken
    expected = covered(catalog.snapshot())
    before = catalog.manifest(3).positions
    del store.objects[names.snapshot(4)]
    assert told(catalog) == [
        *(1, 2, 3, "is lost"),
        *["builds on snapshot 4, which is lost"] * 2,
    ]
    parent = catalog.parent(past_damage=True)
    again = []
    for (topic, instance), positions in source.positions.items():
        for partition, now in enumerate(positions):
            place, then = StoredPartition(topic, instance, partition), before[topic, instance][partition]
            if then < now:
                kept = len([each for each in source.kept[place] if each >= then])
                source.positions[topic, instance][partition] = then
                again.append(source.read(topic, partition, kept, now - then - kept))
    made = catalog.commit(source.manifest(parent, tuple(again)))
    assert (made.number, made.chain.parent, made.full) == (7, 3, True)
    assert covered(catalog.snapshot()) == expected
    assert not run(source, catalog, [("a", 0, "read", 1)]).full
    assert told(catalog)[-2:] == [7, 8]
    assert catalog.parent() == catalog.parent(past_damage=True)


def test_run_past_damage_starts_anew_without_intact_snapshot() -> None:
    source, store = Source(), Memory()
    catalog = Catalog.open_or_make(store)
    run(source, catalog, [("a", 0, "read", 3)])
    store.objects[names.snapshot(1)] = b""
    parent = catalog.parent(past_damage=True)
    assert parent == Parent(None, 2)
    made = catalog.commit(Source(catalog.id).manifest(parent))
    assert (made.number, made.chain.parent, made.full) == (2, None, True)
    assert catalog.snapshot().manifest == made


def test_full_backup_finds_damaged_base_of_right_size(
    broken: tuple[Source, Memory, Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, store, catalog = broken
    store.objects[names.snapshot(4)] = bytes(len(store.objects[names.snapshot(4)]))
    monkeypatch.setattr("aqueduct.store.catalog.full_due", lambda each: each.number == 8)
    run(source, catalog, [])
    with raises(Failed, "snapshot-unusable", "Snapshot 8", "snapshot 4", "--past-damage"):
        run(source, catalog, [])
    assert catalog.numbers()[-1] == 7


def test_manifests_of_two_stores_are_told_apart(broken: tuple[Source, Memory, Catalog]) -> None:
    _, store, catalog = broken
    source, other = Source(), Memory()
    elsewhere = Catalog.open_or_make(other)
    for _ in range(5):
        run(source, elsewhere, [("a", 0, "read", 2)])
    store.objects[names.snapshot(5)] = other.objects[names.snapshot(5)]
    read, fifth, sixth = told(catalog)[3:]
    assert read == 4
    assert all(has_fact(fifth, fact) for fact in ("another store", elsewhere.id, catalog.id))
    assert sixth == f"builds on snapshot 5, which {fifth}"
    with raises(
        Failed, "snapshot-unusable", "Snapshot 6", "snapshot 5", elsewhere.id, catalog.id, "--snapshot 4"
    ):
        catalog.snapshot()


def test_diverged_copies_of_store_are_distinguished(
    broken: tuple[Source, Memory, Catalog],
) -> None:
    source, store, catalog = broken
    sixth = store.objects.pop(names.snapshot(6))
    del store.objects[names.snapshot(5)]
    source.positions = {key: list(at) for key, at in catalog.manifest(4).positions.items()}
    assert run(source, catalog, [("a", 0, "read", 4)]).number == 5
    store.objects[names.snapshot(6)] = sixth
    read, reason = told(catalog)[4:]
    assert (read, "another snapshot 5" in reason) == (5, True)
    with raises(Failed, "snapshot-unusable", "Snapshot 6", "another snapshot 5", "--snapshot 5"):
        catalog.snapshot()
    with raises(Failed, "snapshot-unusable", "Snapshot 6", "--past-damage", "after snapshot 5"):
        catalog.parent()


@pytest.mark.parametrize("number", range(1, RUNS + 1))
def test_rewritten_manifest_without_segments_is_found(
    broken: tuple[Source, Memory, Catalog], number: int
) -> None:
    _, store, catalog = broken
    harmed = replace(catalog.manifest(number), segments=())
    store.objects[names.snapshot(number)] = pack(harmed)
    found = told(catalog)
    assert str(found[number - 1]).startswith("is damaged: a-0 (g1) lacks offsets ")
    assert [each for each in found if isinstance(each, int)] == [
        each for each in range(1, 7) if each < number or (each > 3 >= number)
    ]
    with raises(Failed, "snapshot-unusable", f"Snapshot {number}", "a-0 (g1)"):
        catalog.snapshot(number)


def test_manifest_under_wrong_name_is_unusable(broken: tuple[Source, Memory, Catalog]) -> None:
    _, store, catalog = broken
    store.objects[names.snapshot(2)] = store.objects[names.snapshot(1)]
    with raises(Failed, "snapshot-unusable", "Snapshot 2", "0000000002.json.zst", "snapshot 1"):
        catalog.snapshot(2)


def test_the_first_is_full_and_stands_alone() -> None:
    first = Source().manifest(Parent(None, 1))
    assert (first.full, first.number, first.chain.parent, first.chain.parent_sha256) == (True, 1, None, None)
    second = replace(first, chain=follow(Stored(first, 100, "1st"), 2))
    assert second.chain == Chain(
        number=2,
        parent=1,
        parent_sha256="1st",
        base=1,
        base_bytes=100,
        increments_bytes=0,
        base_created=first.created,
    )
    third = replace(first, chain=follow(Stored(second, 60, "2nd"), 3))
    assert (third.chain, full_due(third)) == (
        Chain(
            number=3,
            parent=2,
            parent_sha256="2nd",
            base=1,
            base_bytes=100,
            increments_bytes=60,
            base_created=first.created,
        ),
        False,
    )
    fourth = replace(first, chain=follow(Stored(third, 40, "3rd"), 4))
    assert (fourth.chain.increments_bytes, full_due(fourth)) == (100, True)
    assert full_due(replace(first, chain=follow(Stored(second, 60, "2nd"), 4)))
    for age in (OLDEST_BASE - 1, OLDEST_BASE):  # however small what was added since
        assert full_due(replace(third, created=first.created + age)) == (age >= OLDEST_BASE)
    assert full_due(replace(third, created=OLDEST_BASE, chain=replace(third.chain, base_created=0)))


def test_what_was_pruned_is_not_lost(broken: tuple[Source, Memory, Catalog]) -> None:
    """A chain loses its end, then all of it; what stays is read, and built upon."""
    source, store, catalog = broken
    for gone, left in ((3, [1, 2, 4, 5, 6]), (2, [1, 4, 5, 6]), (1, [4, 5, 6])):
        del store.objects[names.snapshot(gone)]
        assert told(catalog) == left
        for number in left:
            assert catalog.snapshot(number).manifest.number == number
        with raises(Refused, "snapshot-missing", f"snapshot {gone}", "memory://store", "aqueduct snapshots"):
            catalog.snapshot(gone)
    assert run(source, catalog, [("a", 0, "read", 2)]).number == 7
    assert told(catalog) == [4, 5, 6, 7]


def test_what_is_lost_is_not_taken_for_pruned(broken: tuple[Source, Memory, Catalog]) -> None:
    _, store, catalog = broken
    for number in (2, 3, 4):
        del store.objects[names.snapshot(number)]
    assert told(catalog) == [1, "is lost", *["builds on snapshot 4, which is lost"] * 2]
    with raises(Failed, "snapshot-unusable", "Snapshot 4", "lost", "memory://store"):
        catalog.snapshot(4)
    with raises(Failed, "snapshot-unusable", "Snapshot 6", "snapshot 4", "lost"):
        catalog.parent()
    with raises(Refused, "snapshot-missing", "snapshot 3", "memory://store"):
        catalog.snapshot(3)
    del store.objects[names.snapshot(5)]
    assert told(catalog) == [1, "are lost", "builds on snapshot 5, which is lost"]


@pytest.mark.parametrize(
    ("written", "created", "odd"),
    [
        (5_000, 0, False),  # one a second, and a thousand more
        (3_999, 0, True),
        (0, 5_000, True),  # whoever planted it says so, but it was written too soon
    ],
)
def test_elapsed_time_limits_step_between_snapshot_numbers(written: float, created: int, odd: bool) -> None:
    listed = {7: Entry("7", 1, 0), 5_007: Entry("5007", 1, written)}
    made = {7: 0, 5_007: created * 1000}
    assert list(validation.odd_snapshots(listed, made.get)) == ([5_007] if odd else [])


def test_manifests_give_times_in_copied_store() -> None:
    """There all were written at once."""
    listed = {7: Entry("7", 1, 9_000), 5_007: Entry("5007", 1, 9_000), 12_000: Entry("12000", 1, 9_000)}
    made = {7: 1_000_000, 5_007: 8_000_000, 12_000: 8_500_000}
    assert list(validation.odd_snapshots(listed, made.get)) == [12_000]
    assert list(validation.odd_snapshots(listed)) == [5_007, 12_000]


class TestStoreJson:
    """The store's JSON: one small object on which everything depends."""

    @pytest.fixture
    def store(self, made: tuple[Source, Memory]) -> Memory:
        return deepcopy(made[1])

    @pytest.mark.parametrize("opened", [Catalog.open, Catalog.open_or_make])
    @pytest.mark.parametrize("content", [None, b"", b'{"format":1,"id":7}'])
    def test_lost_or_damaged(
        self, store: Memory, content: bytes | None, opened: Callable[[Memory], Catalog]
    ) -> None:
        good = store.objects.pop(names.STORE)
        if content is not None:
            store.objects[names.STORE] = content
        before = dict(store.objects)
        with raises(Failed, "store-identity-damaged", "memory://store/store.json") as told:
            opened(store)
        assert store.objects == before
        assert has_fact(str(told.value), f"snapshot 6: {good.decode()}")
        assert ("is lost, but the store has snapshots (6)." in str(told.value)) == (content is None)
        # As people write files: with a line's end.
        store.objects[names.STORE] = good + b"\n"
        assert opened(store).snapshot().manifest.number == 6

    def test_newest_readable_manifest_gives_lost_store_identity(self, store: Memory) -> None:
        good = store.objects.pop(names.STORE)
        store.objects[names.snapshot(6)] = b"no manifest"
        with raises(Failed, "store-identity-damaged", "snapshot 5", good.decode()):
            Catalog.open(store)
        for number in range(1, 6):
            store.objects[names.snapshot(number)] = b"no manifest"
        with raises(Failed, "store-identity-damaged", "(6)") as error:
            Catalog.open(store)
        assert good.decode() not in str(error.value), "no manifest says what it was"

    def test_of_another_store(self, store: Memory) -> None:
        store.objects[names.STORE] = b'{"format":1,"id":"other"}'
        catalog = Catalog.open_or_make(store)
        with raises(Failed, "snapshot-unusable", "Snapshot 6", "store.json", "other", "--past-damage"):
            catalog.parent()
        assert catalog.parent(past_damage=True) == Parent(None, 7)
