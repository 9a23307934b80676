"""The verdict on a lane: whether its two ends are equal, from what was read of them."""

from dataclasses import dataclass
from functools import reduce
from operator import add

from aqueduct.mirror.reconcile.difference import Unmatched
from aqueduct.mirror.reconcile.digest import Digest, RangeDigest
from aqueduct.mirror.reconcile.flow import ComparedLane


@dataclass(frozen=True)
class Difference:
    """The findings of a lane's second reading, by the number of the end."""

    unmatched: tuple[Unmatched, ...] = ()  # records that the other end lacks
    out_of_order: tuple[int, int] | None = None  # or the first that is out of order: end, offset


@dataclass(frozen=True)
class Verdict:
    """A lane and what was read of it, by the number of the end."""

    lane: ComparedLane
    readings: tuple[RangeDigest, ...]
    difference: Difference | None = None  # where a second reading was made

    @property
    def absent(self) -> bool:
        """The target has no such partition."""
        return self.lane.ranges[0] is None

    @property
    def unreadable(self) -> str:
        """The reason why an end could not be read to its end, as a clause; empty if both were."""
        return next((reading.unreadable for reading in self.readings if reading.unreadable), "")

    @property
    def timed(self) -> bool:
        """Tell whether the records' times are compared: not where the target's brokers wrote their own."""
        return not self.readings[0].append_times

    @property
    def ordered(self) -> bool:
        """Tell whether the target has one source's order; else each of several keeps its own."""
        return sum(reading.records > 0 for reading in self.readings[1:]) <= 1

    @property
    def same_records(self) -> bool:
        """Tell whether both ends have the same records, in whatever order."""
        target, source = self._digests()
        return (target.records, target.unordered) == (source.records, source.unordered)

    @property
    def equal(self) -> bool:
        target, source = self._digests()
        if self.absent or self.unreadable:
            return False
        if self.ordered:
            return target == source
        return self.same_records and self.difference is not None and not self.difference.out_of_order

    @property
    def needs_second_reading(self) -> bool:
        """Tell whether to read again, to find where the ends differ or if each source keeps its order."""
        return not self.absent and not self.unreadable and not self.equal

    def unmatched(self, end: int) -> Unmatched:
        """Return the records of an end that the other end lacks, as far as they were looked for."""
        read, records = self.lane.ranges[end], self.readings[end].records
        if self.absent and read is not None and records:
            return Unmatched(records, ((read.start, read.stop - 1),))
        return (
            self.difference.unmatched[end] if self.difference and self.difference.unmatched else Unmatched()
        )

    def _digests(self) -> tuple[Digest, Digest]:
        """Return two digests: the target's, and that of all sources one after the other."""
        digests = [reading.timed if self.timed else reading.untimed for reading in self.readings]
        return digests[0], reduce(add, digests[1:])
