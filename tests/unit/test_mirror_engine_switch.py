"""The change of a flow's engine: where each partition continues, and which positions cannot be moved."""

from bisect import bisect_left
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror import binding
from aqueduct.mirror.binding import Binding, Evidence, SourceLog, judge
from aqueduct.mirror.engine.position import (
    BATCHES,
    HOLDER_KEY,
    MM2,
    Checkpoint,
    EngineDiffers,
    Holder,
    PartitionRefused,
    Piece,
    Position,
    PositionRange,
    TargetLog,
    UnreadablePosition,
    advanced,
    check_holder,
    holder_record,
    parse_holder,
    parse_status,
    resume,
)
from aqueduct.mirror.engine.switch_plan import (
    Ends,
    PositionOfBatches,
    StoredState,
    holder_of,
    plan,
    to_batches,
    to_mirror_maker,
)
from aqueduct.mirror.engine.translation import of_topic, translate
from aqueduct.mirror.status import LOST

PARTITION = TopicPartition("orders", 3)
LOG = SourceLog(topic_id="T", start=0, end=50, stable_end=50, epoch=4)
TARGET = TargetLog("t", 70)
ENDS = Ends(exists=True, log=LOG, target=TARGET)
BOUND = Binding(topic_id="T", next=25, epoch=3)
MIRROR_MAKER = StoredState(next=30, is_transactional=True, bound=BOUND)


def of_batches(next_: int = 40, **fields: object) -> Position:
    position = Position(topic_id="T", next=next_, target_topic_id="t", target_end=60, generation=1, records=9)
    return replace(position, **fields)  # type: ignore[arg-type]


def test_batches_continues_where_mirrormaker_was() -> None:
    moved = to_batches(PARTITION, MIRROR_MAKER, ENDS, syncs=8)
    assert (moved.position.next, moved.position.topic_id, moved.position.epoch) == (30, "T", 4)
    assert (moved.position.target_topic_id, moved.position.target_end) == ("t", 70)
    assert (moved.bound.next, moved.bound.syncs, moved.bound.generation) == (30, 8, moved.position.generation)
    # The engine itself accepts it, with the checkpoints that are stored beside it.
    log = replace(LOG, bound_epoch_end=50)
    assert resume(PARTITION, moved.position, log, TARGET, checkpoint=moved.checkpoints[-1]) == moved.position


def test_mirrormaker_continues_where_batches_was() -> None:
    state = StoredState(position=of_batches(), checkpoint=of_batches().checkpoint)
    moved = to_mirror_maker(PARTITION, state, ENDS, syncs=8)
    assert (moved.next, moved.bound.topic_id, moved.bound.next, moved.bound.syncs) == (40, "T", 40, 8)
    assert not moved.bound.groups_unchecked
    assert judge(moved.next, moved.bound, LOG, Evidence()).is_certain


@pytest.mark.parametrize(
    ("state", "ends", "identifier"),
    [
        (replace(MIRROR_MAKER, bound=None), ENDS, "mirror-position-unproven"),
        (replace(MIRROR_MAKER, bound=replace(BOUND, topic_id="")), ENDS, "mirror-position-unproven"),
        (replace(MIRROR_MAKER, is_transactional=False), ENDS, "mirror-position-unproven"),
        (replace(MIRROR_MAKER, next=20), ENDS, "mirror-position-unproven"),
        (replace(MIRROR_MAKER, next=51), ENDS, "mirror-position-unproven"),
        (MIRROR_MAKER, replace(ENDS, log=replace(LOG, topic_id="U")), "mirror-position-unproven"),
        (MIRROR_MAKER, replace(ENDS, log=replace(LOG, bound_epoch_end=10)), "mirror-position-unproven"),
        (replace(MIRROR_MAKER, bound=replace(BOUND, doubled=((1, 2),))), ENDS, "mirror-ranges-listed"),
        (
            replace(MIRROR_MAKER, bound=replace(BOUND, groups_unchecked=True)),
            ENDS,
            "synchronised-groups-unchecked",
        ),
        (MIRROR_MAKER, replace(ENDS, log=None), "mirror-partition-offline"),
        (MIRROR_MAKER, replace(ENDS, target=None), "mirror-partition-offline"),
    ],
)
def test_unproven_position_of_mirrormaker_is_refused(state: StoredState, ends: Ends, identifier: str) -> None:
    with pytest.raises(PartitionRefused) as refused:
        to_batches(PARTITION, state, ends)
    assert refused.value.id == identifier


