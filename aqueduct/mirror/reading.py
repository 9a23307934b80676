"""Read what a MirrorMaker 2 flow leaves in its target cluster, and how far the source's logs go.

Only with what every host has. `renew` and `prepare` write.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kafka.errors import GroupIdNotFoundError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import CoordinatorType

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.admin import transactions
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.client_errors import answering
from aqueduct.kafka.compacted_topics import Table, keys_and_values
from aqueduct.kafka.lag_seconds import unread_ages
from aqueduct.kafka.transactions import Search
from aqueduct.mirror import binding, status
from aqueduct.mirror.binding import Binding, Evidence, PositionVerdict, SourceLog
from aqueduct.mirror.positions import FlowPositions, source_logs, suspects
from aqueduct.mirror.status import (
    AffectedRange,
    FlowTask,
    Log,
    MirrorProgress,
    MirrorStatus,
    Tasks,
    WorkersGroup,
)

# The markers of a few transactions: as far as this behind the log's end it is worth to look for records.
TAIL_OFFSETS = 1_000
TAIL_SECONDS = 5
TAIL_BYTES = 256 << 10  # of one answer
CONNECT_SECONDS = 30
LEAVING_SECONDS = 30  # for a worker that was killed, until its session ends
POLL_SECONDS = 1


@dataclass(frozen=True)
class Judged:
    """A source partition's position, judged."""

    log: SourceLog
    bound: Binding | None
    verdict: PositionVerdict


