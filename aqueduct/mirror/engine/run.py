"""Runs a flow: it prepares topics at the target, and shares the source partitions out among tasks."""

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import AqueductError, LeftOut, Refused, Skipped
from aqueduct.kafka import offsets, topics
from aqueduct.kafka.admin.settings import own_settings, settings_of
from aqueduct.kafka.admin.topics import apply_topics, await_topics, find_topics
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import Fenced
from aqueduct.kafka.topics import DeclaredTopic
from aqueduct.mirror.engine.groups import GroupsSynchronised, GroupSynchroniser, MirroredGroups
from aqueduct.mirror.engine.leases import Lease, LeaseBook
from aqueduct.mirror.engine.membership import Membership
from aqueduct.mirror.engine.names import CLIENT, state_topics
from aqueduct.mirror.engine.position import Position, missing_position, task_of
from aqueduct.mirror.engine.state import FlowState
from aqueduct.mirror.engine.task import Assignment, MirrorShare, MirrorTask, TaskFigures
from aqueduct.mirror.engine.topics import MirroredTopics, declared, illegal_names, unmatched, unsuitable
from aqueduct.mirror.status import Log, MirrorProgress

POLL_SECONDS = 0.1
GROUPS_SECONDS = 10  # between two rounds of synchronising groups
LEADER_SECONDS = 2  # until a process looks again for topics that the leader creates
SWITCH_SECONDS = 0.001  # between threads: a task must not wait long for its reader
# Positions are read again at each start: small segments are compacted soon.
STATE_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "message.timestamp.type": "CreateTime",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MirrorOrder:
    """The request to run a flow."""

    flow: str
    source: End
    target: End
    topics: MirroredTopics
    tasks: int = 2  # of a new flow; later, the flow keeps their number
    refresh_seconds: float = 30.0  # between two looks at topics
    replication_factor: int | None = None  # of new topics; None: the target's default
    first_start: bool = False
    again: frozenset[str] = frozenset()
    accept_ranges: bool = False  # forget the ranges that were listed
    until_caught_up: bool = False
    groups: MirroredGroups | None = None  # to synchronise; None: none
    shared: bool = False  # with other processes, as members of the flow's group at the target


@dataclass(kw_only=True)
class MirrorFigures:
    """What a flow has done since it was started."""

    tasks: tuple[TaskFigures, ...] = ()
    skipped_topics: LeftOut = ()
    groups: GroupsSynchronised = field(default_factory=GroupsSynchronised)  # the last round
    ended: TaskFigures = field(default_factory=TaskFigures)  # counts of tasks that other processes have now

    def end(self, task: TaskFigures) -> None:
        """Keep the counts of a task that this process has no longer, and nothing of its partitions."""
        self.tasks = tuple(figures for figures in self.tasks if figures is not task)
        self.ended.records += task.records
        self.ended.bytes += task.bytes
        self.ended.transactions += task.transactions
        self.ended.committed_time = max(self.ended.committed_time, task.committed_time)

    @property
    def skipped(self) -> LeftOut:
        refused = [skipped for task in self.tasks for skipped in list(task.refused.values())]
        of_groups = (*self.groups.skipped, *self.groups.inexact, *self.groups.unmatched)
        return (*self.skipped_topics, *sorted(refused), *of_groups)

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        return {partition: p for task in self.tasks for partition, p in dict(task.positions).items()}

    @property
    def records(self) -> int:
        return self.ended.records + sum(task.records for task in self.tasks)


