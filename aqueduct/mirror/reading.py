"""Read what a MirrorMaker 2 flow leaves in its target cluster, and how far the source's logs go.

Only reads, and only through kafka-python, the one client that every host has.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import kafka
from kafka import KafkaConsumer, OffsetSpec
from kafka.errors import KafkaTimeoutError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from aqueduct.kafka.admin import Admin, answering, connect, from_any_broker
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.mirror import status
from aqueduct.mirror.status import Group, Log, Progress, Status, Tasks
from aqueduct.names import TopicPartition

# The markers of a few transactions: as far as this behind the log's end it is worth to look for records.
TAIL_OFFSETS = 1_000
TAIL_SECONDS = 5
READ_SECONDS = 120
CONNECT_SECONDS = 30
GROUP_ID_NOT_FOUND = 69


@dataclass(frozen=True)
class Cluster:
    """One end of a flow and the clients that ask it."""

    bootstrap_servers: str
    admin: Admin
    consumer: KafkaConsumer


@contextmanager
def connect_reader(bootstrap_servers: str, config: ClientConfig) -> Iterator[Cluster]:
    """An admin client and a read-committed consumer without a group; Failed if no broker answers."""
    with ExitStack() as stack:
        admin = stack.enter_context(connect(bootstrap_servers, config, CONNECT_SECONDS))
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers.split(","),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            max_poll_records=10_000,
            max_partition_fetch_bytes=256 * 1024,
            **config.kafka_python(),
        )
        stack.callback(consumer.close)
        yield Cluster(bootstrap_servers, admin, consumer)


class MirrorReader:
    """The flow from the site `source`. Asked again, it reads on from where it was."""

    def __init__(self, source: str, source_cluster: Cluster, target_cluster: Cluster) -> None:
        self.source = source
        self._source = source_cluster
        self._target = target_cluster
        topics = ("status", "configs", "offsets")
        self._tables: dict[str, dict[bytes, bytes]] = {f"mm2-{name}.{source}.internal": {} for name in topics}

    def state(self) -> tuple[Group, list[Status], Tasks, dict[TopicPartition, int]]:
        """Who works, what runs, what is to run, and the next offset to mirror by partition."""
        with answering(self._target.bootstrap_servers):
            self._read_tables()
            # A cluster that never had a group has no coordinator to ask.
            is_there = any(self._tables.values())
            group = self._group(f"{self.source}-mm2") if is_there else Group("Dead", frozenset())
        statuses, configs, offsets = self._tables.values()
        return (
            group,
            status.parse_statuses(statuses),
            status.parse_tasks(configs),
            status.parse_positions(offsets),
        )

    def progress(
        self, partitions: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> list[Progress]:
        """How far these source partitions are mirrored; those that the source does not show are left out."""
        with answering(self._source.bootstrap_servers):
            logs = self._logs(partitions)
            known = {p: Progress(p, positions.get(p, log.start), log, False) for p, log in logs.items()}
            tails = {p: found.next for p, found in known.items() if 0 < found.behind <= TAIL_OFFSETS}
            drained = self._without_records(tails, logs)
        return [Progress(p.partition, p.next, p.log, p.partition in drained) for p in known.values()]

    @from_any_broker
    def _read_tables(self) -> None:
        consumer = self._target.consumer
        found = {t: consumer.partitions_for_topic(t) or () for t in self._tables}
        partitions = {kafka.TopicPartition(topic, n) for topic, numbers in found.items() for n in numbers}
        if consumer.assignment() != partitions:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions) if partitions else {}
        deadline = time.monotonic() + READ_SECONDS
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"{', '.join(self._tables)} were not read within {READ_SECONDS:g} s")
            for records in consumer.poll(500).values():
                for record in records:
                    table = self._tables[record.topic]
                    if record.value is None:
                        table.pop(record.key, None)
                    else:
                        table[record.key] = record.value

    @from_any_broker
    def _group(self, group_id: str) -> Group:
        # Not kafka-python's describe_groups: it takes Connect's workers for consumers, and fails.
        send = self._target.admin.send
        found = send(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id], min_version=4))
        [coordinator] = found.coordinators
        if coordinator.error_code:
            raise for_code(coordinator.error_code)(f"group {group_id}: {coordinator.error_message}")
        [group] = send(DescribeGroupsRequest(groups=[group_id]), coordinator.node_id).groups
        if group.error_code == GROUP_ID_NOT_FOUND:
            return Group("Dead", frozenset())
        if group.error_code:
            raise for_code(group.error_code)(f"group {group_id}")
        workers = {status.parse_worker(m.member_metadata) for m in group.members if m.member_metadata}
        return Group(group.group_state, frozenset(workers))

    @from_any_broker
    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in {p.topic for p in partitions}]
        metadata = self._source.admin.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        led = {
            kafka.TopicPartition(topic.name, partition.partition_index)
            for topic in metadata.topics
            for partition in topic.partitions
            if partition.leader_id >= 0
        }
        client = self._source.admin.client
        asked = led.intersection(partitions)
        starts = client.list_partition_offsets(dict.fromkeys(asked, OffsetSpec.EARLIEST))
        ends = client.list_partition_offsets(
            dict.fromkeys(asked, OffsetSpec.LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {TopicPartition(*p): Log(starts[p].offset, ends[p].offset) for p in asked}

    def _without_records(
        self, tails: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]
    ) -> set[TopicPartition]:
        """Those of the partitions that hold no committed record from the given offset to the log's end."""
        consumer = self._source.consumer
        unread = {kafka.TopicPartition(*partition) for partition in tails}
        consumer.assign(unread)
        for partition in unread:
            consumer.seek(partition, tails[partition])
        drained: set[TopicPartition] = set()
        deadline = time.monotonic() + TAIL_SECONDS
        while unread and time.monotonic() < deadline:
            unread -= consumer.poll(100).keys()
            ended = {p for p in unread if consumer.position(p) >= logs[p].end}
            unread -= ended
            drained.update(TopicPartition(*p) for p in ended)
        return drained
