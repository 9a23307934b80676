"""Flows of the engine `batches` at a cluster of three brokers that loses leaders, coordinators and records.

After each danger, an independent client compares both ends record by record.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import cast

import pytest
from confluent_kafka.admin import NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import ElectionType
from kit import clients
from kit.mirror_engine_flows import PATIENT, RUN, Flow

from aqueduct.mirror.engine.names import state_topics
from servers import quorum
from servers.broker import Broker
from servers.process import suspend
from servers.quorum import Node, Quorum

PARTITIONS = 0, 1, 2
TRANSACTIONS = "__transaction_state"  # of one partition, whose leader coordinates all transactions
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
# A program whose transactions may take four seconds.
IMPATIENT = "-c", "from aqueduct.mirror.engine import task; task.TIMEOUT_SECONDS = 4" + RUN


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """Yield a cluster of a controller and three brokers, which tests stop and start."""
    nodes = quorum.formatted(tmp_path_factory.mktemp("cluster"), brokers=3, settings=SETTINGS)
    with nodes.running(*nodes.controllers), ExitStack() as stack, ThreadPoolExecutor() as starting:
        list(starting.map(stack.enter_context, [node.process.running() for node in nodes.brokers]))
        yield nodes


@pytest.fixture
def nodes(started: Quorum) -> Quorum:
    """Return the cluster when all its brokers run and all replicas are in sync."""
    for node in started.brokers:
        if node.process.has_ended:
            node.process.start()
    clients.wait_for("all replicas in sync", lambda: is_whole(cast(Broker, started)))
    return started


@pytest.fixture
def cluster(nodes: Quorum) -> Broker:
    return cast(Broker, nodes)  # clients take its addresses alone


def is_whole(cluster: Broker) -> bool:
    """Return whether three brokers run and all replicas of all partitions are in sync."""
    listed = clients.metadata(clients.admin(cluster))
    return len(listed.brokers) == 3 and all(
        partition.leader >= 0 and {*partition.isrs} == {*partition.replicas}
        for topic in listed.topics.values()
        for partition in topic.partitions.values()
    )


def leader(cluster: Broker, topic: str, partition: int = 0) -> int:
    """Return the id of the broker that leads a partition; -1: none."""
    listed = clients.partition_of(cluster, topic, partition)
    return listed.leader if listed else -1


def create(cluster: Broker, topic: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
    """Create a topic with these replicas of each partition; the first leads. In settings, _ is the dot."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    asked = clients.admin(cluster)
    assigned = [[*brokers] for brokers in replicas]
    created = NewTopic(topic, len(assigned), replica_assignment=assigned, config=settings)
    asked.create_topics([created])[topic].result()
    leaders = [brokers[0] for brokers in assigned]
    clients.wait_for(
        f"leaders of {topic}",
        lambda: [leader(cluster, topic, partition) for partition in range(len(leaders))] == leaders,
    )


def move_leaders(cluster: Broker, *topics: str) -> None:
    """Let another broker lead each partition of these topics, whose replicas are in sync."""
    listed = clients.metadata(clients.admin(cluster)).topics
    replicas: dict[TopicPartition, list[int]] = {}
    for topic in topics:
        for number, partition in listed[topic].partitions.items():
            followers = sorted({*partition.replicas} - {partition.leader})
            replicas[TopicPartition(topic, number)] = [*followers, partition.leader]
    asked = KafkaAdminClient(bootstrap_servers=cluster.plaintext.split(","))
    try:
        asked.alter_partition_reassignments(replicas)
        asked.elect_leaders(ElectionType.PREFERRED, {topic: [*listed[topic].partitions] for topic in topics})
    finally:
        asked.close()
    clients.wait_for("other leaders", partial(are_led, cluster, replicas))


def are_led(cluster: Broker, replicas: Mapping[TopicPartition, Sequence[int]]) -> bool:
    """Return whether the first of its replicas leads each partition."""
    listed = clients.metadata(clients.admin(cluster)).topics
    return all(
        listed[topic].partitions[partition].leader == brokers[0]
        for (topic, partition), brokers in replicas.items()
    )


def records(start: int, stop: int) -> Iterator[dict[str, object]]:
    """Yield numbered records with all that a record may have, or lack."""
    for number in range(start, stop):
        yield {
            "key": (None, b"", f"key {number}".encode())[number % 3],
            "value": (f"value {number} ".encode() * 10, b"", None)[number % 7 % 3],
            "headers": [("number", str(number).encode()), ("", None)][: number % 3],
            "timestamp": 1_700_000_000_000 + number,
        }


