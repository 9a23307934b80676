"""Read what a flow of the engine `batches` leaves in its target cluster, and how far the source's logs go.

Only with what every host has. Nothing is written.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka.errors import GroupAuthorizationFailedError, GroupIdNotFoundError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import CoordinatorType

from aqueduct.common.topic_names import TopicPartition, unmatched_parts
from aqueduct.common.wording import some
from aqueduct.errors import labelled
from aqueduct.kafka import offsets
from aqueduct.kafka.client import Client, Patience, Topic
from aqueduct.kafka.client_errors import answering
from aqueduct.kafka.compacted_topics import MOST_STATE_BYTES, Table
from aqueduct.kafka.lag_seconds import unread_ages
from aqueduct.mirror.engine.names import group_of, member_host, positions_topic
from aqueduct.mirror.engine.position import (
    Position,
    TaskStatus,
    UnreadablePosition,
    is_engine_key,
    parse_holder,
    parse_position,
    parse_status,
)
from aqueduct.mirror.engine.topics import UNMATCHED, MirroredTopics
from aqueduct.mirror.status import (
    LOST,
    LOST_EARLIER,
    TARGET_ONLY,
    AffectedRange,
    FlowTask,
    Log,
    MirrorProgress,
    hidden_findings,
    hidden_partitions,
    no_state_finding,
)


@dataclass(frozen=True, order=True)
class FlowWorker:
    """A process that shares the flow's tasks. Without a task, it stands by."""

    host: str
    tasks: tuple[int, ...]

    def __str__(self) -> str:
        tasks = f"tasks {', '.join(map(str, self.tasks))}" if self.tasks else "on standby"
        return f"{self.host} ({tasks})"


