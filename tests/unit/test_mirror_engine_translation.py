"""Offsets of groups: the next record at the target is the next record at the source, whatever is between."""

from bisect import bisect_left
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.mirror.engine.position import Checkpoint, Position
from aqueduct.mirror.engine.translation import Translated, obsolete, of_topic, translate


@dataclass
class Ends:
    """A source and a target log: numbers of records by offset; at the target of the flow alone."""

    source: dict[int, int] = field(default_factory=dict)
    source_end: int = 0
    target: dict[int, int] = field(default_factory=dict)
    target_end: int = 0
    mirrored: int = 0  # source offsets
    checkpoints: list[Checkpoint] = field(default_factory=list)
    records: int = 0
    generation: int = 0
    written: int = 0

    def checkpoint(self) -> Checkpoint:
        last = max(self.target, default=-1) + 1 if self.target else 0
        begin = self.checkpoints[-1].target if self.checkpoints else self.target_end
        return Checkpoint(self.generation, self.mirrored, max(last, begin), self.records, "topic", (1, 2))

    def write(self, count: int) -> None:
        for _ in range(count):
            self.source[self.source_end] = self.written
            self.written += 1
            self.source_end += 1

    def mark(self, count: int) -> None:
        self.source_end += count

    def others(self, count: int) -> None:
        self.target_end += count

    def mirror(self, count: int) -> None:
        stop = min(self.source_end, self.mirrored + count)
        for offset in range(self.mirrored, stop):
            if offset in self.source:
                self.target[self.target_end] = self.source[offset]
                self.target_end += 1
                self.records += 1
        self.mirrored = stop
        self.target_end += 1  # the marker

    def remember(self, _: int) -> None:
        self.checkpoints.append(self.checkpoint())

    def cut(self, count: int) -> None:
        end = max(0, self.source_end - count)
        self.source = {offset: number for offset, number in self.source.items() if offset < end}
        self.source_end = end
        if self.mirrored > end:
            self.mirrored = end
            self.generation += 1
            self.records = 0
            self.remember(0)

    def position(self) -> Position:
        last = self.checkpoint()
        return Position(
            topic_id="topic",
            next=last.source,
            target_topic_id="target",
            target_end=last.target,
            generation=self.generation,
            records=self.records,
            producers=(1, 2),
        )

    def count(self, start: int, stop: int) -> int | None:
        return sum(start <= offset < stop for offset in self.source)

    def find(self, lower: Checkpoint, upper: Checkpoint, rank: int) -> int | None:
        own = sorted(offset for offset in self.target if lower.target <= offset < upper.target)
        return own[rank] if len(own) == upper.records - lower.records else None

    def next_at_target(self, offset: int) -> int | None:
        own = sorted(self.target)
        at = bisect_left(own, offset)
        return self.target[own[at]] if at < len(own) else None

    def next_at_source(self, offset: int) -> int | None:
        return next((number for at, number in sorted(self.source.items()) if at >= offset), None)


STEPS = ["write", "write", "mark", "others", "mirror", "mirror", "remember"]


def histories(steps: list[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(steps), st.integers(1, 9)), min_size=4, max_size=40)


@given(histories(STEPS))
def test_next_record_is_the_same_at_both_ends(history: list[tuple[str, int]]) -> None:
    ends = made(history)
    mirrored = {*ends.target.values()}
    for offset in range(ends.source_end + 3):
        translated = translated_by(ends, offset)
        assert translated.exact
        assert translated.offset <= ends.checkpoint().target
        expected = ends.next_at_source(offset) if offset < ends.mirrored else None
        assert ends.next_at_target(translated.offset) == (expected if expected in mirrored else None)


@given(histories([*STEPS, "cut"]))
def test_translation_across_log_cut_skips_no_record(history: list[tuple[str, int]]) -> None:
    ends = made(history)
    cut = min(known.source for known in ends.checkpoints if known.generation == ends.generation)
    for offset in range(ends.source_end):
        translated = translated_by(ends, offset)
        following = {number for at, number in ends.source.items() if offset <= at < ends.mirrored}
        read = {number for at, number in ends.target.items() if at >= translated.offset}
        assert following <= read
        assert translated.exact or offset < cut


def made(steps: list[tuple[str, int]]) -> Ends:
    ends = Ends()
    ends.remember(0)
    for step, count in steps:
        getattr(ends, step)(count)
    return ends


def translated_by(ends: Ends, offset: int) -> Translated:
    return translate(of_topic(ends.position(), ends.checkpoints), offset, ends.count, ends.find)


def test_compacted_source_is_read_again_and_not_skipped() -> None:
    ends = made([("write", 9), ("mark", 1), ("mirror", 10), ("others", 3)])
    del ends.source[4]
    assert translated_by(ends, 6) == Translated(0, exact=False)


def test_checkpoints_of_an_earlier_topic_are_not_used() -> None:
    earlier = Checkpoint(0, 0, 0, 0, "earlier", (1, 2))
    position = Position(
        topic_id="topic", next=5, target_topic_id="target", target_end=105, generation=1, records=5
    )
    begin = Checkpoint(1, 0, 100, 0, "topic", (1, 2))
    known = of_topic(position, [earlier, begin])
    assert known == [begin, position.checkpoint]
    ends = Ends()
    assert translate(known, 3, ends.count, ends.find) == Translated(103, exact=True)


def test_checkpoints_below_the_log_are_obsolete() -> None:
    checkpoints = [
        Checkpoint(0, 50, 9, 9, "earlier", ()),
        *(Checkpoint(1, source, source, source, "topic", ()) for source in (0, 10, 20)),
    ]
    assert [obsolete(checkpoints, "topic", start) for start in (0, 9, 10, 19, 20, 99)] == [1, 1, 2, 2, 3, 3]
    assert obsolete(checkpoints[:1], "topic", 99) == 0
