"""The knowledge of one source partition under one topic id, and how arrivals change it."""

from dataclasses import dataclass, field

from aqueduct.common.offset_sets import Spans, add, spans_of, take


@dataclass(kw_only=True)
class Lineage:
    """The offsets of one topic id in a partition, and their states.

    Every offset from `first` to below `next` either went to the clean topic (or was told to hold no record),
    or is a gap (the source still has it, as far as is known), or is lost (the source deleted it).
    """

    topic_id: str
    first: int
    next: int
    gaps: Spans = field(default_factory=list)
    lost: Spans = field(default_factory=list)

    def arrive(self, first: int, last: int) -> Spans:
        """Note the offsets that a frame covers; return those that are new, so to be written now."""
        new = take(self.gaps, first, last) + take(self.lost, first, last)
        self._reach(first, first - 1)
        if first < self.first:
            below = min(last, self.first - 1)
            add(self.gaps, below + 1, self.first - 1)
            new.append((first, below))
            self.first = first
        if last >= self.next:
            new.append((max(first, self.next), last))
            self.next = last + 1
        return spans_of(new)

    def announce(self, first: int, end: int, *, compacted: bool) -> None:
        """Note that the sender's log holds first to end, exclusive, and that this had its time to arrive.

        `compacted`: nothing but compaction deletes there, so what is below `first` was not lost.
        """
        self.miss(first, end - 1)
        # What the source has no more can't be resent.
        for gone in take(self.gaps, self.first, first - 1):
            if not compacted:
                add(self.lost, *gone)

    def miss(self, first: int, last: int) -> None:
        """Note that the sender has these offsets; those that are not known to have arrived are missing."""
        if first < self.first:
            add(self.gaps, first, self.first - 1)
            self.first = first
        self._reach(first, last)

    def _reach(self, first: int, last: int) -> None:
        """Reach `last`: what was passed over is missing, and so is what is below `first`."""
        reached = max(last + 1, first)
        add(self.gaps, self.next, reached - 1)
        self.next = max(self.next, reached)


def begin(topic_id: str, first: int) -> Lineage:
    """Make the lineage of a partition unknown so far: what is below `first` is not asked for."""
    return Lineage(topic_id=topic_id, first=first, next=first)