class BatchesReader:
    """The flow `source`, as its name is. Asked again, it reads on from where it was."""

    def __init__(
        self, source: str, pattern: re.Pattern[str], source_cluster: Client, target_cluster: Client
    ) -> None:
        self.source = source
        self._topics = MirroredTopics(pattern)
        self._source = source_cluster
        self._target = target_cluster
        self._table = Table(target_cluster, most_bytes=MOST_STATE_BYTES)
        self._positions: dict[TopicPartition, Position] = {}
        self._mirrored: frozenset[str] = frozenset()  # topics of the last look
        self._flow_tasks: list[FlowTask] = []
        self.hidden: list[TopicPartition] = []  # that the source did not show at the last look

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return what does not run or is not mirrored, and how far each partition is."""
        with answering(self._target.end.bootstrap_servers):
            tasks, statuses, unreadable = self._read()
        with answering(self._source.end.bootstrap_servers):
            every = self._source.topics()
            progress = self._progress(every)
        deleted = {
            partition: position
            for partition, position in sorted(self._positions.items())
            if partition.topic not in every
            and self._topics.targets({partition.topic: None})
            and not position.is_given_up
        }
        now = time.time()
        mirrored = [partition for name in self._mirrored for partition in every[name].topic_partitions]
        self.hidden = hidden_partitions(mirrored, progress)
        self._flow_tasks = flow_tasks(tasks, statuses, now)
        findings = unreadable + task_findings(self.source, tasks, statuses, now)
        if (taken := taken_findings(self.source, statuses, now)) and self.workers():
            findings += taken
        findings += hidden_findings(self.source, self.hidden)
        return findings + deleted_findings(self.source, deleted), progress

    def position_findings(self) -> list[str]:
        """Return the ranges that did not arrive once, a sentence for each kind, until they are accepted.

        The engine checks its positions itself, and refuses what does not fit.
        """
        return range_findings(self.source, self.ranges())

    def tasks(self) -> list[FlowTask]:
        """Return the tasks of the flow, by the last look."""
        return self._flow_tasks

    def unknown(self) -> list[str]:
        """Return nothing: all that is not known is a finding."""
        return []

    def unmatched(self, _: Callable[[Iterable[str], Collection[str]], list[str]]) -> list[str]:
        """Return the parts of the pattern that match no topic that is mirrored, by the last look."""
        return unmatched_parts(self._topics.pattern.pattern, self._mirrored)

    def ranges(self) -> list[AffectedRange]:
        return [
            AffectedRange(partition=partition, kind=of.kind, start=of.start, stop=of.stop, at_most=of.at_most)
            for partition, position in sorted(self._positions.items())
            for of in position.ranges
        ]

    def unread_ages(self, progress: Iterable[MirrorProgress]) -> dict[TopicPartition, float]:
        """Return the age, in seconds, of the oldest record that is not mirrored, as far as it is known."""
        with answering(self._source.end.bootstrap_servers):
            return unread_ages(self._source, {p.partition: p.first for p in progress if p.behind})

    def workers(self) -> list[FlowWorker] | None:
        """Return the processes that share the flow's tasks; None if they cannot be known at the moment.

        None is listed of a flow that one process runs without sharing it.
        """
        group = group_of(self.source)
        patience = Patience(self._target, f"does not describe group {group}")
        with answering(self._target.end.bootstrap_servers):
            try:
                return patience.until_done(lambda: self._ask_workers(group))
            except GroupAuthorizationFailedError:
                return None

    def _ask_workers(self, name: str) -> list[FlowWorker] | None:
        coordinator = self._target.coordinator(CoordinatorType.GROUP, name)
        [group] = self._target.send(DescribeGroupsRequest(groups=[name]), coordinator).groups
        error = for_code(group.error_code)
        if error is GroupIdNotFoundError or group.group_state in ("Empty", "Dead"):
            return []
        if group.error_code:
            raise error(f"group {name}")
        if group.group_state != "Stable":  # members have no assignment while they are being assigned
            return None
        return sorted(
            FlowWorker(
                member_host(member.client_id) or member.client_host.removeprefix("/"),
                assigned_tasks(member.member_assignment),
            )
            for member in group.members
        )

    def _read(self) -> tuple[int, dict[int, TaskStatus], list[str]]:
        """Read the positions; return the number of tasks, what each last reported, and what is unreadable."""
        name = positions_topic(self.source)
        topic = self._target.topics([name]).get(name)
        if topic is None:
            return 0, {}, []
        self._table.refresh(topic.topic_partitions)
        statuses: dict[int, TaskStatus] = {}
        unreadable: list[str] = []
        for key, row in self._table.rows.items():
            if not is_engine_key(key):
                continue
            try:
                if parse_holder(key, row.value):
                    continue
                if parsed := parse_status(key, row.value):
                    statuses[parsed[0]] = parsed[1]
                else:
                    partition, position = parse_position(key, row.value)
                    self._positions[partition] = position
            except UnreadablePosition as error:
                unreadable.append(error.labelled)
        return len(topic.partitions), statuses, unreadable

    def _progress(self, every: Mapping[str, Topic]) -> list[MirrorProgress]:
        mirrored = self._topics.targets(every)
        self._mirrored = frozenset(mirrored)
        asked = sorted(partition for name in mirrored for partition in every[name].led_partitions)
        starts, ends = offsets.log_starts(self._source, asked), offsets.ends(self._source, asked)
        return [
            MirrorProgress(
                partition=p, next=self._next(p, starts[p]), log=Log(starts[p], ends[p]), drained=False
            )
            for p in asked
        ]

    def _next(self, partition: TopicPartition, start: int) -> int:
        position = self._positions.get(partition)
        return position.next if position else start


def assigned_tasks(assignment: bytes) -> tuple[int, ...]:
    """Parse the tasks of a member of the flow's group: partitions of the one topic that it subscribes to."""
    if not assignment:
        return ()
    partitions = ConsumerProtocolAssignment.decode(assignment).partitions()
    return tuple(sorted(partition.partition for partition in partitions))