@contextmanager
def written_meanwhile(flow: Flow) -> Iterator[None]:
    """Write records to all partitions of the source all the time, and wait for the last acknowledgement."""
    stopping, unacknowledged = Event(), list[int]()

    def write() -> None:
        producer, number = clients.idempotent(flow.source, **{"linger.ms": 20}), 0
        while not stopping.wait(0.05):
            for partition in PARTITIONS:
                clients.write(producer, flow.topic, records(number, number + 50), partition)
            number += 50
        unacknowledged.append(producer.flush(clients.SECONDS))

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stopping.set()
        writer.join()
    assert unacknowledged == [0]


def moved(flow: Flow) -> int:
    """Return the sum of the target partitions' last stable offsets."""
    if flow.topic not in clients.topics(flow.target):
        return 0
    return sum(clients.ends(flow.target, flow.topic, *PARTITIONS, isolation="read_committed"))


def wait_for_more(flow: Flow) -> None:
    before = moved(flow)
    clients.wait_for("more records", lambda: moved(flow) > before + 1_000)


def check_equal(flow: Flow) -> None:
    """Compare all records of both ends in their order, and where a group continues."""
    group = f"{flow.name}-group"
    [end, *_] = clients.ends(flow.source, flow.topic, *PARTITIONS)
    clients.set_position(flow.source, group, flow.topic, end // 2)
    assert flow.catch_up("--groups-pattern", group) == 0
    assert flow.is_equal(*PARTITIONS)
    start = clients.committed(flow.target, group)[flow.topic, 0]
    following = clients.record(clients.read(flow.target, flow.topic, start=start)[0])
    assert following == clients.record(clients.read(flow.source, flow.topic, start=end // 2)[0])


@pytest.fixture
def flow(source: Broker, cluster: Broker, tmp_path: Path) -> Flow:
    topic = clients.create(source, clients.unique("mirrored"), len(PARTITIONS))
    return Flow(source, cluster, topic, tmp_path)


def test_moving_leaders_and_coordinators_loses_and_doubles_nothing(flow: Flow) -> None:
    with flow.running("--tasks", "2", program=PATIENT), written_meanwhile(flow):
        wait_for_more(flow)
        for _ in range(3):
            move_leaders(flow.target, flow.topic, *state_topics(flow.name), TRANSACTIONS)
            wait_for_more(flow)
    check_equal(flow)


def test_partition_below_min_isr_continues_after_replica_returns(flow: Flow, nodes: Quorum) -> None:
    create(flow.target, flow.topic, [[1, 2, 3], [2, 1, 3], [1, 2, 3]], min_insync_replicas="3")
    follower = nodes.brokers[2]
    with flow.running("--tasks", "1", program=PATIENT), written_meanwhile(flow):
        wait_for_more(flow)
        follower.process.stop()
        seen = [-1]

        def stands_still() -> bool:
            """Return whether nothing has become visible since the last call."""
            seen.append(moved(flow))
            time.sleep(2)
            return seen[-1] == seen[-2]

        clients.wait_for("a standstill", stands_still)
        follower.process.start()
        wait_for_more(flow)
    check_equal(flow)


def test_full_coordinator_disk_loses_and_doubles_nothing(flow: Flow, nodes: Quorum) -> None:
    """Its broker ends by itself. The others elect leaders, and one of them coordinates transactions."""
    with flow.running("--tasks", "1", program=PATIENT), written_meanwhile(flow):
        wait_for_more(flow)
        coordinator = leader(flow.target, TRANSACTIONS)
        [node] = [node for node in nodes.brokers if node.node_id == coordinator]
        fill_disk(node)
        clients.wait_for("the end of the broker", lambda: node.process.has_ended)
        clients.wait_for(
            "another coordinator", lambda: leader(flow.target, TRANSACTIONS) not in (-1, coordinator)
        )
        wait_for_more(flow)
        node.process.start()
        clients.wait_for("all replicas in sync", lambda: is_whole(flow.target))
        wait_for_more(flow)
    check_equal(flow)


def fill_disk(node: Node) -> None:
    """Let no file of a broker grow any more: each write fails, as on a disk without space."""
    _, most = resource.prlimit(node.process.id, resource.RLIMIT_FSIZE)
    resource.prlimit(node.process.id, resource.RLIMIT_FSIZE, (0, most))


def test_transaction_that_timed_out_is_not_committed(flow: Flow) -> None:
    """The coordinator aborts it, and the process repeats it when it continues."""
    with flow.running("--tasks", "1", program=IMPATIENT) as process, written_meanwhile(flow):
        clients.wait_for("the first records", lambda: moved(flow) or process.poll() is not None)
        clients.wait_for("an aborted transaction", partial(was_aborted_by_freeze, process, flow))
        wait_for_more(flow)
        assert process.poll() is None
    check_equal(flow)


def was_aborted_by_freeze(process: subprocess.Popen[str], flow: Flow) -> bool:
    """Freeze the process; if it is inside of a transaction, until the coordinator has aborted it."""
    suspend(process.pid)
    try:
        visible, written = (
            clients.ends(flow.target, flow.topic, *PARTITIONS, isolation=level)
            for level in ("read_committed", "read_uncommitted")
        )
        clients.settle(flow.target, flow.topic, *PARTITIONS)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    return visible != written


def test_unclean_elections_at_both_ends_are_listed(
    source: Broker, target: Broker, nodes: Quorum, cluster: Broker, tmp_path: Path
) -> None:
    """Broker 2 misses records that broker 1 has alone, and leads when broker 1 has failed.

    Partition 0 of two topics loses these records. One topic is a flow's source, the other a flow's target.
    Both have a partition 1, which loses nothing.
    """
    first, second, _ = nodes.brokers
    topics = [clients.unique(name) for name in ("unclean-source", "unclean-target")]
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    for topic in topics:
        create(cluster, topic, [[1, 2], [3, 1]], **unclean)
    clients.create(source, topics[1], 2)
    outward = Flow(cluster, target, topics[0], tmp_path)
    inward = Flow(source, cluster, topics[1], tmp_path)

    def write(start: int, stop: int) -> None:
        for flow in (outward, inward):
            for partition in (0, 1):
                clients.produce(flow.source, flow.topic, records(start, stop), partition)

    def has_arrived(flow: Flow, *partitions: int) -> bool:
        return flow.topic in clients.topics(flow.target) and flow.is_equal(*partitions)

    one_task = "--tasks", "1"
    with outward.running(*one_task, program=PATIENT), inward.running(*one_task, program=PATIENT):
        write(0, 100)
        for flow in (outward, inward):
            clients.wait_for("the first records", partial(has_arrived, flow, 0, 1))
        second.process.stop()
        clients.wait_for("broker 1 alone", lambda: is_alone(cluster, 1, *topics))
        write(100, 200)
        for flow in (outward, inward):
            clients.wait_for("records that will be lost", partial(has_arrived, flow, 0, 1))
        written = clients.records(cluster, outward.topic, 0)
        kept = clients.records(source, inward.topic, 0)[:100]
        first.process.kill()
        second.process.start()
        clients.wait_for("an unclean leader", lambda: [leader(cluster, topic) for topic in topics] == [2, 2])
        first.process.start()
        clients.wait_for("all replicas in sync", lambda: is_whole(cluster))
        write(200, 250)
        clients.wait_for("partitions that lost nothing", partial(has_arrived, outward, 1))
        clients.wait_for("partitions that lost nothing", partial(has_arrived, inward, 1))
        clients.wait_for(
            "later records of the source", lambda: len(clients.records(target, outward.topic, 0)) >= 250
        )
        clients.wait_for(
            "the finding", lambda: any("mirror-target-cut" in finding for finding in inward.findings())
        )

    # The source lost records that had been mirrored: the target keeps them, and the range is listed.
    assert outward.catch_up() == 3
    assert [(of["partition"], of["kind"], of["from"], of["to"]) for of in outward.reported()["ranges"]] == [
        (0, "target_only", 100, 200)
    ]
    later = clients.records(cluster, outward.topic, 0)
    assert later[:100] == written[:100]
    assert clients.records(target, outward.topic, 0) == [*written, *later[100:]]
    assert outward.is_equal(1)
    assert outward.catch_up("--accept-ranges") == 0

    # The target lost records of the flow: the partition stays refused when others have written past its end.
    clients.produce(cluster, inward.topic, ["of others"] * 1_000)
    for _ in range(2):
        assert inward.catch_up() == 3
        assert [(of["id"], of["what"]) for of in inward.reported()["left_out"]] == [
            ("mirror-target-cut", f"{inward.topic}-0")
        ]
    assert clients.records(cluster, inward.topic, 0)[:100] == kept
    assert len(clients.records(cluster, inward.topic, 0)) == 1_100
    assert inward.is_equal(1)


def is_alone(cluster: Broker, node_id: int, *topics: str) -> bool:
    """Return whether the broker is the only replica in sync of each partition 0."""
    listed = [clients.partition_of(cluster, topic) for topic in topics]
    return all(partition and {*partition.isrs} == {node_id} for partition in listed)
