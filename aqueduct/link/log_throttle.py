"""Events that may come any number of times, and are logged now and then."""

import math
from collections.abc import Hashable

SECONDS = 60.0
MOST = 100  # things that are told apart


class Seldom:
    """The limit of repeated logs: each thing is told of when it is new, and then once a minute at most.

    Bounded: beyond MOST things all others are one.
    """

    def __init__(self) -> None:
        self._told: dict[Hashable, tuple[float, int]] = {}

    def due(self, subject: Hashable, more: int, now: float) -> int:
        """Count `more` occurrences; return how many to tell of now, with those that waited. 0: none."""
        if subject not in self._told and len(self._told) >= MOST:
            subject = None
        told_at, waiting = self._told.get(subject, (-math.inf, 0))
        waiting += more
        due = waiting if now >= told_at + SECONDS else 0
        self._told[subject] = (now, 0) if due else (told_at, waiting)
        return due
