"""Positions of the mirror engine: nothing arrives twice or is lost unlisted, whatever happens to a log."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.binding import NO_EPOCH, SourceLog
from aqueduct.mirror.engine.position import (
    RANGES,
    Checkpoint,
    PartitionRefused,
    Piece,
    Position,
    PositionOvertaken,
    TargetCut,
    TargetLog,
    UnreadablePosition,
    advanced,
    after_cut,
    check_written,
    checkpoint_record,
    newest,
    parse_checkpoint,
    parse_position,
    position_record,
    resume,
    task_of,
)
from aqueduct.mirror.status import LOST, LOST_EARLIER, TARGET_ONLY

PARTITION = TopicPartition("orders", 3)


@dataclass
class Log:
    """A source partition: records by offset, and where each leader epoch began."""

    topic_id: int = 0
    start: int = 0
    end: int = 0
    records: dict[int, int] = field(default_factory=dict)  # numbers by offset; markers have none
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})
    written: int = 0
    deleted: set[int] = field(default_factory=set)  # numbers that retention deleted, of this topic

    def write(self, count: int) -> None:
        for _ in range(count):
            self.records[self.end] = self.written
            self.written += 1
            self.end += 1

    def mark(self, count: int) -> None:
        self.end += count

    def retain(self, count: int) -> None:
        self.start = min(self.end, self.start + count)
        gone = {offset for offset in self.records if offset < self.start}
        self.deleted |= {self.records.pop(offset) for offset in gone}

    def cut(self, count: int) -> None:
        """Lose the end of the log: another leader is elected, which has less."""
        self.end = max(self.start, self.end - count)
        self.records = {offset: number for offset, number in self.records.items() if offset < self.end}
        epoch = max(self.epochs) + 1
        kept = {number: begin for number, begin in self.epochs.items() if begin < self.end}
        self.epochs = kept | {epoch: self.end}

    def recreate(self, _: int) -> None:
        self.__init__(topic_id=self.topic_id + 1, written=self.written)  # type: ignore[misc]

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, begin in self.epochs.items() if begin <= offset), default=NO_EPOCH)

    def epoch_end(self, epoch: int) -> int:
        return min((begin for number, begin in self.epochs.items() if number > epoch), default=self.end)


@dataclass
class Mirror:
    """A mirror by positions alone: what it wrote, and where."""

    log: Log
    position: Position | None = None
    target: list[int] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    before: set[int] = field(default_factory=set)  # numbers that were deleted before the first start

    def run(self, count: int, *, committed: bool) -> None:
        """Start, read so many offsets in pieces, and commit, or die before that."""
        log = self.log
        bound = self.position and self.position.topic_id == str(log.topic_id)
        known = bound and self.position and self.position.epoch != NO_EPOCH
        now = SourceLog(
            topic_id=str(log.topic_id),
            start=log.start,
            end=log.end,
            stable_end=log.end,
            epoch=max(log.epochs),
            bound_epoch_end=log.epoch_end(self.position.epoch) if known and self.position else None,
        )
        if self.position is None:
            self.before = set(log.deleted)
        target = TargetLog("target", len(self.target))
        position = resume(PARTITION, self.position, now, target, checkpoint=self.checkpoint)
        copied: list[int] = []
        stop = min(log.end, position.next + count)
        while position.next < stop:
            start = position.next
            next_ = min(stop, max(start, log.start) + 3)
            first = max(start, log.start)
            numbers = [log.records[offset] for offset in range(first, next_) if offset in log.records]
            piece = Piece(
                topic_id=str(log.topic_id),
                start=start,
                first=first,
                next=next_,
                log_start=log.start,
                epoch=log.epoch_at(next_ - 1),
                records=len(numbers),
            )
            position = advanced(position, piece)
            copied += numbers
        if committed:
            self.target += copied
            self.position = replace(position, target_end=len(self.target))
            self.checkpoint = self.position.checkpoint


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["write", "mark", "retain", "cut", "recreate", "mirror", "die"]), st.integers(1, 12)
    ),
    max_size=40,
)


@given(CHANGES)
def test_each_record_arrives_once_or_is_listed(changes: list[tuple[str, int]]) -> None:
    log = Log()
    mirror = Mirror(log)
    offsets: dict[int, tuple[int, int]] = {}  # of every number: topic and offset
    for change, count in changes:
        if change in ("mirror", "die"):
            mirror.run(count, committed=change == "mirror")
        else:
            getattr(log, change)(count)
        offsets |= {number: (log.topic_id, offset) for offset, number in log.records.items()}
    mirror.run(10_000, committed=True)
    assert len(mirror.target) == len(set(mirror.target))
    present = set(log.records.values())
    assert [number for number in mirror.target if number in present] == [*log.records.values()]
    assert mirror.position
    ranges = mirror.position.ranges

    def is_listed(kind: str, offset: int) -> bool:
        return any(of.kind == kind and of.start <= offset < of.stop for of in ranges)

    for number in log.deleted - set(mirror.target) - mirror.before:
        assert is_listed(LOST, offsets[number][1])
    for number in set(mirror.target) - present - log.deleted:
        topic, offset = offsets[number]
        assert topic != log.topic_id or is_listed(TARGET_ONLY, offset)


def test_recreated_topic_lists_unmirrored_offsets() -> None:
    seen = a_position(next=100, source_end=130)
    recreated = a_log(topic_id="two", end=7, stable_end=7)
    position = resume(PARTITION, seen, recreated, TargetLog("target", 50))
    assert position.next == 0
    assert position.ranges == ((LOST_EARLIER, 100, 130, False),)
    later = resume(PARTITION, position, a_log(topic_id="three"), TargetLog("target", 50))
    assert later.ranges == ((LOST_EARLIER, 100, 130, False), (LOST_EARLIER, 0, 7, False))


def a_position(**changes: object) -> Position:
    position = Position(topic_id="one", next=100, target_topic_id="target", target_end=50, epoch=3)
    return replace(position, **changes)  # type: ignore[arg-type]


def at(generation: int, source: int) -> Checkpoint:
    return Checkpoint(generation, source, target=50, records=9, topic_id="one", producers=())


def a_log(**changes: object) -> SourceLog:
    log = SourceLog(topic_id="one", start=0, end=200, stable_end=200, epoch=3, bound_epoch_end=200)
    return replace(log, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("id_", "position", "log", "target", "checkpoint", "again"),
    [
        (
            "mirror-position-missing",
            None,
            a_log(),
            TargetLog("target", 9),
            at(0, 0),
            False,
        ),
        ("mirror-position-missing", None, a_log(), TargetLog("target", 9), None, False),
        (
            "mirror-position-outdated",
            a_position(),
            a_log(),
            TargetLog("target", 99),
            at(0, 101),
            False,
        ),
        (
            "mirror-position-outdated",
            a_position(),
            a_log(),
            TargetLog("target", 99),
            at(1, 5),
            False,
        ),
        ("mirror-target-recreated", a_position(), a_log(), TargetLog("other", 0), None, False),
        ("mirror-target-cut", a_position(), a_log(), TargetLog("target", 49), None, False),
        ("mirror-target-not-empty", a_position(), a_log(), TargetLog("other", 1), None, True),
        (
            "mirror-source-diverged",
            a_position(),
            a_log(bound_epoch_end=-1),
            TargetLog("target", 50),
            None,
            False,
        ),
    ],
)
def test_doubtful_position_is_refused(
    id_: str,
    position: Position | None,
    log: SourceLog,
    target: TargetLog,
    checkpoint: Checkpoint | None,
    again: bool,
) -> None:
    with pytest.raises(PartitionRefused) as refused:
        resume(PARTITION, position, log, target, checkpoint=checkpoint, again=again)
    assert refused.value.id == id_


def test_checkpoint_weighs_more_than_a_declared_first_start() -> None:
    with pytest.raises(PartitionRefused) as refused:
        resume(PARTITION, None, a_log(), TargetLog("target", 9), checkpoint=at(0, 0), first_start=True)
    assert refused.value.id == "mirror-position-missing"


def test_topic_that_is_mirrored_again_gets_another_generation() -> None:
    checkpoint = at(4, 100)
    position = resume(
        PARTITION,
        a_position(generation=4),
        a_log(start=7),
        TargetLog("other", 0),
        checkpoint=checkpoint,
        again=True,
    )
    assert (position.generation, position.next, position.target_topic_id) == (5, 7, "other")


def test_first_start_appends_after_existing_target_records() -> None:
    position = resume(PARTITION, None, a_log(start=7), TargetLog("target", 33), first_start=True)
    assert (position.next, position.target_end, position.generation) == (7, 33, 0)


def test_newest_of_stored_and_committed_positions_is_used() -> None:
    partitions = [TopicPartition("orders", number) for number in range(5)]
    stored = {
        partitions[0]: a_position(next=60),  # it lost 100
        partitions[1]: a_position(generation=1, next=7),  # another process began it again
        partitions[2]: a_position(is_given_up=True),
        partitions[3]: a_position(),
    }
    committed = {partition: a_position() for partition in (*partitions[:3], partitions[4])}
    assert newest(stored, committed) == {
        **stored,
        partitions[0]: a_position(),
        partitions[4]: a_position(),
    }
    assert newest(stored, {}) == stored


def test_cut_target_stays_refused_after_further_writes() -> None:
    """An unclean election while the flow runs: the next leader gives an offset that the flow has had."""
    position = a_position(target_end=50)
    check_written(PARTITION, position, 50)
    check_written(PARTITION, position, 52)  # after markers and records of others
    with pytest.raises(TargetCut) as lost:
        check_written(PARTITION, position, 31)
    marked = after_cut(position, TargetLog("target", 99), lost.value.offset)
    assert marked.target_cut == 31
    assert after_cut(position, TargetLog("target", 40)).target_cut == 40
    assert after_cut(position, TargetLog("target", 50)) == position
    assert after_cut(position, TargetLog("another", 0)) == position  # it was re-created
    _, stored = parse_position(*position_record(PARTITION, marked))
    for end in (31, 50, 1_000):
        with pytest.raises(PartitionRefused) as refused:
            resume(PARTITION, stored, a_log(), TargetLog("target", end))
        assert refused.value.id == "mirror-target-cut"
    again = resume(PARTITION, stored, a_log(), TargetLog("another", 0), again=True)
    assert after_cut(again, TargetLog("another", 0)) == again


@pytest.mark.parametrize("changes", [{"topic_id": "two"}, {"start": 99}])
def test_piece_not_following_position_is_refused(changes: dict[str, object]) -> None:
    piece = Piece(topic_id="one", start=100, first=100, next=110, log_start=0, epoch=3, records=10)
    assert advanced(a_position(), piece).next == 110
    with pytest.raises(PositionOvertaken):
        advanced(a_position(), replace(piece, **changes))  # type: ignore[arg-type]


POSITIONS = st.builds(
    Position,
    topic_id=st.text(max_size=9),
    next=st.integers(0, 2**63),
    target_topic_id=st.text(max_size=9),
    target_end=st.integers(0, 2**63),
    epoch=st.integers(-1, 9),
    generation=st.integers(0, 9),
    records=st.integers(0, 2**63),
    producers=st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)),
)


@given(POSITIONS, st.integers(0, 2 * RANGES))
def test_positions_and_checkpoints_survive_round_trip(position: Position, ranges: int) -> None:
    for number in range(ranges):
        position = position.with_range(LOST, number, number + 1, at_most=True)
    assert len(position.ranges) == min(ranges, RANGES)
    assert parse_position(*position_record(PARTITION, position)) == (PARTITION, position)
    checkpoint = position.checkpoint
    assert parse_checkpoint(*checkpoint_record(PARTITION, checkpoint)) == (PARTITION, checkpoint)


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_other_records_are_refused(key: bytes, value: bytes) -> None:
    for parse in (parse_position, parse_checkpoint):
        with pytest.raises(UnreadablePosition):
            parse(key, value)


@given(st.text("abc.-_", min_size=1), st.integers(0, 100), st.integers(1, 9))
def test_partitions_of_a_topic_are_spread_over_tasks(topic: str, first: int, tasks: int) -> None:
    numbers = [task_of(TopicPartition(topic, first + number), tasks) for number in range(tasks)]
    assert sorted(numbers) == list(range(tasks))
