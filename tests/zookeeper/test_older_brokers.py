"""Brokers of Kafka 3.9, whose metadata is in ZooKeeper: when that is lost, and when an id was changed."""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import (
    TopicCollection,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kit import clients
from kit.identifiers import assert_printed

from aqueduct.cli import main
from aqueduct.common import timestamps
from aqueduct.kafka.listeners import TIMES
from servers import zookeeper
from servers.pki import Authority
from servers.process import free_ports
from servers.zookeeper import OlderBroker, ZooKeeper

RECORDS = 50
LISTENERS = """
listeners=PLAINTEXT://{servers},CLIENT://127.0.0.1:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENT:SSL
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={key}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""
ANY = (
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY,
)  # fmt: skip
GROUPS = [f"readers-{number}" for number in range(8)]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeper]:
    (tmp_path / "zookeeper").mkdir()
    with zookeeper.running(tmp_path / "zookeeper") as started:
        yield started


def fill(first: OlderBroker) -> None:
    """Make a topic with a partition on each of two brokers, an ACL, and groups of both coordinators."""
    asked = clients.admin(first)
    for topic in ("flights", "__consumer_offsets"):
        config = {"cleanup.policy": "compact"} if topic.startswith("_") else {"retention.ms": "-1"}
        made = NewTopic(topic, 2, replica_assignment=[[1], [2]], config=config)
        asked.create_topics([made])[topic].result()
    for partition in range(2):
        clients.wait_for("its leader", lambda: clients.led(asked, "flights", 2))
        clients.produce(first, "flights", [f"{partition}-{n}" for n in range(RECORDS)], partition)
    clients.allow(first, "anna", "flights", AclOperation.READ)
    for number, group in enumerate(GROUPS):
        clients.set_position(first, group, "flights", number)


@pytest.mark.long
def test_cluster_is_restored_after_loss_of_ensemble(
    ensemble: ZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics with their ids, settings and records, ACLs and groups; brokers' registrations don't stay."""
    store = f"file://{tmp_path}/store"
    with ExitStack() as stack:
        first, second = (zookeeper.broker(ensemble.connect, n, tmp_path / str(n)) for n in (1, 2))
        for each in (first, second):
            stack.enter_context(each.process.running())
        fill(first)
        before = state(first)
        # The host of the first one may start it again; one with a copy of its folder may not.
        properties, copied = tmp_path / "1/server.properties", tmp_path / "copied"
        assert main(["doctor", "broker", f"--properties={properties}"]) == 0
        (copied / "data").mkdir(parents=True)
        shutil.copy(tmp_path / "1/data/meta.properties", copied / "data")
        moved = properties.read_text().replace(first.plaintext, "127.0.0.1:9092")
        (copied / "server.properties").write_text(moved.replace(f"{tmp_path}/1/data", f"{copied}/data"))
        assert main(["doctor", "broker", f"--properties={copied}/server.properties"]) == 3
        assert_printed(capsys.readouterr().out, "broker-cannot-start", f"PLAINTEXT://{first.plaintext}")
        assert main(["zookeeper", "backup", "--connect", ensemble.connect, "--store", store]) == 0
        assert "/brokers/ids/1, /brokers/ids/2, /controller." in capsys.readouterr().out
    (tmp_path / "new").mkdir()
    with zookeeper.running(tmp_path / "new") as new, ExitStack() as stack:
        assert main(["zookeeper", "restore", "--connect", new.connect, "--store", store]) == 0
        assert "/brokers/ids/1" not in new.shell("ls", "-R", "/brokers")
        again = [zookeeper.broker(new.connect, n, tmp_path / str(n)) for n in (1, 2)]
        for each in again:
            stack.enter_context(each.process.running())
        asked = clients.admin(again[0])
        clients.wait_for("both", lambda: clients.led(asked, "flights", 2))
        assert state(again[0]) == before
        clients.produce(again[1], "flights", ["and one more"], 1)
        assert len(clients.records(again[0], "flights", 1)) == RECORDS + 1


def state(first: OlderBroker) -> tuple[object, ...]:
    """Return what clients see of the topic and the groups."""
    asked = clients.admin(first)
    described = asked.describe_topics(TopicCollection(["flights"]))["flights"].result()
    rights = asked.describe_acls(AclBindingFilter(*ANY)).result()
    return (
        str(described.topic_id),
        [clients.records(first, "flights", partition) for partition in range(2)],
        clients.all_coordinated(first, GROUPS, "flights", clients.SECONDS),
        sorted(str(each) for each in rights),
        _setting(first, "retention.ms"),
    )


def _setting(first: OlderBroker, name: str) -> str:
    asked, topic = clients.admin(first), ConfigResource(ConfigResource.Type.TOPIC, "flights")
    return str(asked.describe_configs([topic])[topic].result()[name].value)


@pytest.mark.long
def test_a_broker_that_came_back_with_another_id(
    ensemble: ZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its partitions and groups wait without an error; the doctor names them; the old id brings them back."""
    first, second = (zookeeper.broker(ensemble.connect, n, tmp_path / str(n)) for n in (1, 2))
    with first.process.running():
        with second.process.running():
            began = timestamps.now()
            fill(first)
            committed = timestamps.now()
            clients.wait_for("all to be well", lambda: doctor(first, capsys) == (0, ["Nothing is wrong."]))
            before = state(first)
        with zookeeper.broker(ensemble.connect, 12, tmp_path / "changed").process.running():
            clients.wait_for("the end of broker 2", lambda: "does not exist" in headline(first, capsys))
            positions = clients.all_coordinated(first, GROUPS, "flights")
            waiting = [group for group, at in zip(GROUPS, positions, strict=True) if at is None]
            assert 0 < len(waiting) < len(GROUPS)
            folder = str(tmp_path / "2/data")
            code, said = doctor(first, capsys, "--groups", ",".join(GROUPS), "--data-folder", folder)
            assert code == 3
            assert said[1].endswith(f" named: {', '.join(waiting)}.")
            newest = re.findall(r"20\S+Z", said[2])
            assert len(newest) == len(waiting), said[2]
            assert all(began <= timestamps.parse(each) <= committed for each in newest), (
                began,
                newest,
                committed,
            )
            assert any("12" in line for line in said)
        with zookeeper.broker(ensemble.connect, 2, tmp_path / "2").process.running():
            clients.wait_for("broker 2", lambda: "flights-1" not in (headline(first, capsys) or "flights-1"))
            assert state(first) == before


def test_clients_of_another_protocol_are_named(
    ensemble: ZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what a broker of 3.9 logs, as the role lets it log."""
    (tls,) = free_ports(1)
    authority = Authority(tmp_path / "pki")
    key = authority.issue("broker")
    more = LISTENERS.format(tls=tls, key=key, ca=authority.certificate, servers="{servers}")
    started = zookeeper.broker(ensemble.connect, 1, tmp_path / "1", more=more)
    options = [f"--properties={tmp_path}/1/server.properties", f"--log={tmp_path}/1/broker.log"]
    facts = re.compile(r"\[(\S+)\] .* the listener (\w+) \(.*")
    with started.process.running():
        clients.wait_for("the first leader", lambda: doctor(started, capsys, *options)[0] == 0)
        clients.refused(
            f"127.0.0.1:{tls}", TIMES, security_protocol="ssl", ssl_ca_location=str(authority.certificate)
        )
        clients.refused(started.plaintext, TIMES, security_protocol="ssl")

        def both() -> list[str]:
            """Return what the doctor says of both: a broker may log a rejection later than it rejects."""
            code, said = doctor(started, capsys, *options)
            return said if (code, len([*filter(facts.fullmatch, said)])) == (3, 2) else []

        _, listening, *found = clients.wait_for("both findings", both)
    assert listening.startswith(f"Listener CLIENT (SSL, port {tls}): ")
    assert [match.groups() for line in found if (match := facts.fullmatch(line))] == [
        ("client-protocol-mismatch", "PLAINTEXT"),
        ("client-protocol-mismatch", "CLIENT"),
    ]
    assert "failed TLS handshakes" in found[1]


def doctor(first: OlderBroker, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    code = main(["doctor", "cluster", "--bootstrap-server", first.plaintext, *options])
    return code, capsys.readouterr().out.splitlines()


def headline(first: OlderBroker, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the doctor's first line; nothing where it failed: brokers that start or end may not answer."""
    _, said = doctor(first, capsys)
    return said[0] if said else ""
