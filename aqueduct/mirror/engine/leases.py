"""Leases: which tasks of a flow a process has, and when it starts them.

The target's group coordinator assigns the tasks of a shared flow. Transactional ids guard exactly-once
delivery by themselves: a process that has lost a task and does not know it yet is fenced.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

SESSION_SECONDS = 10  # without a heartbeat, after which the coordinator assigns a member's tasks to others
# A task that was fenced starts again under the same lease after this time. It is longer than a process needs
# to detect that its session has ended, so that two processes do not fence each other in turn.
RECLAIM_SECONDS = 2 * SESSION_SECONDS
# After a failure, a task starts again under the same lease: the first and the longest pause.
RETRY_SECONDS = 5, 40


@dataclass(frozen=True, eq=False)
class Lease:
    """The assignment of a task to this process. It is never renewed: another assignment is another lease."""

    task: int
    ended: Event = field(default_factory=Event)


@dataclass(frozen=True)
class _Pause:
    lease: Lease
    until: float
    failures: int = 0  # one after the other


class LeaseBook:
    """The tasks that run, were fenced or failed, by their leases."""

    def __init__(self) -> None:
        self._started: dict[int, tuple[Lease, float]] = {}  # with the time
        self._pauses: dict[int, _Pause] = {}  # the last of each task

    def startable(self, leases: Mapping[int, Lease], now: float) -> list[Lease]:
        """Return the leases whose tasks are to start now, in the order of tasks."""
        return [
            lease
            for task, lease in sorted(leases.items())
            if task not in self._started and not lease.ended.is_set() and not self._is_paused(lease, now)
        ]

    def _is_paused(self, lease: Lease, now: float) -> bool:
        pause = self._pauses.get(lease.task)
        return pause is not None and pause.lease is lease and now < pause.until

    def note_started(self, lease: Lease, now: float) -> None:
        self._started[lease.task] = lease, now

    def note_fenced(self, task: int, now: float) -> None:
        """Note that another process has the task."""
        lease, _ = self._started.pop(task)
        self._pauses[task] = _Pause(lease, now + RECLAIM_SECONDS)

    def note_failed(self, task: int, now: float) -> None:
        """Note that a task ended with an error. Its pauses grow until it runs for longer than the longest."""
        lease, started = self._started.pop(task)
        first, longest = RETRY_SECONDS
        former = self._pauses.get(task)
        is_repeated = former is not None and former.lease is lease and now < started + longest
        failures = former.failures + 1 if former is not None and is_repeated else 1
        self._pauses[task] = _Pause(lease, now + min(longest, first * 2 ** (failures - 1)), failures)

    def note_ended(self, task: int) -> None:
        """Note that a task has stopped because its lease has ended."""
        del self._started[task]