def run(order: MirrorOrder, stopping: Event, figures: MirrorFigures) -> list[MirrorProgress]:
    """Mirror until `stopping` is set, or until all is mirrored that the source had at the start.

    Return how far each partition is. Refused, before anything was written; else the error of a task.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with connect(order.source, CLIENT) as source, connect(order.target, CLIENT) as target:
        _check_again(order, source)
        flow = _Flow(order, source, target, figures)
        if order.shared:
            _SharedFlow(order, flow, figures).run(stopping)
            return flow.progress()
        assignments = flow.prepare()
        flow.check_positions(assignments)
        tasks = [
            MirrorTask(
                MirrorShare(
                    flow=order.flow,
                    number=number,
                    source=order.source,
                    target=order.target,
                    again=order.again,
                    accept_ranges=order.accept_ranges,
                ),
                stopping,
            )
            for number in range(len(assignments))
        ]
        figures.tasks = tuple(task.figures for task in tasks)
        partitions = [partition for assignment in assignments for partition in assignment.targets]
        ends = offsets.ends(source, partitions)
        for task, assignment in zip(tasks, assignments, strict=True):
            task.assign(assignment)
            task.start()
        try:
            _supervise(order, flow, tasks, assignments, ends, stopping)
        finally:
            stopping.set()
            for task in tasks:
                task.join()
        return flow.progress()


def _check_again(order: MirrorOrder, source: Client) -> None:
    """Check that the topics to mirror again are topics of the flow; else Refused."""
    if order.again and (unknown := order.again - order.topics.targets(source.topics()).keys()):
        raise Refused(
            "topic-unknown",
            f"The flow {order.flow} mirrors no topic {', '.join(sorted(unknown))} of the {source.end}. "
            "Nothing was written. Correct --again.",
        )


def _supervise(
    order: MirrorOrder,
    flow: "_Flow",
    tasks: Sequence[MirrorTask],
    assignments: Sequence[Assignment],
    ends: Mapping[TopicPartition, int],
    stopping: Event,
) -> None:
    refreshed = synchronised = time.monotonic()
    while not stopping.wait(POLL_SECONDS):
        for task in tasks:
            if task.error:
                raise task.error
        flow.sample()
        now = time.monotonic()
        if order.until_caught_up:
            if flow.is_caught_up(ends):
                flow.synchronise()
                return
            continue
        try:
            if now > refreshed + order.refresh_seconds:
                refreshed = now
                assignments = flow.prepare()
                for task, assignment in zip(tasks, assignments, strict=True):
                    task.assign(assignment)
            if now > synchronised + GROUPS_SECONDS:
                synchronised = now
                flow.synchronise()
        except AqueductError as error:
            log.warning("%s", error.labelled)
            # The tasks continue with what they have, and the flow's status has the reason.
            reason = Skipped.because_of(f"changes of topics and groups of flow {order.flow}", error)
            tasks[0].assign(replace(assignments[0], skipped=(*assignments[0].skipped, reason)))


class _SharedFlow:
    """The tasks of a flow that its group assigns to this process. The process with task 0 leads the flow.

    The leader creates topics at the target and synchronises groups.
    """

    def __init__(self, order: MirrorOrder, flow: "_Flow", figures: MirrorFigures) -> None:
        self._order = order
        self._flow = flow
        self._figures = figures
        self._book = LeaseBook()
        self._tasks: dict[int, MirrorTask] = {}
        self._assignments: list[Assignment] = []
        self._leads = False
        self._reported: frozenset[int] | None = None
        self._refresh_time = 0.0  # the next

    def run(self, stopping: Event) -> None:
        """Run until `stopping` is set; raise the error of a task: other processes get its tasks."""
        self._flow.prepare_state()
        with Membership(self._order.target, self._order.flow, self._is_running) as membership:
            synchronised = time.monotonic()
            leases: Mapping[int, Lease] = {}
            try:
                while not stopping.wait(POLL_SECONDS):
                    leases = membership.leases
                    self._end_tasks()
                    self._start_tasks(leases)
                    self._flow.sample()
                    if not self._leads or time.monotonic() < synchronised + GROUPS_SECONDS:
                        continue
                    synchronised = time.monotonic()
                    try:
                        self._flow.synchronise()
                    except AqueductError as error:
                        log.warning("%s", error.labelled)
            finally:
                for lease in leases.values():
                    lease.ended.set()
                for task in self._tasks.values():
                    task.join()

    def _is_running(self, task: int) -> bool:
        return task in self._tasks and self._tasks[task].is_alive()

    def _end_tasks(self) -> None:
        """Forget the tasks that have ended. A fenced one is another process's until it is assigned again."""
        for number, task in list(self._tasks.items()):
            if task.is_alive():
                continue
            if isinstance(task.error, Fenced):
                log.warning("Task %d: %s", number, task.error.labelled)
                self._book.note_fenced(number, time.monotonic())
            elif task.error:
                raise task.error
            else:
                self._book.note_ended(number)
            del self._tasks[number]
            self._figures.end(task.figures)

    def _start_tasks(self, leases: Mapping[int, Lease]) -> None:
        now = time.monotonic()
        startable = self._book.startable(leases, now)
        leads = 0 in leases
        if not leads and self._leads:
            self._figures.skipped_topics, self._figures.groups = (), GroupsSynchronised()
        takes_lead, self._leads = leads and not self._leads, leads
        if not self._assignments or (startable and self._flow.lacks_topics):
            self._prepare()
            takes_lead = False
        if startable and not self._tasks:
            self._flow.check_positions(self._assignments)
        # A process that stands by looks for topics, too: its tasks start before the next look, which may wait
        # for a broker that was lost with the other host.
        for lease in startable:
            task = MirrorTask(
                MirrorShare(
                    flow=self._order.flow,
                    number=lease.task,
                    source=self._order.source,
                    target=self._order.target,
                ),
                lease.ended,
            )
            task.assign(self._assignments[lease.task])
            self._tasks[lease.task] = task
            self._figures.tasks += (task.figures,)
            self._book.note_started(lease)
            task.start()
        self._report(leases)
        if takes_lead or time.monotonic() > self._refresh_time:
            self._prepare()

    def _prepare(self) -> None:
        """Look for topics, and assign them to the tasks. An error in the first look ends the process."""
        self._refresh_time = time.monotonic() + self._order.refresh_seconds
        try:
            self._assignments = self._flow.prepare(leads=self._leads)
        except AqueductError as error:
            if not self._assignments:
                raise
            log.warning("%s", error.labelled)  # the tasks continue with what they have
        if self._flow.lacks_topics:  # the leader creates them
            self._refresh_time = min(self._refresh_time, time.monotonic() + LEADER_SECONDS)
        for number, task in self._tasks.items():
            task.assign(self._assignments[number])

    def _report(self, leases: Mapping[int, Lease]) -> None:
        if self._reported != frozenset(leases):
            self._reported = frozenset(leases)
            numbers = ", ".join(map(str, sorted(leases)))
            log.info("%s: %s", self._order.flow, f"has tasks {numbers}" if numbers else "stands by")


