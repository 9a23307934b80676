"""A cluster of 3.9.2 with ZooKeeper becomes one of 4.3.1 without, process by process, under its clients.

What the estate's playbooks do on hosts, here with processes alone: each step with the settings that it takes,
and what brokers and controllers then say. ZooKeeper is the estate's, with TLS and ACLs.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient
from kit import clients
from kit.ensembles import module
from traffic import Traffic

from aqueduct.estate.schema_registry import properties_file
from aqueduct.estate.zookeeper import client_settings
from aqueduct.kafka import client_config
from aqueduct.kafka.admin.controllers import Controllers, look, without_zookeeper
from aqueduct.kafka.admin.features import features, higher, raise_to
from aqueduct.kafka.client import connect
from aqueduct.recovery.zookeeper.client import Ensemble, ZooKeeperSession
from aqueduct.recovery.zookeeper.migration import Migration, read
from servers import process as newer
from servers import zookeeper
from servers.pki import Authority
from servers.process import Process, free_ports

PARTITIONS = 4
CONTROLLER, DIRECTORY = 101, "Mk3OEYBSD34fcwNTJENDMg"
OF_3_9 = 21  # the metadata version 3.9-IV0
RIGHTS = (
    ResourceType.TOPIC, "flights", ResourcePatternType.LITERAL, None, None,
    AclOperation.READ, AclPermissionType.ALLOW,
)  # fmt: skip
MIGRATES = {"zookeeper.metadata.migration.enable": "true"}


@dataclass
class Node:
    """A broker or the controller, which is stopped and started with other settings and other software."""

    number: int
    home: Path
    address: str  # for who has no certificate; the controller has none
    secure: str
    newer: bool = False
    process: Process | None = field(default=None, repr=False)

    @property
    def properties(self) -> Path:
        return self.home / "server.properties"

    def configure(self, settings: Mapping[str, str]) -> None:
        self.home.mkdir(exist_ok=True)
        self.properties.write_text(properties_file({"log.dirs": str(self.home / "data"), **settings}))

    def run(self, settings: Mapping[str, str]) -> None:
        """Have it run with these settings: stop it as systemd does, and return when it is ready."""
        self.configure(settings)
        self.stop()
        self.process = Process(self.java("kafka.Kafka", str(self.properties)), self.home / "log", self.ready)
        self.process.start()

    def format(self, settings: Mapping[str, str], cluster: str) -> None:
        """Format it as the only voter of a cluster."""
        self.configure(settings)
        voter = f"{self.number}@{self.secure}:{DIRECTORY}"
        tool = (
            "format",
            "--config",
            str(self.properties),
            "--cluster-id",
            cluster,
            "--initial-controllers",
            voter,
        )
        subprocess.run(self.java("kafka.tools.StorageTool", *tool), check=True, capture_output=True)

    def stop(self) -> None:
        if self.process:
            self.process.stop()

    def end(self) -> None:
        if self.process:
            self.process.kill()

    def java(self, main: str, *arguments: str) -> list[str]:
        return newer.java(main, *arguments) if self.newer else zookeeper.java(main, *arguments)

    def ready(self) -> bool:
        if self.number == CONTROLLER:
            return newer.listens(int(self.secure.partition(":")[2]))
        try:
            return (
                self.number
                in AdminClient({"bootstrap.servers": self.address, "log_level": 0})
                .list_topics(timeout=5)
                .brokers
            )
        except KafkaException:
            return False

    @property
    def plaintext(self) -> str:
        return self.address

    def log_of_metadata(self) -> str:
        """Return the records of its metadata log, as Kafka's own tool has them."""
        folder = self.home / "data/__cluster_metadata-0"
        files = sorted(str(each) for each in folder.iterdir() if each.suffix in (".log", ".checkpoint"))
        done = subprocess.run(
            zookeeper.java(
                "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(files)
            ),
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout


@dataclass
class Site:
    zookeeper: dict[str, str]  # how a broker, and the controller, reach it
    key: str
    ca: str
    controller: Node
    brokers: list[Node]

    def listeners(self, node: Node) -> dict[str, str]:
        return {
            "listeners": f"CLIENT://{node.secure},PLAIN://{node.address}",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:SSL,PLAIN:PLAINTEXT,CONTROLLER:SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.key,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "super.users": "User:CN=kafka-old;User:ANONYMOUS",
            "offsets.topic.replication.factor": "2",
            "offsets.topic.num.partitions": "4",
            "default.replication.factor": "2",
            "min.insync.replicas": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }

    def quorum(self) -> dict[str, str]:
        return {
            "controller.quorum.bootstrap.servers": self.controller.secure,
            "controller.listener.names": "CONTROLLER",
        }

    def with_zookeeper(self, node: Node, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            **self.listeners(node),
            "broker.id": str(node.number),
            "broker.id.generation.enable": "false",
            **self.zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            **(more or {}),
        }

    def of_kraft(self, node: Node, more: Mapping[str, str] | None = None) -> dict[str, str]:
        is_controller = node is self.controller
        return {
            **self.listeners(node),
            **self.quorum(),
            "process.roles": "controller" if is_controller else "broker",
            "node.id": str(node.number),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "controller.quorum.auto.join.enable": str(is_controller).lower(),
            **({"listeners": f"CONTROLLER://{node.secure}"} if is_controller else {}),
            **(more or {}),
        }


@dataclass(frozen=True)
class Move:
    """What the test does to the cluster, and how it looks at it."""

    ensemble: Process
    client: KazooClient  # with a broker's certificate
    properties: Path  # of the same
    site: Site

    @property
    def servers(self) -> str:
        return ",".join(node.address for node in self.site.brokers)

    def migration(self) -> Migration:
        session = self.session()
        try:
            return read(session)
        finally:
            session.close()

    def session(self) -> ZooKeeperSession:
        return ZooKeeperSession(
            Ensemble(self.site.zookeeper["zookeeper.connect"], client_config.load(self.properties))
        )

    def module(self, state: str, seconds: int = 300) -> dict[str, Any]:
        """Return what the module kafka_migration says."""
        return module(
            "kafka_migration",
            controllers=[self.site.controller.secure],
            brokers=[node.secure for node in self.site.brokers],
            zookeeper=self.site.zookeeper["zookeeper.connect"],
            client_config=str(self.properties),
            state=state,
            timeout_seconds=seconds,
        )

    def controllers(self) -> Controllers:
        return look([self.site.controller.secure], client_config.load(self.properties))

    def led(self) -> list[str]:
        brokers = [node.secure for node in self.site.brokers]
        return without_zookeeper(brokers, client_config.load(self.properties))

    def is_whole(self) -> bool:
        """Tell, by librdkafka, whether both brokers have all that they are to have."""
        found = clients.metadata(AdminClient({"bootstrap.servers": self.servers, "log_level": 0}))
        parts = [part for topic in found.topics.values() for part in topic.partitions.values()]
        return len(found.brokers) == 2 and all(len(part.isrs) == len(part.replicas) for part in parts)

    def restart(self, node: Node, settings: Mapping[str, str]) -> None:
        clients.wait_for("a whole cluster", self.is_whole)
        node.run(settings)

    def states(self) -> list[str]:
        """Return the states of the migration that the controller's log has (ZkMigrationState).

        2: before it; 1: dual write; 3: after it.
        """
        said = self.site.controller.log_of_metadata()
        return re.findall(r'"type":"ZK_MIGRATION_STATE_RECORD".*?"zkMigrationState":(\d)', said)


@pytest.fixture
def move(tmp_path: Path) -> Iterator[Move]:
    numbers = (1, 2, CONTROLLER)
    ports = iter(free_ports(2 * len(numbers)))
    *brokers, controller = (
        Node(number, tmp_path / str(number), f"127.0.0.1:{next(ports)}", f"127.0.0.1:{next(ports)}")
        for number in numbers
    )
    authority = Authority(tmp_path / "pki")
    key, ca = (str(path) for path in (authority.issue("kafka-old"), authority.certificate))
    with (
        zookeeper.estates_ensemble(tmp_path / "zookeeper", authority, 1) as servers,
        ExitStack() as stack,
    ):
        for node in (*brokers, controller):
            stack.callback(node.end)
        [(server, process)] = servers.items()
        client = KazooClient(hosts=server.address, use_ssl=True, ca=ca, certfile=key, keyfile=key)
        client.start(clients.SECONDS)
        stack.callback(client.close)
        stack.callback(client.stop)
        properties = authority.client_config("kafka-old")
        site = Site(client_settings(server.address, key, ca), key, ca, controller, brokers)
        yield Move(process, client, properties, site)


def to_dual_write(move: Move) -> None:
    site, controller = move.site, move.site.controller
    migrating = site.of_kraft(controller, {**MIGRATES, **site.zookeeper})
    cluster, _ = move.client.get("/cluster/id")
    controller.format(migrating, json.loads(cluster)["id"])
    controller.run(migrating)
    ready = move.module("ready")
    assert (ready["leader"], ready["migrating"]) == (CONTROLLER, [controller.secure]), ready
    assert not ready["of_quorum"]
    assert "The controllers have not copied all metadata of ZooKeeper" in move.module("copied", 0)["msg"]
    for node in site.brokers:
        assert not move.migration().copied
        move.restart(node, site.with_zookeeper(node, {**site.quorum(), **MIGRATES}))
    assert move.module("copied")["copied"]
    assert f"Broker {site.brokers[0].secure} does not run without" in move.module("followed", 0)["msg"]
    assert move.migration() == Migration(begun=True, copied=True, controller=CONTROLLER, of_quorum=True)
    assert move.states() == ["2", "1"]
    assert move.led() == []
    for node in site.brokers:
        move.restart(node, site.of_kraft(node))
    assert move.led() == [node.secure for node in site.brokers]
    assert move.module("followed")["without_zookeeper"] == move.led()
    assert "still migrates" in move.module("finished", 0)["msg"]
    assert "Controllers still run" in move.module("forgotten")["msg"]
    made = clients.create(site.brokers[0], clients.unique("in-both"))
    clients.wait_for("its znode", lambda: made in move.client.get_children("/brokers/topics"))
    rights, _ = move.client.get_acls(f"/brokers/topics/{made}")
    assert {each.id.id for each in rights} == {"CN=kafka-old", "anyone"}
    assert move.states() == ["2", "1"]


def back(move: Move) -> None:
    site = move.site
    made = clients.topics(site.brokers[0])
    for node in site.brokers:
        move.restart(node, site.with_zookeeper(node, {**site.quorum(), **MIGRATES}))
    assert move.led() == []
    site.controller.stop()
    shutil.rmtree(site.controller.home)
    assert move.module("forgotten")["znodes"] == ["/controller", "/migration"]
    assert move.module("forgotten")["znodes"] == []
    for node in site.brokers:
        move.restart(node, site.with_zookeeper(node))
        shutil.rmtree(node.home / "data/__cluster_metadata-0")
    found = move.migration()
    assert found.controller in (1, 2)
    assert found == Migration(begun=False, copied=False, controller=found.controller, of_quorum=False)
    assert clients.topics(site.brokers[1]) == made


@pytest.mark.long
def test_nothing_is_lost_on_the_way(move: Move) -> None:
    site, controller = move.site, move.site.controller
    for node in site.brokers:
        node.run(site.with_zookeeper(node))
    asked = clients.admin(site.brokers[0])
    topic = NewTopic("flights", PARTITIONS, 2, config={"retention.ms": "-1"})
    asked.create_topics([topic])["flights"].result()
    clients.allow(site.brokers[0], "anna", "flights", AclOperation.READ)
    clients.wait_for("leaders", lambda: clients.led(asked, "flights", PARTITIONS))
    traffic = Traffic({"bootstrap.servers": move.servers, "log_level": 0}, "flights", "readers", PARTITIONS)
    traffic.start()
    assert move.migration() == Migration(begun=False, copied=False, controller=1, of_quorum=False)
    assert move.controllers().quorum.leader is None
    assert move.controllers().silent.keys() == {controller.secure}

    to_dual_write(move)
    back(move)
    to_dual_write(move)

    move.restart(controller, site.of_kraft(controller))
    finished = move.module("finished")
    assert (finished["leader"], finished["migrating"]) == (CONTROLLER, []), finished
    assert move.states() == ["2", "1", "3"]
    move.client.stop()
    move.ensemble.kill()

    for node in (*site.brokers, controller):
        node.newer = True
        move.restart(node, site.of_kraft(node))
    clients.wait_for("a whole cluster", move.is_whole)
    with connect(client_config.end("cluster", move.servers, None), "test") as client:
        before = features(client)
        assert before["metadata.version"].level == OF_3_9
        raise_to(client, higher(before))
        assert higher(features(client)) == {}
    traffic.finish()
    for partition, sent in traffic.sent.items():
        assert len(sent) > 1000
        assert [value for _, value, *_ in clients.records(site.brokers[1], "flights", partition)] == sent
    assert traffic.values() == traffic.sent
    assert clients.committed(site.brokers[0], "readers") == {
        ("flights", partition): len(sent) for partition, sent in traffic.sent.items()
    }
    rights = asked.describe_acls(AclBindingFilter(*RIGHTS)).result()
    assert [each.principal for each in rights] == ["User:CN=anna"]
