"""A site whose broker comes back with another id, as people change it; and what clients of the site see."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec
from lab import Lab, Record, wait_until
from old_site import ENSEMBLE, KAFKA, LAKE, LAKE_SECOND, LOG, SECOND

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/old-estates.md"
AQUEDUCT = "/opt/aqueduct/base/bin/aqueduct"
TOPIC, PARTITIONS, RECORDS = "bookings", range(4), 50
# Their hashes follow each other, so their partitions of __consumer_offsets do, and both brokers have some.
GROUPS = [f"desk-{number}" for number in range(4)]

Offsets = dict[int, int]  # the next record, by partition


@dataclass(frozen=True)
class Seen:
    """What clients see: records, the time of the newest, by which retention goes, and groups' positions."""

    records: dict[int, list[Record]]
    newest: dict[int, int]
    positions: dict[str, Offsets]


@dataclass(frozen=True)
class Site:
    lab: Lab
    name: str
    host: str  # of a broker that keeps its id
    changed: str
    node_id: int  # of the one that doesn't
    property: str

    def ids(self) -> set[int]:
        return set(self.lab.admin(self.host).list_topics(timeout=60).brokers)

    def assigned(self) -> set[int]:
        """Return all brokers that have a replica of something, or are said to."""
        topics = self.lab.admin(self.host).list_topics(timeout=60).topics.values()
        return {node for topic in topics for each in topic.partitions.values() for node in each.replicas}

    def fill(self) -> None:
        """Write to each partition, and let groups of every coordinator have positions of their own."""
        producer = self.lab.producer(self.host, "admin")
        for partition in PARTITIONS:
            for number in range(RECORDS):
                producer.produce(TOPIC, f"{self.name}-{partition}-{number}".encode(), partition=partition)
        assert producer.flush(300) == 0
        wait_until("the groups' positions", lambda: all(map(self._has_committed, GROUPS)))

    def _has_committed(self, group: str) -> bool:
        """Commit, and look: a coordinator that has just begun to be one refuses, and nothing says so."""
        wanted = {at: 1 + GROUPS.index(group) + at for at in PARTITIONS}
        places = [TopicPartition(TOPIC, at, offset) for at, offset in wanted.items()]
        asked = self.lab.admin(self.host)
        [done] = asked.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values()
        done.result()
        return self.position(group) == wanted

    def position(self, group: str) -> Offsets:
        """Return a group's position."""
        asked = Consumer({**self.lab.client(self.host), "group.id": group})
        try:
            places = asked.committed([TopicPartition(TOPIC, at) for at in PARTITIONS], timeout=60)
            return {place.partition: place.offset for place in places}
        finally:
            asked.close()

    def waiting(self) -> list[str]:
        """Return the groups whose partition of __consumer_offsets nobody leads."""
        offsets = self.lab.admin(self.host).list_topics("__consumer_offsets", timeout=60)
        partitions = offsets.topics["__consumer_offsets"].partitions
        return [group for group in GROUPS if partitions[java_hash(group) % len(partitions)].leader < 0]

    def seen(self) -> "Seen":
        newest = {TopicPartition(TOPIC, at): OffsetSpec.max_timestamp() for at in PARTITIONS}
        asked = self.lab.admin(self.host)  # whose answers don't come when it is gone
        told = asked.list_offsets(newest)
        return Seen(
            self.lab.read(self.host, TOPIC),
            {place.partition: each.result().timestamp for place, each in told.items()},
            {group: self.position(group) for group in GROUPS},
        )

    # What people do

    def change_id(self, node_id: int) -> None:
        """Give the broker another id by hand: in its properties, and in the file that contradicts."""
        run, properties, meta = self.lab.run, f"{KAFKA}/server.properties", f"{LOG}/meta.properties"
        cluster = run(self.changed, "sed", "-n", "s/^cluster.id=//p", meta).stdout.strip()
        before = self.ids()
        run(self.changed, "systemctl", "stop", "kafka")
        wait_until("its end", lambda: self.ids() < before)
        run(self.changed, "sed", "-i", f"s/^{self.property}=.*/{self.property}={node_id}/", properties)
        if self.property == "node.id":  # KRaft wants it made anew
            run(self.changed, "rm", meta)
            storage = ("java", "-cp", "/opt/aqueduct/kafka-4.3.1/libs/*", "kafka.tools.StorageTool", "format")
            which = ("--config", properties, "--cluster-id", cluster)
            run(self.changed, "runuser", "-u", "kafka", "--", *storage, *which)
        else:
            run(self.changed, "sed", "-i", f"s/^broker.id=.*/broker.id={node_id}/", meta)
        run(self.changed, "systemctl", "start", "kafka")
        wait_until(f"broker {node_id}", lambda: node_id in self.ids())
        wait_until("its answer", lambda: self.lab.admin(self.changed).list_topics(timeout=60))

    @contextmanager
    def consumer(self, group: str) -> Iterator["Waiting"]:
        errors: list[str] = []
        consumer = Consumer(
            {
                **self.lab.client(self.host),
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "error_cb": lambda error: errors.append(str(error)),
            }
        )
        consumer.subscribe([TOPIC])
        try:
            yield Waiting(consumer, errors)
        finally:
            consumer.close()

    # What the product says and does

    def doctor(self) -> CompletedProcess[str]:
        hosts = f"{self.host},{self.changed}"
        return self.lab.play("doctor", "--limit", hosts, consumer_groups=",".join(GROUPS))

    def examined(self) -> str:
        """Return what the doctor says of the cluster, without a play."""
        servers = (
            "--bootstrap-server",
            f"{self.host}:9092",
            "--command-config",
            f"{KAFKA}/tls/client.properties",
        )
        return self.lab.run(self.host, AQUEDUCT, "doctor", "cluster", *servers, check=False).stdout

    def forget(self, node_ids: set[int]) -> None:
        """Remove ids that no host has any more, with Kafka's own tool: ZooKeeper remembers none."""
        if self.property == "node.id":
            for node_id in node_ids:
                tool = (
                    "java",
                    "-cp",
                    "/opt/aqueduct/kafka-4.3.1/libs/*",
                    "org.apache.kafka.tools.ClusterTool",
                )
                config = ("--config", f"{KAFKA}/tls/client.properties")
                asked = ("--bootstrap-server", f"{self.host}:9092", "--id", str(node_id))
                self.lab.run(self.host, *tool, "unregister", *asked, *config)

    def repair(self, node_id: int, folder: Path, *, confirm: bool) -> CompletedProcess[str]:
        """Run the playbook with this id of the changed broker in the inventory."""
        other = folder / f"{self.changed}-{node_id}.json"
        other.write_text(json.dumps({"all": {"hosts": {self.changed: {"kafka_node_id": node_id}}}}))
        given = {"site": self.name} | ({"confirm": self.name} if confirm else {})
        return self.lab.play("repair_broker_ids", "--inventory", str(other), **given)


