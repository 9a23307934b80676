"""The upkeep of a flow: it looks for topics, synchronises groups and checks progress, in a thread of its own.

Each of these may wait for brokers for a minute. The tasks and the membership of a process do not wait for it.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from kafka.errors import KafkaError

from aqueduct.errors import AqueductError, LeftOut, Skipped
from aqueduct.kafka.client import connect
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.flow import FlowTopics, MirrorOrder
from aqueduct.mirror.engine.groups import GroupsSynchronised
from aqueduct.mirror.engine.leases import Lease
from aqueduct.mirror.engine.names import CLIENT
from aqueduct.mirror.engine.stalls import Stalls, stalled
from aqueduct.mirror.engine.task import Assignment

POLL_SECONDS = 0.1
GROUPS_SECONDS = 10  # between two rounds of synchronising groups
PROGRESS_SECONDS = 10  # between two checks of progress
LEADER_SECONDS = 2  # the first pause until a process looks again for topics that the leader creates

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The assignment of each task, by the last look at the topics that succeeded."""

    assignments: tuple[Assignment, ...]
    problems: LeftOut = ()  # of the last looks and rounds


class Upkeep:
    """The thread. Use it as a context manager: its end waits for a running round.

    `prepared` is None before the first look. An error of the first look is raised by `prepared`; later ones
    are reported, and the tasks continue with what they have.
    """

    def __init__(self, order: MirrorOrder, figures: MirrorFigures, prepared: Prepared | None = None) -> None:
        """`prepared`: of the first look, if the caller had it."""
        self._order = order
        self._figures = figures
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"{CLIENT}-{order.flow}-upkeep", daemon=True)
        self._flow: FlowTopics | None = None
        self._lease: Lease | None = None  # of task 0
        self._prepared = prepared
        self._problems: dict[str, Skipped] = {}
        self._error: Exception | None = None
        self._stalls = Stalls()
        self._look_seconds = order.refresh_seconds
        self.is_synchronising = False

    def __enter__(self) -> "Upkeep":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()

    @property
    def prepared(self) -> Prepared | None:
        if self._error:
            raise self._error
        return self._prepared

    def lead(self, lease: Lease | None) -> None:
        """Create topics and synchronise groups under this lease; None: another process does."""
        self._lease = lease

    def sample(self) -> None:
        """Remember where partitions are now, for the translation of offsets."""
        if self._flow:
            self._flow.sample()

    def _run(self) -> None:
        order = self._order
        try:
            with (
                connect(order.source, CLIENT, self._stopping) as source,
                connect(order.target, CLIENT, self._stopping) as target,
            ):
                tasks = len(self._prepared.assignments) if self._prepared else 0
                self._flow = FlowTopics(order, source, target, self._figures, tasks)
                self._keep_up(self._flow)
        except Exception as error:  # `prepared` raises it
            if not self._stopping.is_set():
                self._error = error

    def _keep_up(self, flow: FlowTopics) -> None:
        former: Lease | None = None
        looked = synchronised = checked = 0.0
        while not self._stopping.is_set():
            lease, now = self._lease, time.monotonic()
            if not self._prepared or lease is not former or now >= looked + self._look_seconds:
                former, looked = lease, now
                self._look(flow, lease)
            if lease and now >= synchronised + GROUPS_SECONDS:
                synchronised = now
                self._synchronise(flow, lease)
            if now >= checked + PROGRESS_SECONDS:
                checked = now
                self._check_progress(flow)
            self._stopping.wait(POLL_SECONDS)

    def _look(self, flow: FlowTopics, lease: Lease | None) -> None:
        leads = lease is not None and not lease.ended.is_set()
        if not leads:
            self._figures.groups = GroupsSynchronised()
        before = flow.missing
        assignments: list[Assignment] = []
        if self._prepared is None:
            assignments = flow.prepare(leads=leads)
        else:
            self._attempt("changes of topics", lambda: assignments.extend(flow.prepare(leads=leads)))
        self._look_seconds = pause_after_look(
            self._look_seconds,
            self._order.refresh_seconds,
            waits=bool(flow.missing) and not leads,
            is_new=flow.missing != before,
        )
        self._publish(tuple(assignments) or (self._prepared.assignments if self._prepared else ()))

    def _synchronise(self, flow: FlowTopics, lease: Lease) -> None:
        self.is_synchronising = True  # before the lease is read: the process that gets it next waits for this
        try:
            if not lease.ended.is_set():
                self._attempt("groups", lambda: flow.synchronise(lease.ended.is_set))
        finally:
            self.is_synchronising = False

    def _check_progress(self, flow: FlowTopics) -> None:
        def check() -> None:
            positions = {partition: position.next for partition, position in self._figures.positions.items()}
            ends = {progress.partition: progress.log.end for progress in flow.progress()}
            partitions = self._stalls.note(positions, ends, time.monotonic())
            for task in self._figures.tasks:
                task.stalled = stalled(p for p in partitions if p in task.positions)

        self._attempt("progress", check)

    def _attempt(self, subject: str, action: Callable[[], None]) -> None:
        """Act; report an error as a problem until the same action succeeds."""
        before = self._problems.get(subject)
        try:
            action()
        except (AqueductError, KafkaError) as error:
            if self._stopping.is_set():
                return
            problem = Skipped.because_of(f"{subject} of flow {self._order.flow}", error)
            log.warning("%s", problem)
            self._problems[subject] = problem
        else:
            self._problems.pop(subject, None)
        if self._problems.get(subject) != before and self._prepared:
            self._publish(self._prepared.assignments)

    def _publish(self, assignments: tuple[Assignment, ...]) -> None:
        self._prepared = Prepared(assignments, tuple(self._problems.values()))


def pause_after_look(former: float, longest: float, *, waits: bool, is_new: bool) -> float:
    """Return the seconds until the next look at topics. `waits`: the leader is to create some.

    The pauses grow while the same topics are missing: the target may refuse them.
    """
    if not waits:
        return longest
    return min(longest, LEADER_SECONDS if is_new else 2 * former)
