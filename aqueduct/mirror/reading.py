"""Read what a MirrorMaker 2 flow leaves in its target cluster, and how far the source's logs go.

Only reads, and only with what every host has.
"""

import time
from collections.abc import Collection, Mapping

from kafka.errors import GroupIdNotFoundError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import CoordinatorType

from aqueduct.kafka import offsets
from aqueduct.kafka.admin import transactions
from aqueduct.kafka.answers import answering
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.table import Table, keys_and_values
from aqueduct.kafka.transactions import Search
from aqueduct.mirror import status
from aqueduct.mirror.status import Log, MirrorProgress, MirrorStatus, Tasks, WorkersGroup
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range

# The markers of a few transactions: as far as this behind the log's end it is worth to look for records.
TAIL_OFFSETS = 1_000
TAIL_SECONDS = 5
TAIL_BYTES = 256 << 10  # of one answer
CONNECT_SECONDS = 30


class MirrorReader:
    """The flow from the site `source`. Asked again, it reads on from where it was."""

    def __init__(self, source: str, source_cluster: Client, target_cluster: Client) -> None:
        self.source = source
        self._source = source_cluster
        self._target = target_cluster
        topics = ("status", "configs", "offsets")
        self._tables = {f"mm2-{name}.{source}.internal": Table(target_cluster) for name in topics}

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return what is not well, and how far each partition is."""
        group, statuses, tasks, positions = self.state()
        progress = self.progress(tasks.partitions, positions)
        findings = status.task_findings(self.source, group, statuses, tasks)
        if findings:
            with answering(self._target.end.bootstrap_servers):
                findings = status.waiting_findings(self.source, findings, self._open_transactions())
        return findings + status.log_findings(self.source, tasks.partitions, progress), progress

    def state(self) -> tuple[WorkersGroup, list[MirrorStatus], Tasks, dict[TopicPartition, int]]:
        """Read the group, the statuses, the planned tasks, and the next offset to mirror by partition."""
        with answering(self._target.end.bootstrap_servers):
            self._read_tables()
            statuses, configs, positions = (
                {key: row.value for key, row in table.rows.items()} for table in self._tables.values()
            )
            # A cluster that never had a group has no coordinator to ask.
            is_there = statuses or configs or positions
            group = self._group(f"{self.source}-mm2") if is_there else WorkersGroup("Dead", frozenset())
        return (
            group,
            status.parse_statuses(statuses),
            status.parse_tasks(configs),
            status.parse_positions(positions),
        )

    def progress(
        self, partitions: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> list[MirrorProgress]:
        """Read how far these source partitions are mirrored, without those that the source doesn't show."""
        with answering(self._source.end.bootstrap_servers):
            logs = self._logs(partitions)
            known = {p: MirrorProgress(p, positions.get(p, log.start), log, False) for p, log in logs.items()}
            tails = {p: found.next for p, found in known.items() if 0 < found.behind <= TAIL_OFFSETS}
            drained = self._without_records(tails, logs)
        return [MirrorProgress(p.partition, p.next, p.log, p.partition in drained) for p in known.values()]

    def _read_tables(self) -> None:
        found = self._target.topics(self._tables)
        for name, topic in found.items():
            self._tables[name].refresh(topic.topic_partitions)

    def _open_transactions(self) -> Search:
        """Search the topics that a worker reads before it starts."""
        found = self._target.topics(self._tables)
        partitions = [each for topic in found.values() for each in topic.partitions]
        return transactions.find(self._target, partitions, id_prefix=f"{self.source}-mm2-")

    def _group(self, group_id: str) -> WorkersGroup:
        patience = Patience(self._target, f"does not describe group {group_id}")
        return patience.until_done(lambda: self._ask_group(group_id))

    def _ask_group(self, group_id: str) -> WorkersGroup:
        coordinator = self._target.coordinators(CoordinatorType.GROUP, [group_id])[group_id]
        [group] = self._target.send(DescribeGroupsRequest(groups=[group_id]), coordinator).groups
        error = for_code(group.error_code)
        if error is GroupIdNotFoundError:
            return WorkersGroup("Dead", frozenset())
        if group.error_code:
            raise error(f"group {group_id}")
        workers = {status.parse_worker(m.member_metadata) for m in group.members if m.member_metadata}
        return WorkersGroup(group.group_state, frozenset(workers))

    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        found = self._source.topics({p.topic for p in partitions})
        led = {
            TopicPartition(name, each.number)
            for name, topic in found.items()
            for each in topic.partitions
            if each.leader is not None
        }
        asked = led.intersection(partitions)
        starts, ends = offsets.log_starts(self._source, asked), offsets.ends(self._source, asked)
        return {p: Log(starts[p], ends[p]) for p in asked}

    def _without_records(
        self, tails: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]
    ) -> set[TopicPartition]:
        """Return the partitions without a committed record from the given offset to the log's end."""
        deadline = time.monotonic() + TAIL_SECONDS
        wanted = [Range(*p, max(start, logs[p].start), logs[p].end) for p, start in tails.items()]
        looked_at: set[TopicPartition] = set()
        with_records: set[TopicPartition] = set()
        for each, found in keys_and_values(self._source, wanted, TAIL_BYTES):
            if time.monotonic() > deadline:
                looked_at.discard(each.topic_partition)
                break
            looked_at.add(each.topic_partition)
            if found:
                with_records.add(each.topic_partition)
        return looked_at - with_records
