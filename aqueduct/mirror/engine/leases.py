"""Leases: which tasks of a shared flow a process has, and when it starts them.

The target's group coordinator assigns tasks. Transactional ids guard exactly-once delivery by themselves: a
process that has lost a task and does not know it yet is fenced.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

SESSION_SECONDS = 10  # without a heartbeat, after which the coordinator assigns a member's tasks to others
# A task that was fenced starts again under the same lease after this time. It is longer than a process needs
# to detect that its session has ended, so that two processes do not fence each other in turn.
RECLAIM_SECONDS = 2 * SESSION_SECONDS


@dataclass(frozen=True, eq=False)
class Lease:
    """The assignment of a task to this process. It is never renewed: another assignment is another lease."""

    task: int
    ended: Event = field(default_factory=Event)


class LeaseBook:
    """The tasks that run or were fenced, by their leases."""

    def __init__(self) -> None:
        self._started: dict[int, Lease] = {}
        self._fenced: dict[int, tuple[Lease, float]] = {}  # with the time

    def startable(self, leases: Mapping[int, Lease], now: float) -> list[Lease]:
        """Return the leases whose tasks are to start now, in the order of tasks."""
        return [
            lease
            for task, lease in sorted(leases.items())
            if task not in self._started and not lease.ended.is_set() and not self._is_fenced(lease, now)
        ]

    def _is_fenced(self, lease: Lease, now: float) -> bool:
        former, fenced = self._fenced.get(lease.task, (None, 0.0))
        return former is lease and now < fenced + RECLAIM_SECONDS

    def note_started(self, lease: Lease) -> None:
        self._started[lease.task] = lease

    def note_fenced(self, task: int, now: float) -> None:
        """Note that another process has the task's transactional ids."""
        self._fenced[task] = self._started.pop(task), now

    def note_ended(self, task: int) -> None:
        """Note that a task has stopped because its lease has ended."""
        del self._started[task]