def deleted_findings(source: str, positions: Mapping[TopicPartition, Position]) -> list[str]:
    """Return which topics the source no longer has, with the offset up to which each was mirrored."""
    if not positions:
        return []
    named = (
        f"{partition} (position {position.next}, last known end {max(position.next, position.source_end)})"
        for partition, position in positions.items()
    )
    return [
        labelled(
            "mirror-source-topic-deleted",
            f"These topics were deleted at {source}, or the client may no longer describe them. Records "
            f"that arrived after the last check of these topics were not mirrored: {some(named)}. "
            f"{_accept(source)}",
        )
    ]


def _accept(source: str) -> str:
    return (
        f"To accept this, stop mirror_maker@{source} on every host, run aqueduct replicate once with the "
        "options of the unit, --accept-ranges and --until-caught-up, and start the unit again."
    )


def range_findings(source: str, ranges: Iterable[AffectedRange]) -> list[str]:
    """Return a sentence for each kind of range."""
    sentences = {
        LOST: f"{source} deleted these records before they were mirrored: {{}}.",
        LOST_EARLIER: (
            f"These topics were deleted and re-created at {source}. Records of the deleted topics at these "
            "offsets were not mirrored: {}."
        ),
        TARGET_ONLY: (
            f"Logs at {source} were truncated after their records had been mirrored, so only the target has "
            "these records: {}."
        ),
    }
    listed = list(ranges)
    return [
        labelled("mirror-ranges-listed", f"{sentence.format(some(mine))} {_accept(source)}")
        for kind, sentence in sentences.items()
        if (mine := [affected for affected in listed if affected.kind == kind])
    ]


def flow_tasks(tasks: int, statuses: Mapping[int, TaskStatus], now: float) -> list[FlowTask]:
    """Return the tasks of the flow. One runs if it reported lately. `now`: seconds since 1970."""
    return [
        FlowTask(
            name=f"Task {number}",
            is_running=task is not None and not task.is_silent(now),
            worker=task.host if task else "",
        )
        for number in range(tasks)
        for task in [statuses.get(number)]
    ]


def task_findings(source: str, tasks: int, statuses: dict[int, TaskStatus], now: float) -> list[str]:
    """Return what does not run or is not mirrored, a sentence each. `now`: seconds since 1970."""
    unit = f"mirror_maker@{source}"
    if not tasks:
        return [no_state_finding(source)]
    findings = []
    for number in range(tasks):
        task = statuses.get(number)
        if task is None:
            sentence = (
                f"Task {number} has not started. If the task does not start within some minutes, restart "
                f"{unit}."
            )
            findings.append(labelled("mirror-task-missing", sentence))
            continue
        if task.is_silent(now):
            silent = now - task.time / 1000
            findings.append(
                labelled(
                    "mirror-task-silent",
                    f"Task {number} last wrote its status {silent:.0f} seconds ago, on host {task.host}. "
                    f"Start {unit} on this host, and read its journal.",
                )
            )
        findings += [
            labelled(item.id, f"Not mirrored: {item.what}: {item.why}.")
            for item in task.refused
            if item.id != UNMATCHED  # these are asked for with the source's topics, see `unmatched`
        ]
        if more := task.refused_count - len(task.refused):
            sentence = (
                f"Task {number} does not mirror {more} more topics or partitions. Read the journal of {unit}."
            )
            findings.append(labelled("mirror-refusals-unlisted", sentence))
    return findings


def taken_findings(source: str, statuses: Mapping[int, TaskStatus], now: float) -> list[str]:
    """Return the tasks that a process runs which does not share the flow, a sentence each."""
    return [
        labelled(
            "mirror-task-taken",
            f"A process on {status.host} runs task {number} without --shared, for example a manual run. The "
            f"units mirror_maker@{source} wait until this process has ended.",
        )
        for number, status in sorted(statuses.items())
        if status.is_taken(now)
    ]
