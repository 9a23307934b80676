"""The rules against a model that keeps one word per offset."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.offset_sets import Span
from aqueduct.link.ledger.lineage import Lineage, begin

frames = st.tuples(st.integers(0, 80), st.integers(0, 15)).map(lambda each: (each[0], each[0] + each[1]))


class Announcement(NamedTuple):
    first: int
    end: int
    compacted: bool


announcements = st.tuples(st.integers(0, 80), st.integers(0, 30), st.booleans()).map(
    lambda each: Announcement(each[0], each[0] + each[1], each[2])
)


class Model:
    """The model: first, next, and for every offset between them `here`, `gap` or `lost`."""

    def __init__(self, first: int) -> None:
        self.words: dict[int, str] = {}
        self.first = self.next = first

    def reach(self, first: int, stop: int) -> None:
        for offset in range(first, self.first):
            self.words[offset] = "gap"
        for offset in range(self.next, stop):
            self.words[offset] = "gap"
        self.first, self.next = min(self.first, first), max(self.next, stop)

    def arrive(self, first: int, last: int) -> set[int]:
        self.reach(first, last + 1)
        new = {offset for offset in range(first, last + 1) if self.words[offset] != "here"}
        self.words |= dict.fromkeys(range(first, last + 1), "here")
        # What was never known holds a gap until it arrives, so what is new was a gap or lost.
        return new

    def announce(self, told: Announcement) -> None:
        self.reach(told.first, max(told.first, told.end))
        for offset in range(self.first, told.first):
            if self.words[offset] == "gap":
                self.words[offset] = "here" if told.compacted else "lost"

    def offsets(self, word: str) -> set[int]:
        return {offset for offset, found in self.words.items() if found == word}


def offsets(spans: list[Span]) -> set[int]:
    return {offset for first, last in spans for offset in range(first, last + 1)}


@given(st.integers(0, 80), st.lists(st.one_of(frames, announcements), max_size=30))
def test_lineage_is_the_model(first: int, events: list[Span | Announcement]) -> None:
    lineage, model = begin("id", first), Model(first)
    for event in events:
        if isinstance(event, Announcement):
            lineage.announce(event.first, event.end, compacted=event.compacted)
            model.announce(event)
        else:
            assert offsets(lineage.arrive(*event)) == model.arrive(*event)
        assert (lineage.first, lineage.next) == (model.first, model.next)
        assert offsets(lineage.gaps) == model.offsets("gap")
        assert offsets(lineage.lost) == model.offsets("lost")


@given(st.lists(frames, min_size=1), st.randoms(use_true_random=False))
def test_every_offset_is_new_once_in_any_order(every: list[Span], random: object) -> None:
    twice = every + every
    random.shuffle(twice)  # type: ignore[attr-defined]
    lineage = begin("id", twice[0][0])
    new = [offset for each in twice for offset in offsets(lineage.arrive(*each))]
    assert len(new) == len(set(new))
    assert set(new) == offsets(every)
    assert offsets(lineage.gaps) == set(range(lineage.first, lineage.next)) - offsets(every)


def test_lost_tail_becomes_gap_after_announcement() -> None:
    lineage = Lineage(topic_id="id", first=0, next=100)
    lineage.announce(0, 120, compacted=False)
    assert lineage.gaps == [(100, 119)]
    assert lineage.arrive(100, 119) == [(100, 119)]
    assert lineage.gaps == []


def test_records_deleted_by_retention_before_sending_are_lost() -> None:
    lineage = Lineage(topic_id="id", first=0, next=100)
    lineage.announce(150, 200, compacted=False)
    assert (lineage.gaps, lineage.lost) == ([(150, 199)], [(100, 149)])


def test_what_only_compaction_took_is_not() -> None:
    lineage = Lineage(topic_id="id", first=0, next=100, gaps=[(10, 19)])
    lineage.announce(150, 200, compacted=True)
    assert (lineage.gaps, lineage.lost) == ([(150, 199)], [])


def test_offsets_below_initial_log_start_are_no_gap() -> None:
    lineage = begin("id", 1000)
    lineage.announce(1000, 1000, compacted=False)
    assert (lineage.gaps, lineage.lost, lineage.next) == ([], [], 1000)
