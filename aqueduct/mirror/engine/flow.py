"""The topics of a flow at both ends: which are mirrored, and what the target needs for them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka.errors import KafkaError

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka import offsets, topics
from aqueduct.kafka.admin.settings import settings_of
from aqueduct.kafka.admin.topics import apply_accepted, find_topics, unsettled_topics
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.client_config import End
from aqueduct.kafka.line import DEFAULTS, FetchSettings
from aqueduct.kafka.topics import DeclaredTopic, TopicChanges
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.groups import GroupsSynchronised, GroupSynchroniser, MirroredGroups
from aqueduct.mirror.engine.names import state_topics
from aqueduct.mirror.engine.position import (
    BATCHES,
    UnreadablePosition,
    check_holder,
    missing_position,
    task_of,
)
from aqueduct.mirror.engine.state import FlowState
from aqueduct.mirror.engine.switch_plan import holder_of
from aqueduct.mirror.engine.task import Assignment
from aqueduct.mirror.engine.topics import (
    MirroredTopics,
    declared,
    illegal_names,
    not_ready,
    rejected,
    unmatched,
    unsuitable,
)
from aqueduct.mirror.positions import FlowPositions
from aqueduct.mirror.status import Log, MirrorProgress

STATE_SECONDS = 60  # until the flow's own topics exist
REFUSED_SECONDS = 10  # likewise, if the controller refuses to create one: another process may have done it
POLL_SECONDS = 0.2
# Positions are read again at each start: small segments are compacted soon.
STATE_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "message.timestamp.type": "CreateTime",
}
SETTINGS = ["max.message.bytes", "message.timestamp.type"]  # of a target topic, which the flow needs


@dataclass(frozen=True, kw_only=True)
class MirrorOrder:
    """The request to run a flow."""

    flow: str
    source: End
    target: End
    topics: MirroredTopics
    fetches: FetchSettings = DEFAULTS  # from the source
    tasks: int = 2  # of a new flow; later, the flow keeps their number
    refresh_seconds: float = 30.0  # between two looks at topics
    replication_factor: int | None = None  # of new topics; None: the target's default
    first_start: bool = False  # the flow never mirrored the partitions that it has no position of
    again: frozenset[str] = frozenset()
    accept_ranges: bool = False  # forget the ranges that were listed
    until_caught_up: bool = False
    groups: MirroredGroups | None = None  # to synchronise; None: none
    shared: bool = False  # with other processes, as members of the flow's group at the target


def prepare_state(order: MirrorOrder, target: Client) -> None:
    """Create the flow's own topics, and wait until they exist. Several processes may do so at once."""
    names = state_topics(order.flow)
    missing = [name for name in names if name not in target.topics(names)]
    if not missing:
        return
    created = [
        DeclaredTopic(
            name=name,
            partitions=order.tasks,
            replication_factor=order.replication_factor,
            config=STATE_CONFIG,
        )
        for name in missing
    ]
    changes = TopicChanges(create=tuple(created), grow={}, alter={}, unmet=())
    refused = apply_accepted(target, changes)  # also if another process has just created them
    seconds = REFUSED_SECONDS if refused else STATE_SECONDS
    deadline = time.monotonic() + seconds
    while missing:
        existing = target.topics(missing)
        missing = [
            name
            for name in missing
            if name not in existing or len(existing[name].led_partitions) < len(existing[name].partitions)
        ]
        if missing and time.monotonic() > deadline:
            reasons = "; ".join(refused.values()) or "check that all brokers run"
            raise Failed(
                "topic-not-ready",
                f"The {target.end} has no topic {some(missing)} with leaders of all partitions after "
                f"{seconds} s: {reasons}.",
            )
        if missing:
            target.sleep(POLL_SECONDS)


