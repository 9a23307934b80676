"""A source of Kafka 0.10, of 2016: clients of Kafka 3.9 read it, those of Kafka 4 do not."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from kit import classic, clients
from kit.classic import Mirror

from aqueduct.cli import main
from servers import oldest_kafka, zookeeper
from servers.broker import Broker
from servers.process import Process, java
from servers.zookeeper import OlderBroker

RECORDS = 200
PLAIN = {"enable.idempotence": False}  # which it has not
MM2 = """
clusters=old,lake
old.bootstrap.servers={source}
lake.bootstrap.servers={target}
old->lake.enabled=true
old->lake.topics={topic}
lake->old.enabled=false
lake->old.emit.heartbeats.enabled=false
emit.heartbeats.enabled=false
emit.checkpoints.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
sync.topic.acls.enabled=false
offset-syncs.topic.location=target
old.consumer.isolation.level=read_uncommitted
lake.exactly.once.source.support=enabled
replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset-syncs.topic.replication.factor=1
dedicated.mode.enable.internal.rest=true
listeners=http://127.0.0.1:0
"""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderBroker]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with zookeeper.running(folder) as ensemble:
        started = oldest_kafka.broker(ensemble.connect, tmp_path_factory.mktemp("oldest"))
        with started.process.running():
            yield started


@pytest.fixture
def topic(oldest: OlderBroker, target: Broker) -> str:
    """A topic of both, with records without keys at the old one."""
    name = clients.unique("flights")
    asked = clients.admin(oldest)
    with suppress(KafkaException):  # the topic that is asked for is made, and has no leaders yet
        asked.list_topics(name, timeout=30)
    clients.wait_for("its leaders", lambda: clients.led(asked, name, 2))
    for partition in range(2):
        clients.produce(oldest, name, [f"{partition}-{n}" for n in range(RECORDS)], partition, **PLAIN)
    return clients.create(target, name, 2)


def both(oldest: OlderBroker, target: Broker, topic: str) -> bool:
    ask = [
        "reconcile",
        *("--source-bootstrap-server", oldest.plaintext),
        *("--target-bootstrap-server", target.plaintext),
        *("--topics", topic),
    ]
    return main(ask) == 0


def test_classic_mirror_copies_oldest_source_and_reports_status(
    oldest: OlderBroker, target: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = classic.flow("old", topic, source_version=oldest_kafka.VERSION, start="latest")
    ask = ["mirror", "--flow", "old", "--group", flow.group, "--topics-pattern", flow.topics_pattern]
    ask += ["--source-bootstrap-server", oldest.plaintext, "--target-bootstrap-server", target.plaintext]
    assert main(ask) == 3
    assert "No process of the mirror from old" in capsys.readouterr().out
    with Mirror(flow, oldest.plaintext, target.plaintext, tmp_path / "m").process().running():
        assert main([*ask, "--wait", "300s", "--until-caught-up"]) == 0
        assert capsys.readouterr().out == "2 partitions, 0 of them behind by 0 records.\n"
    assert both(oldest, target, topic)
    assert [clients.records(target, topic, n) for n in (0, 1)] == [
        [(None, b"%d-%d" % (n, each), None, time) for each, time in enumerate(times)]
        for n in (0, 1)
        for times in [[each.timestamp() for each in clients.read(target, topic, n)]]
    ]
    other = classic.flow("other", topic, source_version=oldest_kafka.VERSION)
    ask[4] = other.group
    assert main([*ask, "--begin-at-ends"]) == 0
    assert clients.coordinated(oldest, other.group, topic) == RECORDS


@contextmanager
def mirror_maker_2(command: list[str], log: Path) -> Iterator[Process]:
    with Process(command, log, lambda: True).running() as process:
        yield process


@pytest.mark.long
def test_only_older_mirror_maker_reads_oldest_source(
    oldest: OlderBroker, target: Broker, topic: str, tmp_path: Path
) -> None:
    """MirrorMaker 2 of Kafka 3.9 reads a source of Kafka 0.10; that of Kafka 4 refuses it."""
    properties = tmp_path / "mm2.properties"
    properties.write_text(
        MM2.format(source=oldest.plaintext, target=target.plaintext, topic=topic.replace(".", r"\\."))
    )
    arguments = ["org.apache.kafka.connect.mirror.MirrorMaker", str(properties), "--clusters", "lake"]
    with mirror_maker_2(java(*arguments), tmp_path / "today.log"):
        refusal = "UnsupportedVersionException"
        clients.wait_for("its refusal", lambda: refusal in (tmp_path / "today.log").read_text())
    assert clients.ends(target, topic, 0, 1) == [0, 0]
    with mirror_maker_2(zookeeper.java(*arguments), tmp_path / "older.log"):
        clients.wait_for("all records", lambda: clients.settle(target, topic, 0, 1) > [RECORDS, RECORDS])
    assert both(oldest, target, topic)


def test_today_s_own_consumer_says_why(oldest: OlderBroker, topic: str) -> None:
    options = [
        "--bootstrap-server",
        oldest.plaintext,
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        "120000",
    ]
    command = java("org.apache.kafka.tools.consumer.ConsoleConsumer", *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert "does not support LIST_OFFSETS with version in range [1," in said
    assert "The supported range is [0,0]" in said
    assert "Processed a total of 0 messages" in said
