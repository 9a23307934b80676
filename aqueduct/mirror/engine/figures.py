"""What a process that runs a flow has done and does, for metrics and reports."""

from dataclasses import dataclass, field

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut, Skipped
from aqueduct.mirror.engine.groups import GroupsSynchronised
from aqueduct.mirror.engine.position import Position
from aqueduct.mirror.engine.task import TaskFigures


@dataclass(kw_only=True)
class MirrorFigures:
    """What a flow has done since it was started."""

    tasks: tuple[TaskFigures, ...] = ()
    skipped_topics: LeftOut = ()
    problems: LeftOut = ()  # of the last looks at topics, and of the last round
    groups: GroupsSynchronised = field(default_factory=GroupsSynchronised)  # the last round
    failures: dict[int, Skipped] = field(default_factory=dict)  # of tasks that wait for their next start
    is_caught_up: bool = False  # all was mirrored that the source had when a run until then was started
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
        refused = [skipped for task in self.tasks for skipped in (task.stalled | task.refused).values()]
        failures = [failure for _, failure in sorted(dict(self.failures).items())]
        of_groups = (*self.groups.skipped, *self.groups.inexact, *self.groups.unmatched)
        return (*failures, *self.problems, *self.skipped_topics, *sorted(refused), *of_groups)

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        return {partition: p for task in self.tasks for partition, p in dict(task.positions).items()}

    @property
    def records(self) -> int:
        return self.ended.records + sum(task.records for task in self.tasks)