class FlowTopics:
    """The topics of a flow at both ends, for one thread at a time."""

    def __init__(
        self, order: MirrorOrder, source: Client, target: Client, figures: MirrorFigures, tasks: int = 0
    ) -> None:
        """`tasks`: their number, which must not change; 0: it is not known yet."""
        self._order = order
        self._source = source
        self._target = target
        self._figures = figures
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self._groups: GroupSynchroniser | None = None
        self._assigned = tasks
        self.missing: set[str] = set()  # topics that the target lacks, or some partitions of them

    def sample(self) -> None:
        if self._groups:
            self._groups.sample(self._figures.positions)

    def synchronise(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Set the offsets of groups at the target, if the order says so; none from when on `is_over`."""
        if self._groups and self._order.groups:
            result = self._groups.synchronise(self._order.groups, self._targets, is_over)
            self._figures.groups = GroupsSynchronised() if is_over() else result

    def prepare(self, *, leads: bool = True) -> list[Assignment]:
        """Create, grow and alter topics at the target; return the assignment of each task.

        Without `leads`, another process does so. What exists is assigned: a topic that the target refuses is
        skipped, and does not stop others.
        """
        source_topics = self._source.topics()
        targets = self._order.topics.targets(source_topics)
        skipped = illegal_names(targets)
        lacking = unmatched(self._order.topics, targets, self._source.end)
        for illegal in skipped:
            del targets[illegal.what]
        skipped += lacking
        refused: list[Skipped] = []
        if leads:
            prepare_state(self._order, self._target)
            refused = self._create(targets, source_topics)
        existing = self._existing(targets.values())
        counts = {
            name: (len(source_topics[name].partitions), len(existing[target].partitions))
            for name, target in targets.items()
            if target in existing
        }
        self.missing = {name for name in targets if name not in counts or counts[name][0] > counts[name][1]}
        if leads:
            reported = {omission.what for omission in refused}
            refused += [not_ready(name) for name in sorted(self.missing) if name not in reported]
        denied: dict[str, KafkaError] = {}
        config = settings_of(self._target, {targets[name]: SETTINGS for name in counts}, "all", denied)
        mirrored: dict[str, str] = {}
        for name in counts:
            target = targets[name]
            if target in denied:
                skipped.append(Skipped.because_of(name, denied[target]))
            elif omission := unsuitable(target, config[target]):
                skipped.append(omission)
            elif "max.message.bytes" in config[target]:  # else it was deleted meanwhile
                mirrored[name] = target
        topics_skipped = tuple(sorted({*skipped, *refused}))
        self._figures.skipped_topics = topics_skipped if leads else ()
        max_bytes = {name: int(config[name]["max.message.bytes"]) for name in mirrored.values()}
        tasks = self._tasks()
        shares: list[dict[TopicPartition, TopicPartition]] = [{} for _ in range(tasks)]
        for name, target in mirrored.items():
            for partition in source_topics[name].topic_partitions:
                if partition.partition < counts[name][1]:
                    share = shares[task_of(partition, tasks)]
                    share[partition] = TopicPartition(target, partition.partition)
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

    def _existing(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the topics of the target that exist, as far as the flow may describe them."""
        chosen = {*names}
        return {name: topic for name, topic in self._target.topics().items() if name in chosen}

    def _create(self, targets: Mapping[str, str], source_topics: Mapping[str, Topic]) -> list[Skipped]:
        """Create, grow and alter topics at the target, and wait for them; return those that it refuses."""
        denied: dict[str, KafkaError] = {}
        settings = settings_of(self._source, dict.fromkeys(targets), "modified", denied)
        existing = self._existing(targets.values())
        wanted = declared(
            {name: target for name, target in targets.items() if name not in denied},
            {name: len(source_topics[name].partitions) for name in targets},
            settings,
            {name: len(topic.partitions) for name, topic in existing.items()},
            self._order.replication_factor,
        )
        denied_targets: dict[str, KafkaError] = {}
        actual = find_topics(self._target, wanted, denied_targets)
        changes = topics.plan([topic for topic in wanted if topic.name not in denied_targets], actual)
        reasons = apply_accepted(self._target, changes)
        touched = changes.touched() - reasons.keys()
        unsettled_topics(self._target, [topic for topic in wanted if topic.name in touched], {})
        names = {target: name for name, target in targets.items()}
        refused = rejected(
            {names[target]: reason for target, reason in reasons.items()},
            {names[target] for target in existing},
        )
        refused += [Skipped.because_of(name, error) for name, error in sorted(denied.items())]
        refused += [Skipped.because_of(names[name], error) for name, error in sorted(denied_targets.items())]
        return refused

    def _tasks(self) -> int:
        names = state_topics(self._order.flow)
        own = self._target.topics(names)
        tasks = {len(topic.partitions) for topic in own.values()}
        if len(tasks) != 1:
            raise Refused(
                "mirror-tasks-differ",
                f"The topics {some(names)} of the {self._target.end} have different numbers of partitions. "
                "Each topic needs one partition for each task, and this number must not change. Restore "
                "both topics.",
            )
        number = tasks.pop()
        if self._assigned and number != self._assigned:
            raise Refused(
                "mirror-tasks-differ",
                f"The topics {some(names)} of the {self._target.end} have {number} partitions, but had "
                f"{self._assigned} partitions at the start of this process. New topics are not mirrored. "
                "Restore both topics.",
            )
        self._assigned = number
        return number

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


def check_positions(order: MirrorOrder, target: Client, assignments: Sequence[Assignment]) -> None:
    """Check that each task finds the positions of its partitions, and that a flow without any begins
    where its target is empty; else Refused. A task whose positions cannot be read reports it itself.
    A flow with positions refuses single partitions: see position.resume."""
    tasks = len(assignments)
    unreadable: dict[int, UnreadablePosition] = {}
    state = FlowState(target, order.flow, range(tasks), unreadable)
    state.refresh()
    if moved := sorted(p for p, task in state.tasks.items() if task_of(p, tasks) != task):
        raise Refused(
            "mirror-tasks-differ",
            f"The topics {some(state_topics(order.flow))} of the {target.end} have {tasks} partitions, but "
            f"had another number when positions of {some(moved)} were stored. Other tasks would mirror "
            "these partitions from their beginning again. Restore both topics.",
        )
    if not unreadable:
        mirror_maker = FlowPositions(order.flow, target)
        if not state.positions:
            mirror_maker.refresh()
        check_holder(order.flow, holder_of(state.holder, state.positions, mirror_maker.stored), BATCHES)
    if state.positions or unreadable or order.first_start:
        return
    partitions = [partition for assignment in assignments for partition in assignment.targets.values()]
    ends = offsets.ends(target, partitions, "read_uncommitted")
    if written := sorted(partition for partition, end in ends.items() if end):
        if order.shared:  # another process may have begun meanwhile: it commits positions first
            state.refresh()
            if state.positions:
                return
        raise Refused("mirror-position-missing", missing_position(some(written)))