class _Flow:
    """The topics of a flow at both ends."""

    def __init__(self, order: MirrorOrder, source: Client, target: Client, figures: MirrorFigures) -> None:
        self._order = order
        self._source = source
        self._target = target
        self._figures = figures
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self._groups: GroupSynchroniser | None = None
        self._assigned = 0  # number of tasks
        self.lacks_topics = False  # at the target, by the last look: another process creates them

    def sample(self) -> None:
        if self._groups:
            self._groups.sample(self._figures.positions)

    def synchronise(self) -> None:
        """Set the offsets of groups at the target, if the order says so."""
        if self._groups and self._order.groups:
            self._figures.groups = self._groups.synchronise(self._order.groups, self._targets)

    def prepare_state(self) -> None:
        """Create the flow's own topics. Several processes may do so at once."""
        names = state_topics(self._order.flow)
        try:
            self._create({}, {})
        except AqueductError:
            if self._target.topics(names).keys() != {*names}:
                raise

    def prepare(self, *, leads: bool = True) -> list[Assignment]:
        """Create, grow and alter topics at the target; return the assignment of each task.

        Without `leads`, another process does so: only what exists is assigned.
        """
        source_topics = self._source.topics()
        targets = self._order.topics.targets(source_topics)
        skipped = illegal_names(targets)
        lacking = unmatched(self._order.topics, targets, self._source.end)
        for illegal in skipped:
            del targets[illegal.what]
        skipped += lacking
        if leads:
            self._create(targets, source_topics)
        partitions = {name: len(source_topics[name].partitions) for name in targets}
        self.lacks_topics = False
        if not leads:
            existing = self._target.topics(targets.values())
            counts = {
                name: len(existing[target].partitions)
                for name, target in targets.items()
                if target in existing
            }
            self.lacks_topics = any(counts.get(name, 0) < number for name, number in partitions.items())
            targets = {name: targets[name] for name in counts}
            partitions = counts
        config = settings_of(
            self._target,
            {name: ["max.message.bytes", "message.timestamp.type"] for name in targets.values()},
            "all",
        )
        for source, target in list(targets.items()):
            if omission := unsuitable(target, config[target]):
                skipped.append(omission)
                del targets[source]
        topics_skipped = tuple(sorted(skipped))
        self._figures.skipped_topics = topics_skipped if leads else ()
        max_bytes = {name: int(config[name]["max.message.bytes"]) for name in targets.values()}
        tasks = self._tasks()
        shares: list[dict[TopicPartition, TopicPartition]] = [{} for _ in range(tasks)]
        for source, target in targets.items():
            for partition in source_topics[source].topic_partitions:
                if partition.partition >= partitions[source]:
                    continue
                shares[task_of(partition, tasks)][partition] = TopicPartition(target, partition.partition)
        self._targets = {source: target for share in shares for source, target in share.items()}
        if leads and self._order.groups and not self._groups:
            state = FlowState(self._target, self._order.flow, range(tasks))
            self._groups = GroupSynchroniser(self._source, self._target, state)
        return [
            Assignment(
                targets=share,
                max_bytes=max_bytes,
                skipped=() if number else topics_skipped,
            )
            for number, share in enumerate(shares)
        ]

    def _create(self, targets: Mapping[str, str], source_topics: Mapping[str, Topic]) -> None:
        own = state_topics(self._order.flow)
        existing = self._target.topics([*targets.values(), *own])
        wanted = declared(
            targets,
            {name: len(source_topics[name].partitions) for name in targets},
            own_settings(self._source, targets),
            {name: len(topic.partitions) for name, topic in existing.items()},
            self._order.replication_factor,
        )
        wanted += [
            DeclaredTopic(
                name=name,
                partitions=self._order.tasks,
                replication_factor=self._order.replication_factor,
                config=STATE_CONFIG,
            )
            for name in own
            if name not in existing
        ]
        changes = topics.plan(wanted, find_topics(self._target, wanted))
        if touched := changes.touched():
            apply_topics(self._target, changes)
            await_topics(self._target, [topic for topic in wanted if topic.name in touched])

    def _tasks(self) -> int:
        names = state_topics(self._order.flow)
        own = self._target.topics(names)
        tasks = {len(topic.partitions) for topic in own.values()}
        if len(tasks) != 1:
            raise Refused(
                "mirror-tasks-differ",
                f"The topics {some(names)} of the {self._target.end} have different numbers of partitions. "
                "Each has one for each task, which must not change. Restore them.",
            )
        number = tasks.pop()
        if self._targets and number != self._assigned:
            raise Refused(
                "mirror-tasks-differ",
                f"The topics {some(names)} of the {self._target.end} have {number} partitions, and had "
                f"{self._assigned} when this process was started. New topics are not mirrored. Restore both.",
            )
        self._assigned = number
        return number

    def check_positions(self, assignments: Sequence[Assignment]) -> None:
        """Check that each task finds the positions of its partitions, and that a flow without any begins
        where its target is empty; else Refused."""
        tasks = len(assignments)
        state = FlowState(self._target, self._order.flow, range(tasks))
        state.refresh()
        if moved := sorted(p for p, task in state.tasks.items() if task_of(p, tasks) != task):
            raise Refused(
                "mirror-tasks-differ",
                f"The topics {some(state_topics(self._order.flow))} of the {self._target.end} have {tasks} "
                f"partitions, and had another number when positions of {some(moved)} were stored. Other "
                "tasks would mirror these from their beginning again. Restore both topics.",
            )
        if state.positions or self._order.first_start:
            return
        targets = [target for assignment in assignments for target in assignment.targets.values()]
        ends = offsets.ends(self._target, targets, "read_uncommitted")
        if written := sorted(target for target, end in ends.items() if end):
            if self._order.shared:  # another process may have begun meanwhile: it commits positions first
                state.refresh()
                if state.positions:
                    return
            raise Refused("mirror-position-missing", missing_position(some(written)))

    def is_caught_up(self, ends: Mapping[TopicPartition, int]) -> bool:
        refused = {partition for task in self._figures.tasks for partition in list(task.refused)}
        positions = self._figures.positions
        return all(
            partition in refused or (partition in positions and positions[partition].next >= end)
            for partition, end in ends.items()
        )

    def progress(self) -> list[MirrorProgress]:
        """Return how far each partition is mirrored."""
        positions = self._figures.positions
        source_topics = self._source.topics({partition.topic for partition in positions})
        led = {partition for topic in source_topics.values() for partition in topic.led_partitions}
        asked = sorted(led & positions.keys())
        starts, ends = offsets.log_starts(self._source, asked), offsets.ends(self._source, asked)
        return [
            MirrorProgress(partition=p, next=positions[p].next, log=Log(starts[p], ends[p]), drained=False)
            for p in asked
        ]
