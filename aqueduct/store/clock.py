"""Times of snapshots, by the clock of the store: a manifest can contain any time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from aqueduct.common import timestamps

DIFFER = 86_400_000  # milliseconds after a manifest's own time at which the store may have written it
BACK = 3_600_000  # by which a host's clock may be set back


@dataclass(kw_only=True)
class Clock:
    """Dates snapshots, in the order of their numbers. All times are milliseconds since 1970."""

    copied_through: int = 0  # the last snapshot of a copied store: to the store they are all new
    wrong: frozenset[int] = frozenset()  # snapshots whose manifests are known to have a wrong time
    written: Mapping[int, int] = field(default_factory=dict)  # what the store says of each snapshot there
    # Snapshots whose manifest has an earlier time than one before: number, its time, the one before.
    backwards: list[tuple[int, int, int]] = field(default_factory=list)
    _latest: int = 0

    def time(self, number: int, created: int, written: int) -> tuple[int, str]:
        """Return the time of a snapshot, and why it is doubtful (else empty).

        `created`: the time in its manifest. `written`: the time in the store. A manifest with a later time
        than the store is not doubtful, because the store's time is used.
        """
        wrong = number in self.wrong
        if not wrong:
            if created < self._latest - BACK:
                self.backwards.append((number, created, self._latest))
            self._latest = max(self._latest, min(created, written))
        if number <= self.copied_through and not wrong:
            if (latest := self._latest_copies.get(number, math.inf)) < written:
                by = timestamps.text(int(latest))
                return written, (
                    f"the store wrote it at {timestamps.text(written)}, but the other copies by {by}"
                )
            return min(created, written), ""
        if wrong or written - created > DIFFER:
            times = f"its manifest has {timestamps.text(created)}, but the store {timestamps.text(written)}"
            return written, times
        return written, ""

    @cached_property
    def _latest_copies(self) -> dict[int, float]:
        """Return by number the latest time at which the store wrote a snapshot if it was copied.

        It was written before those that a backup added to the copy, and not long after copies of later ones.
        What came later was planted where a pruned snapshot had left its number.
        """
        latest, times = math.inf, {}
        for number, written in sorted(self.written.items(), reverse=True):
            times[number] = latest
            latest = min(latest, written + (DIFFER if number <= self.copied_through else 0))
        return times
