"""The offsets that a run reads, recreated topics, due generations, and what then counts."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from kit.manifests import manifest

from aqueduct.snapshots.backup.plan import (
    BackupPlan,
    Generations,
    PlannedReading,
    ReadingResult,
    Source,
    active_instance,
    plan,
    settle,
    shares,
)
from aqueduct.store.manifest import (
    NOT_READ,
    Gap,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredPartition,
)

HOUR = 3_600_000


def source(*ends: int, starts: tuple[int, ...] | None = None, **other: object) -> Source:
    known = {
        "name": "a",
        "topic_id": "id1",
        "replication_factor": 1,
        "compacted": False,
        "settings": {},
        "epochs": (5,) * len(ends),
        **other,
    }
    return Source(starts=starts or (0,) * len(ends), ends=ends, **known)  # type: ignore[arg-type]


def decide(parent: Manifest | None, *sources: Source, now: int = HOUR, keep: int = 2) -> BackupPlan:
    return plan(parent, sources, now=now, generations=Generations(HOUR, keep))


def after(todo: BackupPlan) -> Manifest:
    """Return the manifest of a run that read everything of a plan."""
    added = settle(todo, [read(each) for each in todo.readings])
    found = manifest(topics=added.topics, starts=added.starts, positions=added.positions)
    return replace(found, epochs=added.epochs, generation_ends=added.generation_ends)


def read(reading: PlannedReading, reached: int | None = None, why: str = "") -> ReadingResult:
    stop = reading.stop if reached is None else reached
    segment = Segment(
        *(
            *reading.stored_partition,
            reading.start,
            stop,
            reading.start,
            stop - 1,
            stop - reading.start,
            1,
            1,
            "",
            1,
            "",
        ),
        *(None, None, "run", True, reading.generation),
    )
    segments = (segment,) if stop > reading.start else ()
    return ReadingResult(
        reading=reading, reached=stop, segments=segments, gaps=(), left_out=(("a-0", why),) if why else ()
    )


def ranges(todo: BackupPlan) -> list[tuple[StoredPartition, int, int]]:
    return [(each.stored_partition, each.start, each.stop) for each in todo.readings]


def test_first_backup_reads_all_next_only_new_records() -> None:
    first = decide(None, source(10, 0, 7, starts=(4, 0, 7)))
    assert ranges(first) == [(StoredPartition("a", 1, 0), 4, 10)]
    assert (first.gaps, first.positions) == ((), {("a", 1): (4, 0, 7)})
    assert first.starts == first.positions
    second = decide(after(first), source(12, 3, 7, starts=(4, 0, 7)))
    assert ranges(second) == [(StoredPartition("a", 1, 0), 10, 12), (StoredPartition("a", 1, 1), 0, 3)]
    assert (after(second).starts, after(second).positions) == (first.starts, {("a", 1): (12, 3, 7)})


def test_records_deleted_since_last_run_are_gap() -> None:
    parent = after(decide(None, source(10)))
    todo = decide(parent, source(20, starts=(15,)))
    assert (ranges(todo), todo.gaps) == ([(StoredPartition("a", 1, 0), 15, 20)], (Gap("a", 1, 0, 10, 15),))
    all_gone = decide(parent, source(20, starts=(20,)))
    assert (ranges(all_gone), all_gone.gaps) == ([], (Gap("a", 1, 0, 10, 20),))
    assert (after(all_gone).starts, after(all_gone).positions) == ({("a", 1): (0,)}, {("a", 1): (20,)})


def test_added_partition_is_read_from_log_start() -> None:
    parent = after(decide(None, source(10, starts=(2,))))
    todo = decide(parent, source(10, 8, starts=(4, 3)))
    assert ranges(todo) == [(StoredPartition("a", 1, 1), 3, 8)]
    assert (todo.gaps, todo.starts) == ((Gap("a", 1, 1, 0, 3),), {("a", 1): (2, 0)})


def test_partition_unread_so_far_starts_at_log_start() -> None:
    parent = after(decide(None, source(10, 5)))
    parent = replace(
        parent, starts={("a", 1): (0, NOT_READ)}, positions={("a", 1): (10, NOT_READ)}, segments=()
    )
    todo = decide(parent, source(10, 8, starts=(0, 3)))
    assert (ranges(todo), todo.starts) == ([(StoredPartition("a", 1, 1), 3, 8)], {("a", 1): (0, 3)})


def test_truncated_log_is_named_and_skipped() -> None:
    todo = decide(after(decide(None, source(10))), source(6))
    assert (ranges(todo), todo.positions) == ([], {("a", 1): (10,)})
    assert todo.left_out[0].what == "a-0"


def test_log_truncated_then_grown_is_named_and_skipped() -> None:
    first = after(decide(None, source(10, 10)))
    assert first.epochs == {("a", 1): (5, 5)}
    todo = decide(first, source(20, 20, epochs=(7, 7), epoch_ends={0: 6, 1: 15}))
    assert ranges(todo) == [(StoredPartition("a", 1, 1), 10, 20)]
    assert todo.left_out[0].what == "a-0"
    assert (todo.positions, todo.epochs) == ({("a", 1): (10, 10)}, {("a", 1): (5, 7)})


def test_new_generation_of_truncated_log_reads_current_records() -> None:
    first = after(decide(None, source(10, compacted=True)))
    todo = decide(
        first, source(20, starts=(8,), compacted=True, epochs=(7,), epoch_ends={0: 6}), now=3 * HOUR
    )
    assert ranges(todo) == [(StoredPartition("a", 2, 0), 8, 20)]
    assert todo.epochs["a", 2] == (7,)


def test_recreated_topic_becomes_new_instance_and_old_stays() -> None:
    first = after(decide(None, source(10)))
    todo = decide(first, source(3, topic_id="id2"))
    assert ranges(todo) == [(StoredPartition("a", 2, 0), 0, 3)]
    assert todo.topics["a"].instances == (
        Instance(1, "id1", InstanceState.PASSIVATE, HOUR),
        Instance(2, "id2", InstanceState.ACTIVATE, HOUR),
    )
    assert after(todo).positions == {("a", 1): (10,), ("a", 2): (3,)}
    assert after(todo).starts == {("a", 1): (0,), ("a", 2): (0,)}
    again = decide(after(todo), source(1, topic_id="id3"))
    assert [each.number for each in again.topics["a"].instances] == [1, 2, 3]


def test_due_generation_rereads_topic_and_replaces_active_one() -> None:
    compacted = source(10, compacted=True)
    first = after(decide(None, compacted, now=0))
    assert ranges(decide(first, replace(compacted, ends=(12,)), now=HOUR - 1)) == [
        (StoredPartition("a", 1, 0), 10, 12)
    ]
    todo = decide(first, compacted := replace(compacted, ends=(12,)), now=HOUR)
    assert ranges(todo) == [(StoredPartition("a", 2, 0), 0, 12)]
    assert todo.readings[0].generation
    second = after(todo)
    assert [(each.number, each.state) for each in second.topics[0].instances] == [
        (1, InstanceState.PASSIVATE),
        (2, InstanceState.ACTIVATE),
    ]
    third = after(decide(second, replace(compacted, ends=(13,)), now=2 * HOUR))
    assert [each.number for each in third.topics[0].instances] == [2, 3]
    assert third.starts.keys() == third.positions.keys() == {("a", 2), ("a", 3)}


def test_unchanged_log_gets_no_new_generation() -> None:
    for log in (source(0, compacted=True), source(10, 4, compacted=True, starts=(2, 4))):
        first = after(decide(None, log, now=0))
        for hours in range(1, 5):
            todo = decide(first, log, now=hours * HOUR)
            assert (ranges(todo), active_instance(todo.topics["a"]).number) == ([], 1)
            assert todo.unchanged == ("a",)
            first = after(todo)
        assert decide(first, log, now=HOUR - 1).unchanged == ()


def test_growth_or_deletion_makes_new_generation_due() -> None:
    log = source(10, compacted=True)
    first = after(decide(None, log, now=0))
    more = replace(log, ends=(12,))
    grown = after(decide(first, more, now=1))
    for parent, now in ((first, more), (grown, more), (first, replace(log, starts=(3,)))):
        todo = decide(parent, now, now=HOUR)
        assert (active_instance(todo.topics["a"]).number, todo.unchanged) == (2, ())
    partition = decide(first, source(10, 0, compacted=True), now=HOUR)
    assert active_instance(partition.topics["a"]).number == 2
    # A former version did not say where a generation ended when it was made.
    old = decide(replace(first, generation_ends={}), log, now=HOUR)
    assert active_instance(old.topics["a"]).number == 2


def test_as_many_generations_stay_as_are_asked_for() -> None:
    for keep in (1, 2, 4):
        found = None
        for hour in range(10):
            todo = decide(found, source(hour + 1, compacted=True), now=hour * HOUR, keep=keep)
            found = after(todo)
            instances = found.topics[0].instances
            assert [each.number for each in instances] == [*range(max(1, hour + 2 - keep), hour + 2)]
            assert [each.state for each in instances][-1] is InstanceState.ACTIVATE
            assert {each.state for each in instances[:-1]} <= {InstanceState.PASSIVATE}
            live = {("a", each.number) for each in instances}
            assert found.starts.keys() == found.positions.keys() == found.generation_ends.keys() == live


def test_other_topics_of_the_name_are_no_generations() -> None:
    first = after(decide(None, source(10, compacted=True), now=0))
    again = after(decide(first, source(3, compacted=True, topic_id="id2"), now=1))
    due = after(decide(again, source(4, compacted=True, topic_id="id2"), now=2 * HOUR, keep=1))
    assert [(each.number, each.topic_id) for each in due.topics[0].instances] == [(1, "id1"), (3, "id2")]


def test_topic_no_longer_selected_keeps_starts_and_positions() -> None:
    first = after(decide(None, source(10), source(5, name="b")))
    todo = decide(first, source(10))
    assert todo.topics.keys() == {"a", "b"}
    assert (after(todo).starts, after(todo).positions) == (first.starts, first.positions)


def test_behind_a_reading_that_broke_off_nothing_counts() -> None:
    todo = decide(None, source(30, 5))
    place = StoredPartition("a", 1, 0)
    pieces = [
        PlannedReading(stored_partition=place, start=at, stop=at + 10, topic_id="id1", generation=False)
        for at in (0, 10, 20)
    ]
    other = PlannedReading(
        stored_partition=StoredPartition("a", 1, 1), start=0, stop=5, topic_id="id1", generation=False
    )
    added = settle(todo, [read(pieces[0]), read(pieces[1], 14, "it died"), read(pieces[2]), read(other)])
    assert added.positions == {("a", 1): (14, 5)}
    assert [(each.partition, each.start, each.stop) for each in added.segments] == [
        (0, 0, 10),
        (0, 10, 14),
        (1, 0, 5),
    ]


def test_incomplete_generation_does_not_replace_active_one() -> None:
    first = after(decide(None, source(10, 10, compacted=True, starts=(2, 0)), now=0))
    todo = decide(first, source(12, 12, compacted=True), now=HOUR)
    one, other = todo.readings
    added = settle(todo, [read(one), read(other, 3, "it died")])
    assert (added.topics, added.starts, added.positions) == (first.topics, first.starts, first.positions)
    assert added.segments == ()


def test_incomplete_first_generation_is_kept() -> None:
    todo = decide(None, source(10, compacted=True))
    added = settle(todo, [read(todo.readings[0], 3, "it died")])
    assert added.positions == {("a", 1): (3,)}


@given(st.lists(st.integers(1, 300), max_size=20), st.integers(2, 100))
def test_tasks_share_every_offset_in_order(sizes: list[int], at_most: int) -> None:
    wholes = [
        PlannedReading(
            stored_partition=StoredPartition("a", 1, number),
            start=5,
            stop=5 + size,
            topic_id="id1",
            generation=True,
        )
        for number, size in enumerate(sizes)
    ]
    found = shares(wholes, at_most)
    assert all(0 < sum(map(len, share)) <= at_most + at_most // 2 for share in found)
    read = [
        (each.stored_partition, offset)
        for share in found
        for each in share
        for offset in range(each.start, each.stop)
    ]
    assert read == [
        (each.stored_partition, offset) for each in wholes for offset in range(each.start, each.stop)
    ]


def test_small_partitions_share_task_and_large_are_split() -> None:
    sizes = [1, 2, 3, 250]
    wholes = [
        PlannedReading(
            stored_partition=StoredPartition("a", 1, number),
            start=0,
            stop=size,
            topic_id="id1",
            generation=False,
        )
        for number, size in enumerate(sizes)
    ]
    assert [[len(each) for each in share] for share in shares(wholes, 100)] == [[1, 2, 3, 94], [100], [56]]