class MirrorReader:
    """The flow from the site `source`. Asked again, it reads on from where it was."""

    def __init__(self, source: str, source_cluster: Client, target_cluster: Client) -> None:
        self.source = source
        self._source = source_cluster
        self._target = target_cluster
        topics = ("status", "configs")
        self._tables = {f"mm2-{name}.{source}.internal": Table(target_cluster) for name in topics}
        self._positions = FlowPositions(source, target_cluster)
        self._judged: dict[TopicPartition, Judged] = {}
        self._sync_end = 0
        self._tasks = Tasks(counts={}, partitions=frozenset())
        self._flow_tasks: list[FlowTask] = []
        self.hidden: list[TopicPartition] = []  # that the source did not show at the last look

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return what does not run or cannot be read, and how far each partition is."""
        group, statuses, tasks, positions = self.state()
        self._tasks = tasks
        self._flow_tasks = status.flow_tasks(group, statuses, tasks)
        progress = self.progress(tasks.partitions, positions)
        self._judge()
        findings = status.task_findings(self.source, group, statuses, tasks)
        if findings:
            with answering(self._target.end.bootstrap_servers):
                findings = status.waiting_findings(self.source, findings, self._open_transactions())
        self.hidden = status.hidden_partitions(tasks.partitions, progress)
        return findings + status.hidden_findings(self.source, self.hidden), progress

    def position_findings(self) -> list[str]:
        """Return which positions do not fit their topics, as the last look found them."""
        return status.position_findings(self.source, self.ranges())

    def tasks(self) -> list[FlowTask]:
        """Return the tasks of the flow, by the last look."""
        return self._flow_tasks

    def unknown(self) -> list[str]:
        """Return what the last look could not find out."""
        if not self._tasks.group_patterns:
            return []
        return status.unknown_groups(
            self.source,
            {
                partition.topic
                for partition, judged in self._judged.items()
                if judged.verdict.is_of_another_log or (judged.bound and judged.bound.groups_unchecked)
            },
        )

    def unmatched(self, unmatched: Callable[[Iterable[str], Collection[str]], list[str]]) -> list[str]:
        """Return the flow's patterns that match no topic of the source, as the last look found them.

        `unmatched` returns those of some patterns that match none of some names.
        """
        if not self._tasks.counts.get(status.SOURCE_CONNECTOR):
            return []  # a finding of the look says so
        left = unmatched(self._tasks.patterns, {partition.topic for partition in self._tasks.partitions})
        if not left:
            return []
        with answering(self._source.end.bootstrap_servers):
            return unmatched(left, self._source.topics().keys())

    def unmatched_groups(self, unmatched: Callable[[Iterable[str], Collection[str]], list[str]]) -> list[str]:
        """Return the patterns of synchronised groups that match no group at the source."""
        asked = [pattern for pattern in self._tasks.group_patterns if pattern != ".*"]
        if not asked:
            return []
        with answering(self._source.end.bootstrap_servers):
            return unmatched(asked, groups.list_groups(self._source).by_name.keys())

    def ranges(self) -> list[AffectedRange]:
        """Return the ranges that are lost or doubled at the target, as the last look found them."""
        return [
            affected
            for partition, judged in sorted(self._judged.items())
            for affected in status.affected(partition, judged.bound, judged.verdict, judged.log.topic_id)
        ]

    def renew(self, *, accept: bool = False) -> None:
        """Write the bindings of positions that the last look found to fit.

        `accept`: without the ranges that the target has twice, and with the offsets of groups as they are.
        """
        renewed = {
            partition: self._renewed(judged, moved=False, accept=accept)
            for partition, judged in self._judged.items()
            if judged.verdict.is_certain
        }
        self._positions.write(
            {}, {partition: new for partition, new in renewed.items() if self._is_news(partition, new)}
        )

    def prepare(self) -> list[str]:
        """Make stopped workers continue where nothing is lost, and bind all positions.

        Return what was moved, in sentences. Failed while a worker runs and a position must be moved.
        """
        deadline = time.monotonic() + LEAVING_SECONDS
        while True:
            group = self.workers()
            moves = self._moves()
            if not moves or group.state in ("Empty", "Dead"):
                renewed = {
                    partition: self._renewed(judged, moved=True) for partition, judged in self._judged.items()
                }
                news = {partition: new for partition, new in renewed.items() if self._is_news(partition, new)}
                verdicts = {partition: self._judged[partition].verdict for partition in moves}
                # Another host may start at the same time, and have moved them a moment ago.
                if self._positions.write(moves, news, partial(self._is_still, moves)):
                    return status.moves_made(verdicts)
            if time.monotonic() > deadline:
                raise Failed("mirror-workers-running", status.workers_in_the_way(self.source, group, moves))
            time.sleep(POLL_SECONDS)

    def _is_still(self, moves: Mapping[TopicPartition, int]) -> bool:
        with answering(self._target.end.bootstrap_servers):
            self._positions.refresh()
        return self._moves() == moves

    def _moves(self) -> dict[TopicPartition, int]:
        """Judge every position, and return where those that do not fit must continue."""
        self._judge()
        return {
            partition: judged.verdict.resume
            for partition, judged in self._judged.items()
            if judged.verdict.resume is not None
        }

    def _renewed(self, judged: Judged, *, moved: bool, accept: bool = False) -> Binding:
        new = binding.renewed(judged.bound, judged.verdict, judged.log, self._sync_end, moved=moved)
        return replace(new, doubled=(), groups_unchecked=False) if accept else new

    def _is_news(self, partition: TopicPartition, new: Binding) -> bool:
        """Return whether a binding says more than the one that is stored, beside the time of its check."""
        old = self._judged[partition].bound
        return old is None or replace(old, syncs=new.syncs) != new

    def _judge(self) -> None:
        """Judge every position. The positions were read before the logs' ends are."""
        stored, bindings = self._positions.stored, self._positions.bindings
        every = {partition: bindings.get(partition) for partition in stored.keys() | bindings.keys()}
        with answering(self._target.end.bootstrap_servers):
            self._sync_end = self._positions.sync_end()
        with answering(self._source.end.bootstrap_servers):
            logs = source_logs(self._source, every)
        cases = {
            partition: (stored[partition].next if partition in stored else None, every[partition], log)
            for partition, log in logs.items()
        }
        with answering(self._target.end.bootstrap_servers):
            evidence = self._positions.evidence(dict(suspects(cases)))
        self._judged = {
            partition: Judged(
                log, bound, binding.judge(next_, bound, log, evidence.get(partition, Evidence()))
            )
            for partition, (next_, bound, log) in cases.items()
        }

    def workers(self) -> WorkersGroup:
        """Read the positions, and return the group of the workers."""
        with answering(self._target.end.bootstrap_servers):
            self._read_tables()
            self._positions.refresh()
            # A cluster that never had a group has no coordinator to ask.
            is_there = any(table.rows for table in self._tables.values()) or not self._positions.is_empty
            return self._group(f"{self.source}-mm2") if is_there else WorkersGroup("Dead", frozenset())

    def state(self) -> tuple[WorkersGroup, list[MirrorStatus], Tasks, dict[TopicPartition, int]]:
        """Read the group, the statuses, the planned tasks, and the next offset to mirror by partition."""
        group = self.workers()
        statuses, configs = (
            {key: row.value for key, row in table.rows.items()} for table in self._tables.values()
        )
        return (
            group,
            status.parse_statuses(statuses),
            status.parse_tasks(configs),
            {partition: position.next for partition, position in self._positions.stored.items()},
        )

    def progress(
        self, partitions: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> list[MirrorProgress]:
        """Read how far these source partitions are mirrored, without those that the source doesn't show."""
        with answering(self._source.end.bootstrap_servers):
            logs = self._logs(partitions)
            progress = {
                p: MirrorProgress(partition=p, next=positions.get(p, log.start), log=log, drained=False)
                for p, log in logs.items()
            }
            tails = {
                p: mirrored.next for p, mirrored in progress.items() if 0 < mirrored.behind <= TAIL_OFFSETS
            }
            drained = self._without_records(tails, logs)
        return [
            MirrorProgress(partition=p.partition, next=p.next, log=p.log, drained=p.partition in drained)
            for p in progress.values()
        ]

    def unread_ages(self, progress: Iterable[MirrorProgress]) -> dict[TopicPartition, float]:
        """Return the age, in seconds, of the oldest record that is not mirrored, as far as it is known."""
        positions = {p.partition: p.first for p in progress if p.behind}
        with answering(self._source.end.bootstrap_servers):
            return unread_ages(self._source, positions)

    def _read_tables(self) -> None:
        topics = self._target.topics(self._tables)
        for name, topic in topics.items():
            self._tables[name].refresh(topic.topic_partitions)

    def _open_transactions(self) -> Search:
        """Search the topics that a worker reads before it starts."""
        topics = self._target.topics([*self._tables, self._positions.topic])
        partitions = [partition for topic in topics.values() for partition in topic.partitions]
        return transactions.find(self._target, partitions, id_prefix=f"{self.source}-mm2-")

    def _group(self, group_id: str) -> WorkersGroup:
        patience = Patience(self._target, f"does not describe group {group_id}")
        return patience.until_done(lambda: self._ask_group(group_id))

    def _ask_group(self, group_id: str) -> WorkersGroup:
        coordinator = self._target.coordinator(CoordinatorType.GROUP, group_id)
        [group] = self._target.send(DescribeGroupsRequest(groups=[group_id]), coordinator).groups
        error = for_code(group.error_code)
        if error is GroupIdNotFoundError:
            return WorkersGroup("Dead", frozenset())
        if group.error_code:
            raise error(f"group {group_id}")
        workers = {status.parse_worker(m.member_metadata) for m in group.members if m.member_metadata}
        return WorkersGroup(group.group_state, frozenset(workers))

    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        topics = self._source.topics({p.topic for p in partitions})
        led = {partition for topic in topics.values() for partition in topic.led_partitions}
        asked = led.intersection(partitions)
        starts, ends = offsets.log_starts(self._source, asked), offsets.ends(self._source, asked)
        return {p: Log(starts[p], ends[p]) for p in asked}

    def _without_records(
        self, tails: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]
    ) -> set[TopicPartition]:
        """Return the partitions without a committed record from the given offset to the log's end."""
        deadline = time.monotonic() + TAIL_SECONDS
        ranges = [Range(*p, max(start, logs[p].start), logs[p].end) for p, start in tails.items()]
        looked_at: set[TopicPartition] = set()
        with_records: set[TopicPartition] = set()
        for part, records in keys_and_values(self._source, ranges, TAIL_BYTES):
            if time.monotonic() > deadline:
                looked_at.discard(part.topic_partition)
                break
            looked_at.add(part.topic_partition)
            if records:
                with_records.add(part.topic_partition)
        return looked_at - with_records
