"""Runs a flow: alone, or with other processes that share its tasks as members of a group at the target."""

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from threading import Event

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import AqueductError, Refused
from aqueduct.kafka import offsets
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.produce import Fenced
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.flow import FlowTopics, MirrorOrder, check_positions, prepare_state
from aqueduct.mirror.engine.leases import Lease, LeaseBook
from aqueduct.mirror.engine.membership import Membership
from aqueduct.mirror.engine.names import CLIENT
from aqueduct.mirror.engine.position import Position
from aqueduct.mirror.engine.task import Assignment, MirrorShare, MirrorTask, task_failure
from aqueduct.mirror.engine.upkeep import Prepared, Upkeep
from aqueduct.mirror.status import MirrorProgress

POLL_SECONDS = 0.1
SWITCH_SECONDS = 0.001  # between threads: a task must not wait long for its reader
LEADER = 0  # the task whose process creates topics and synchronises groups
# Errors of a task that a process on another host may not have.
_UNREACHABLE = {"broker-address-unreachable", "cluster-not-responding", "cluster-unreachable"}

log = logging.getLogger(__name__)


def run(order: MirrorOrder, stopping: Event, figures: MirrorFigures) -> list[MirrorProgress]:
    """Mirror until `stopping` is set, or until all is mirrored that the source had at the start.

    Return how far each partition is. Refused, before anything was written; else an error that ends all tasks.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    if order.shared:
        _run_shared(order, stopping, figures)
    else:
        _run_alone(order, stopping, figures)
    with connect(order.source, CLIENT) as source, connect(order.target, CLIENT) as target:
        return FlowTopics(order, source, target, figures).progress()


def _run_shared(order: MirrorOrder, stopping: Event, figures: MirrorFigures) -> None:
    """Run the tasks that the flow's group assigns to this process."""
    with connect(order.target, CLIENT) as target:
        prepare_state(order, target)
    tasks, upkeep = TaskPool(order, figures), Upkeep(order, figures)

    def is_busy(task: int) -> bool:
        return tasks.is_running(task) or (task == LEADER and upkeep.is_synchronising)

    with upkeep:
        while not upkeep.prepared:  # a process that does not reach the source gets no tasks
            if stopping.wait(POLL_SECONDS):
                return
        with Membership(order.target, order.flow, is_busy) as membership:
            leases: Mapping[int, Lease] = {}
            reported: frozenset[int] | None = None
            try:
                while not stopping.wait(POLL_SECONDS):
                    leases = membership.leases
                    upkeep.lead(leases.get(LEADER))
                    upkeep.sample()
                    tasks.end(leases)
                    prepared = upkeep.prepared
                    tasks.assign(prepared)
                    if tasks.startable(leases) and not tasks.is_any_running:
                        with connect(order.target, CLIENT) as target:
                            check_positions(order, target, prepared.assignments)
                    tasks.start(leases)
                    if reported != frozenset(leases):
                        reported = frozenset(leases)
                        numbers = ", ".join(map(str, sorted(leases)))
                        log.info("%s: %s", order.flow, f"has tasks {numbers}" if numbers else "is on standby")
            finally:
                for lease in leases.values():
                    lease.ended.set()
                tasks.join()
                upkeep.stop()  # before the group is left: its next leader then synchronises groups


def _run_alone(order: MirrorOrder, stopping: Event, figures: MirrorFigures) -> None:
    """Run all tasks: they fence those of other processes."""
    with connect(order.source, CLIENT) as source, connect(order.target, CLIENT) as target:
        _check_again(order, source)
        flow = FlowTopics(order, source, target, figures)
        prepared = Prepared(tuple(flow.prepare()))
        check_positions(order, target, prepared.assignments)
        leases = {number: Lease(number, stopping) for number in range(len(prepared.assignments))}
        tasks = TaskPool(order, figures)
        tasks.assign(prepared)
        ends = offsets.ends(source, [p for assignment in prepared.assignments for p in assignment.targets])
        try:
            tasks.start(leases)
            if order.until_caught_up:
                while not stopping.wait(POLL_SECONDS):
                    tasks.end(leases)
                    flow.sample()
                    if flow.is_caught_up(ends):
                        flow.synchronise()
                        figures.is_caught_up = True
                        break
                return
            upkeep = Upkeep(order, figures, prepared)
            upkeep.lead(leases[LEADER])
            with upkeep:
                while not stopping.wait(POLL_SECONDS):
                    upkeep.sample()
                    tasks.end(leases)
                    if latest := upkeep.prepared:
                        tasks.assign(latest)
                    tasks.start(leases)
        finally:
            stopping.set()
            tasks.join()