@pytest.mark.parametrize(
    ("position", "ends", "identifier"),
    [
        (of_batches(), replace(ENDS, log=replace(LOG, topic_id="U")), "mirror-position-unproven"),
        (of_batches(), replace(ENDS, log=replace(LOG, bound_epoch_end=10)), "mirror-position-unproven"),
        (of_batches(), replace(ENDS, log=replace(LOG, bound_epoch_end=-1)), "mirror-source-diverged"),
        (of_batches(), replace(ENDS, target=TargetLog("u", 70)), "mirror-target-recreated"),
        (of_batches(), replace(ENDS, target=TargetLog("t", 59)), "mirror-target-cut"),
        (of_batches(target_cut=50), ENDS, "mirror-target-cut"),
        (of_batches(ranges=(PositionRange(LOST, 1, 2, True),)), ENDS, "mirror-ranges-listed"),
        (of_batches(), replace(ENDS, log=None), "mirror-partition-offline"),
    ],
)
def test_unproven_position_of_batches_is_refused(position: Position, ends: Ends, identifier: str) -> None:
    with pytest.raises(PartitionRefused) as refused:
        to_mirror_maker(PARTITION, StoredState(position=position), ends, syncs=0)
    assert refused.value.id == identifier


def test_position_older_than_a_checkpoint_is_refused() -> None:
    state = StoredState(position=of_batches(), checkpoint=of_batches(45).checkpoint)
    with pytest.raises(PartitionRefused) as refused:
        to_mirror_maker(PARTITION, state, ENDS, syncs=0)
    assert refused.value.id == "mirror-position-outdated"


def test_deleted_topic_stays_bound_to_its_id() -> None:
    """MirrorMaker's check finds a topic of that name that is created later."""
    ends = Ends(exists=False, log=None, target=TARGET)
    moved = to_mirror_maker(PARTITION, StoredState(position=of_batches()), ends, syncs=0)
    verdict = judge(moved.next, moved.bound, replace(LOG, topic_id="U"), Evidence())
    assert verdict.resume == 0


@pytest.mark.parametrize(
    ("bound", "unchecked"),
    [
        (None, False),  # MirrorMaker never ran, so it has no earlier syncs
        (replace(BOUND, generation=1), False),
        (replace(BOUND, generation=0), True),  # the log was cut while `batches` had the flow
        (replace(BOUND, generation=1, topic_id="S"), True),
        (BOUND, True),
    ],
)
def test_earlier_syncs_of_another_log_leave_groups_unchecked(bound: Binding | None, unchecked: bool) -> None:
    state = StoredState(next=30, bound=bound, position=of_batches())
    assert to_mirror_maker(PARTITION, state, ENDS, syncs=0).bound.groups_unchecked == unchecked


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_positions_survive_changes_there_and_back(lengths: list[int]) -> None:
    """Both engines mirror in turn. Each continues at the next record, and no generation is used twice."""
    state = StoredState(next=0, is_transactional=True, bound=replace(BOUND, next=0))
    reached, generations = 0, []
    for length in lengths:
        log = replace(LOG, end=reached + 2 * length, stable_end=reached + 2 * length)
        ends = Ends(exists=True, log=log, target=TargetLog("t", 2 * reached))
        to = to_batches(PARTITION, state, ends)
        assert to.next == reached
        generations.append(to.position.generation)
        piece = Piece(
            topic_id="T",
            start=reached,
            first=reached,
            next=reached + length,
            log_start=0,
            epoch=4,
            records=length,
        )
        reached += length
        position = replace(advanced(to.position, piece), target_end=2 * reached)
        ends = replace(ends, target=TargetLog("t", 2 * reached))
        state = replace(state, position=position, checkpoint=to.checkpoints[-1], bound=to.bound)
        back = to_mirror_maker(PARTITION, state, ends, syncs=0)
        assert (back.next, back.bound.groups_unchecked) == (reached, False)
        reached += length
        state = replace(state, next=reached, bound=replace(back.bound, next=reached))
    assert generations == sorted(set(generations))


@given(st.data())
def test_no_group_skips_a_record_after_a_change(data: st.DataObject) -> None:
    """Eras of both engines follow each other. Gaps are transaction markers."""
    gap = st.integers(0, 2)
    source, target, reached_source, reached_target = [], [], 0, data.draw(gap)
    checkpoints: list[Checkpoint] = []
    former: Position | None = None
    for _ in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(0, 4))):  # MirrorMaker's
            reached_source += data.draw(gap)
            reached_target += data.draw(gap)
            source.append(reached_source)
            target.append(reached_target)
            reached_source, reached_target = reached_source + 1, reached_target + 1
        log = replace(LOG, end=reached_source, stable_end=reached_source)
        ends = Ends(exists=True, log=log, target=TargetLog("t", reached_target))
        bound = replace(BOUND, next=reached_source)
        state = StoredState(next=reached_source, is_transactional=True, bound=bound, position=former)
        moved = to_batches(PARTITION, state, ends)
        checkpoints += moved.checkpoints
        former = moved.position
        for _ in range(data.draw(st.integers(0, 4))):  # of batches, with a checkpoint after each
            reached_source += data.draw(gap)
            reached_target += data.draw(gap)
            source.append(reached_source)
            target.append(reached_target)
            reached_source, reached_target = reached_source + 1, reached_target + 1
            former = replace(
                former, next=reached_source, target_end=reached_target, records=former.records + 1
            )
            checkpoints.append(former.checkpoint)
    assert former is not None

    def count(start: int, stop: int) -> int:
        return sum(start <= offset < stop for offset in source)

    def find(lower: Checkpoint, upper: Checkpoint, rank: int) -> int | None:
        between = [offset for offset in target if lower.target <= offset < upper.target]
        return between[rank] if len(between) == upper.records - lower.records else None

    moved_at = max(of.source for of in checkpoints if of.records == 0 and of.generation == former.generation)
    for offset in range(reached_source + 1):
        translated = translate(of_topic(former, checkpoints), offset, count, find)
        number = bisect_left(source, offset)
        following = target[number] if number < len(target) else reached_target
        assert translated.offset <= following
        if offset >= moved_at:
            assert translated.exact
            assert bisect_left(target, translated.offset) == number


