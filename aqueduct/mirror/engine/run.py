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
from aqueduct.kafka.topics import DeclaredTopic
from aqueduct.mirror.engine.groups import GroupsSynchronised, GroupSynchroniser, MirroredGroups
from aqueduct.mirror.engine.names import CLIENT, state_topics
from aqueduct.mirror.engine.position import Position, missing_position, task_of
from aqueduct.mirror.engine.state import FlowState
from aqueduct.mirror.engine.task import Assignment, MirrorShare, MirrorTask, TaskFigures
from aqueduct.mirror.engine.topics import MirroredTopics, declared, illegal_names, unmatched, unsuitable
from aqueduct.mirror.status import Log, MirrorProgress

POLL_SECONDS = 0.1
GROUPS_SECONDS = 10  # between two rounds of synchronising groups
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


@dataclass(kw_only=True)
class MirrorFigures:
    """What a flow has done since it was started."""

    tasks: tuple[TaskFigures, ...] = ()
    skipped_topics: LeftOut = ()
    groups: GroupsSynchronised = field(default_factory=GroupsSynchronised)  # the last round

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
        return sum(task.records for task in self.tasks)


def run(order: MirrorOrder, stopping: Event, figures: MirrorFigures) -> list[MirrorProgress]:
    """Mirror until `stopping` is set, or until all is mirrored that the source had at the start.

    Return how far each partition is. Refused, before anything was written; else the error of a task.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with connect(order.source, CLIENT) as source, connect(order.target, CLIENT) as target:
        _check_again(order, source)
        flow = _Flow(order, source, target, figures)
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


class _Flow:
    """The topics of a flow at both ends."""

    def __init__(self, order: MirrorOrder, source: Client, target: Client, figures: MirrorFigures) -> None:
        self._order = order
        self._source = source
        self._target = target
        self._figures = figures
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self._groups: GroupSynchroniser | None = None
        self._assigned = 0  # number of tasks; 0: not read yet

    def sample(self) -> None:
        if self._groups:
            self._groups.sample(self._figures.positions)

    def synchronise(self) -> None:
        """Set the offsets of groups at the target, if the order says so."""
        if self._groups and self._order.groups:
            self._figures.groups = self._groups.synchronise(self._order.groups, self._targets)

    def prepare(self) -> list[Assignment]:
        """Create, grow and alter topics at the target; return the assignment of each task."""
        source_topics = self._source.topics()
        targets = self._order.topics.targets(source_topics)
        skipped = illegal_names(targets)
        lacking = unmatched(self._order.topics, targets, self._source.end)
        for illegal in skipped:
            del targets[illegal.what]
        skipped += lacking
        self._create(targets, source_topics)
        config = settings_of(
            self._target,
            {name: ["max.message.bytes", "message.timestamp.type"] for name in targets.values()},
            "all",
        )
        for source, target in list(targets.items()):
            if omission := unsuitable(target, config[target]):
                skipped.append(omission)
                del targets[source]
        self._figures.skipped_topics = tuple(sorted(skipped))
        max_bytes = {name: int(config[name]["max.message.bytes"]) for name in targets.values()}
        tasks = self._tasks()
        shares: list[dict[TopicPartition, TopicPartition]] = [{} for _ in range(tasks)]
        for source, target in targets.items():
            for partition in source_topics[source].topic_partitions:
                shares[task_of(partition, tasks)][partition] = TopicPartition(target, partition.partition)
        self._targets = {source: target for share in shares for source, target in share.items()}
        if self._order.groups and not self._groups:
            state = FlowState(self._target, self._order.flow, range(tasks))
            self._groups = GroupSynchroniser(self._source, self._target, state)
        return [
            Assignment(
                targets=share,
                max_bytes=max_bytes,
                skipped=() if number else self._figures.skipped_topics,
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
        if self._assigned and number != self._assigned:
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
            raise Refused("mirror-position-missing", missing_position(some(written)))

    def is_caught_up(self, ends: Mapping[TopicPartition, int]) -> bool:
        refused = {partition for task in self._figures.tasks for partition in list(task.refused)}
        positions = self._figures.positions
        if self._order.accept_ranges and not all(task.committed_time for task in self._figures.tasks):
            return False  # what is accepted of topics without partitions here is not stored yet
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