@dataclass(frozen=True)
class Waiting:
    """A consumer of the group that has subscribed, and what it was told of errors."""

    consumer: Consumer
    errors: list[str]

    def firsts(self, seconds: float, enough: int = len(PARTITIONS)) -> Offsets:
        """Return the offset of the first record of so many partitions, or of those that come in that time."""
        found: Offsets = {}
        for message in iter(lambda: self.consumer.poll(seconds), None):
            if error := message.error():
                self.errors.append(str(error))
            else:
                found.setdefault(message.partition(), message.offset())
            if len(found) == enough:
                break
        return found


def java_hash(name: str) -> int:
    """Return what Java's hashCode is of a string of ASCII, without its sign."""
    code = 0
    for letter in name.encode():
        code = (31 * code + letter) % (1 << 32)
    return min(code, (1 << 32) - code)


def gist(text: str) -> str:
    """Return what a text says without numbers, times, names of partitions, groups and hosts, in a line."""
    name = r"[\w.]+-\d+(\.[0-9a-f]{32}-stray)?"
    line = re.sub(r"\s+", " ", text.replace("''", "'"))
    moment = r"20[\d:.T-]+Z \([\w.-]+\)"
    line = re.sub(rf"{moment}(, {moment})*", "MOMENTS", line)
    return re.sub(r"\d+", "N", re.sub(rf"{name}(, {name})*( and \d+ more)?", "SOME", line))


def of_the_guide(command: str) -> list[str]:
    """Return what the guide shows of a play's sentences."""
    shown = rf"^\$ ansible-playbook playbooks/{re.escape(command)}.*\n((?:(?!\$ |```).*\n)+)"
    found = re.search(shown, GUIDE.read_text(), re.MULTILINE)
    assert found, command
    return found[1].splitlines()


def old(lab: Lab) -> Site:
    return Site(lab, "old", ENSEMBLE, SECOND, 12, "broker.id")


def lake(lab: Lab) -> Site:
    return Site(lab, "lake", LAKE, LAKE_SECOND, 2, "node.id")