def test_switch_begins_with_checkpoint_at_former_position() -> None:
    """A group behind the switch begins there at the latest; at 0 if the topic was another one."""
    former = of_batches(20, target_end=33)
    moved = to_batches(PARTITION, replace(MIRROR_MAKER, position=former), ENDS)
    assert moved.checkpoints[0][1:3] == (20, 33)
    assert moved.checkpoints[0].generation > former.generation
    other = replace(former, topic_id="S")
    assert to_batches(PARTITION, replace(MIRROR_MAKER, position=other), ENDS).checkpoints[0][1:3] == (0, 0)


def test_positions_are_moved_all_or_none() -> None:
    other, gone, empty = (TopicPartition(name, 0) for name in ("other", "gone", "empty"))
    stored = {
        PARTITION: MIRROR_MAKER,
        other: replace(MIRROR_MAKER, bound=None),
        gone: MIRROR_MAKER,
        empty: StoredState(),
    }
    ends = {
        PARTITION: ENDS,
        other: ENDS,
        gone: Ends(exists=False, log=None, target=TARGET),
        empty: replace(ENDS, target=TargetLog("e", 0)),
    }
    mirrored = frozenset({"orders", "other", "empty"})
    made = plan("pro1", BATCHES, MM2, stored, ends, mirrored=mirrored, syncs=0)
    assert isinstance(made.moved.pop(PARTITION), PositionOfBatches)  # type: ignore[attr-defined]
    assert not made.moved
    assert [(of.what, of.id) for of in made.left] == [("gone-0", "mirror-position-left")]
    assert [(of.what, of.id) for of in made.refused] == [("other-0", "mirror-position-unproven")]


@pytest.mark.parametrize(("to", "holder"), [(BATCHES, MM2), (MM2, BATCHES)])
def test_mirrored_partition_without_position_is_not_moved(to: str, holder: str) -> None:
    """`batches` refuses it itself. MirrorMaker would begin at its start."""
    made = plan(
        "pro1",
        to,
        holder,
        {PARTITION: StoredState()},
        {PARTITION: ENDS},
        mirrored=frozenset({"orders"}),
        syncs=0,
    )
    listed = made.refused if to == MM2 else made.left
    assert [of.id for of in listed] == ["mirror-position-missing"]
    assert not made.moved


def test_flow_is_switched_once() -> None:
    made = plan("pro1", MM2, MM2, {PARTITION: MIRROR_MAKER}, {PARTITION: ENDS}, mirrored=frozenset(), syncs=0)
    assert made.is_made
    assert not made.moved


def test_switch_of_never_mirrored_flow_moves_nothing() -> None:
    empty = {PARTITION: replace(ENDS, target=None)}
    made = plan("pro1", MM2, None, {PARTITION: StoredState()}, empty, mirrored=frozenset({"orders"}), syncs=0)
    assert made.is_made
    assert [*made.moved, *made.refused, *made.left] == []


def test_engine_that_has_the_flow() -> None:
    holder = Holder(engine=MM2, time=1)
    assert holder_of(None, (), ()) is None
    assert holder_of(None, (), {PARTITION}) == MM2
    assert holder_of(None, {PARTITION}, {PARTITION}) == BATCHES
    assert holder_of(holder, {PARTITION}, {PARTITION}) == MM2
    check_holder("pro1", None, BATCHES)
    check_holder("pro1", BATCHES, BATCHES)
    with pytest.raises(EngineDiffers):
        check_holder("pro1", MM2, BATCHES)


def test_record_of_the_engine_is_read_again() -> None:
    holder = Holder(engine=BATCHES, time=7)
    assert parse_holder(*holder_record(holder)) == holder
    assert parse_holder(b'{"task": 1}', b"{}") is None
    with pytest.raises(UnreadablePosition):
        parse_holder(HOLDER_KEY, b"{}")
    with pytest.raises(UnreadablePosition):  # a version that does not know it stops
        parse_status(*holder_record(holder))


def test_binding_keeps_the_generation() -> None:
    bound = replace(BOUND, generation=3)
    key = binding.key(PARTITION)
    assert binding.parse_bindings({key: binding.dumps(bound)}) == {PARTITION: bound}
    assert binding.parse_bindings({key: binding.dumps(BOUND)}) == {PARTITION: BOUND}
