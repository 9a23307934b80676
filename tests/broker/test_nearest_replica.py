"""Partitions are followed at the replica of the reader's rack (KIP-392), on real brokers of two racks.

The kernel counts what each connection of this process received.
"""

import os
import random
import re
import subprocess
from collections.abc import Iterator
from typing import cast

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kit import clients

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import end
from aqueduct.kafka.follow import Follower, News
from aqueduct.kafka.line import FetchSettings
from servers import quorum
from servers.broker import Broker
from servers.quorum import Quorum

LEADER, FOLLOWER = 1, 2
RACKS = {LEADER: "rack-1", FOLLOWER: "rack-2"}
VALUE_BYTES, RECORDS = 64 << 10, 384  # 24 MiB; a reader requests at most 8 MiB in advance
SETTINGS = {
    "default.replication.factor": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.segment.bytes": str(1 << 20),
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",  # else a broker first checks 30 s after its start
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    formatted = quorum.formatted(tmp_path_factory.mktemp("racks"), brokers=2, settings=SETTINGS)
    for node in formatted.brokers:
        with (node.directory / "server.properties").open("a") as properties:
            properties.write(f"broker.rack={RACKS[node.node_id]}\n")
    with formatted.running():
        yield formatted


@pytest.fixture
def cluster(nodes: Quorum) -> Broker:
    for node in nodes.brokers:
        if node.process.has_ended:
            node.process.start()
    return cast(Broker, nodes)  # clients take its addresses alone


@pytest.fixture
def client(cluster: Broker) -> Iterator[Client]:
    with connect(end("source", cluster.plaintext, None), "nearest") as client:
        yield client


@pytest.fixture
def partition(cluster: Broker) -> TopicPartition:
    return filled(cluster)


@pytest.fixture(scope="module")
def shared(nodes: Quorum) -> TopicPartition:
    """Return a partition for tests that only read."""
    return filled(cast(Broker, nodes))


def filled(cluster: Broker) -> TopicPartition:
    """Return a full partition whose replicas are in sync."""
    name, admin = clients.unique("nearest"), clients.admin(cluster)
    admin.create_topics([NewTopic(name, 1, replica_assignment=[[LEADER, FOLLOWER]])])[name].result()

    def in_sync() -> bool:
        topic = clients.metadata(admin).topics.get(name)
        return bool(topic and topic.partitions and {*topic.partitions[0].isrs} == {LEADER, FOLLOWER})

    clients.wait_for(f"replicas of {name}", in_sync)
    clients.produce(cluster, name, written(), acks="all")
    return TopicPartition(name, 0)


def written() -> list[bytes]:
    chance = random.Random(1)  # noqa: S311
    return [chance.randbytes(VALUE_BYTES) for _ in range(RECORDS)]


def read(follower: Follower, partition: TopicPartition, stop: int = RECORDS) -> list[bytes]:
    """Follow until the position is at `stop`, and return the values, decoded by another decoder than ours."""
    news: list[News] = []

    def is_read() -> bool:
        news.extend(follower.poll(0.5))
        return follower.positions[partition] >= stop

    clients.wait_for(f"offset {stop} of {partition}", is_read)
    assert all(each.log_start == 0 for each in news), "no record was deleted at the leader"
    return [
        record.value
        for each in news
        for batch in each.batches
        for record in clients.decoded(batch.data.tobytes())
    ]


def received(nodes: Quorum) -> dict[int, int]:
    """Return the bytes that connections of this process received from each broker."""
    done = subprocess.run(["ss", "-tinpOH", "state", "connected"], capture_output=True, text=True, check=True)
    counted = dict.fromkeys(RACKS, 0)
    for line in done.stdout.splitlines():
        if f"pid={os.getpid()}," not in line:
            continue
        for node in nodes.brokers:
            if re.search(rf" {re.escape(node.address)}\s", line):
                counted[node.node_id] += (
                    int(match[1]) if (match := re.search(r"bytes_received:(\d+)", line)) else 0
                )
    return counted


@pytest.mark.parametrize(
    ("rack", "near"), [("", LEADER), ("rack-1", LEADER), ("rack-2", FOLLOWER), ("rack-3", LEADER)]
)
def test_records_come_from_replica_of_rack(
    nodes: Quorum, client: Client, shared: TopicPartition, rack: str, near: int
) -> None:
    before = received(nodes)
    assert read(Follower(client, {shared: 0}, settings=FetchSettings(rack=rack)), shared) == written()
    after = received(nodes)
    [far] = RACKS.keys() - {near}
    assert after[near] - before[near] > RECORDS * VALUE_BYTES
    assert after[far] - before[far] < RECORDS * VALUE_BYTES / 10


def test_reader_returns_to_leader_when_replica_dies(
    nodes: Quorum, client: Client, partition: TopicPartition
) -> None:
    follower = Follower(client, {partition: 0}, settings=FetchSettings(rack="rack-2"))
    first = read(follower, partition, 1)
    [node] = [node for node in nodes.brokers if node.node_id == FOLLOWER]
    node.process.kill()
    assert first + read(follower, partition) == written()


def test_records_that_only_follower_deleted_arrive(
    cluster: Broker, nodes: Quorum, client: Client, partition: TopicPartition
) -> None:
    """Each replica deletes old segments by itself, and a follower may be the first."""
    follower = Follower(client, {partition: 0}, settings=FetchSettings(rack="rack-2"))
    first = read(follower, partition, 1)
    assert follower.positions[partition] < RECORDS / 2
    [node] = [node for node in nodes.brokers if node.node_id == FOLLOWER]
    folder = node.data / f"{partition.topic}-0"
    admin = clients.admin(cluster)
    retention = ConfigEntry("log.retention.bytes", "1", incremental_operation=AlterConfigOpType.SET)
    restored = ConfigEntry("log.retention.bytes", "", incremental_operation=AlterConfigOpType.DELETE)

    def change(entry: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.BROKER, str(FOLLOWER), incremental_configs=[entry])
        [changed] = admin.incremental_alter_configs([resource]).values()
        changed.result()

    change(retention)
    try:
        clients.wait_for("deleted segments", lambda: len([*folder.glob("*.log")]) == 1)
        assert first + read(follower, partition) == written()
    finally:
        change(restored)