def _check_again(order: MirrorOrder, source: Client) -> None:
    """Check that the topics to mirror again are topics of the flow; else Refused."""
    if order.again and (unknown := order.again - order.topics.targets(source.topics()).keys()):
        raise Refused(
            "topic-unknown",
            f"The flow {order.flow} does not mirror the topic {', '.join(sorted(unknown))} of the "
            f"{source.end}. Nothing was written. Correct --again.",
        )


def ends_process(order: MirrorOrder, error: Exception, *, others_run: bool) -> bool:
    """Return whether the error of one task ends all tasks of its process, because a retry would not help.

    If no task can reach a cluster, a process on another host may.
    """
    if isinstance(error, Fenced):
        return not order.shared
    if order.until_caught_up or order.again or order.accept_ranges:
        return True
    return not others_run and isinstance(error, AqueductError) and error.id in _UNREACHABLE


class TaskPool:
    """The tasks that a process runs, each under a lease."""

    def __init__(self, order: MirrorOrder, figures: MirrorFigures) -> None:
        self._order = order
        self._figures = figures
        self._book = LeaseBook()
        self._tasks: dict[int, MirrorTask] = {}
        self._prepared: Prepared | None = None
        self._committed: dict[int, dict[TopicPartition, Position]] = {}  # by task, also when it has ended

    @property
    def is_any_running(self) -> bool:
        return bool(self._tasks)

    def is_running(self, task: int) -> bool:
        """Return whether a task still works. Another thread may ask."""
        thread = self._tasks.get(task)
        return thread is not None and thread.is_alive()

    def assign(self, prepared: Prepared) -> None:
        """Let the tasks mirror what was prepared last."""
        if prepared is self._prepared:
            return
        self._prepared = prepared
        self._figures.problems = prepared.problems
        for number, task in self._tasks.items():
            task.assign(self._assignment(number))

    def startable(self, leases: Mapping[int, Lease]) -> list[Lease]:
        """Return the leases whose tasks are to start now."""
        number = len(self._prepared.assignments) if self._prepared else 0
        return [lease for lease in self._book.startable(leases, time.monotonic()) if lease.task < number]

    def start(self, leases: Mapping[int, Lease]) -> None:
        """Start the tasks that are to start now."""
        for lease in self.startable(leases):
            share = MirrorShare(
                flow=self._order.flow,
                number=lease.task,
                source=self._order.source,
                target=self._order.target,
                fetches=self._order.fetches,
                again=self._order.again,
                accept_ranges=self._order.accept_ranges,
                first_start=self._order.first_start,
                shared=self._order.shared,
            )
            task = MirrorTask(share, lease.ended, self._committed.setdefault(lease.task, {}))
            self._tasks[lease.task] = task
            task.assign(self._assignment(lease.task))
            self._figures.tasks += (task.figures,)
            self._book.note_started(lease, time.monotonic())
            task.start()

    def _assignment(self, number: int) -> Assignment:
        """Return the assignment of a task. The first task of the process reports its problems."""
        prepared = self._prepared or Prepared(())
        assignment = prepared.assignments[number]
        if number > min(self._tasks):
            return assignment
        return replace(assignment, skipped=(*assignment.skipped, *prepared.problems))

    def end(self, leases: Mapping[int, Lease]) -> None:
        """Forget the tasks that have ended, until they start again; raise an error that ends the process."""
        for number, task in list(self._tasks.items()):
            if task.is_alive():
                if task.figures.transactions:
                    self._figures.failures.pop(number, None)
                continue
            del self._tasks[number]
            if task.error is None:
                self._book.note_ended(number)
            elif ends_process(self._order, task.error, others_run=bool(self._tasks)):
                raise task.error
            else:
                self._note(number, task.error)
            self._figures.end(task.figures)
        for number in self._figures.failures.keys() - leases.keys():
            del self._figures.failures[number]

    def _note(self, number: int, error: Exception) -> None:
        failure = task_failure(number, error)
        if isinstance(error, Fenced):
            self._book.note_fenced(number, time.monotonic())
            log.warning("%s", failure)
        else:
            self._book.note_failed(number, time.monotonic())
            log.warning("%s", failure, exc_info=None if isinstance(error, AqueductError) else error)
        self._figures.failures[number] = failure

    def join(self) -> None:
        """Wait for the end of all tasks."""
        for task in self._tasks.values():
            task.join()
