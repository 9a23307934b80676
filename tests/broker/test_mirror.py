"""`aqueduct mirror` against a real MirrorMaker 2 that mirrors from one broker to the other."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from aqueduct.cli import main
from aqueduct.kafka.admin.topics import apply_topics, await_topics
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.topics import DeclaredTopic, TopicChanges
from servers.broker import Broker
from servers.process import Process, java

TOPIC = "flights-of.day"

PROPERTIES = """
clusters=pro1,lake
pro1.bootstrap.servers={source}
lake.bootstrap.servers={target}
pro1->lake.enabled=true
pro1->lake.topics=flights-of\\\\.day
lake->pro1.emit.heartbeats.enabled=false
emit.heartbeats.enabled=false
emit.checkpoints.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset-syncs.topic.replication.factor=1
offset-syncs.topic.location=target
lake.exactly.once.source.support=enabled
lake.session.timeout.ms=6000
lake.heartbeat.interval.ms=2000
dedicated.mode.enable.internal.rest=true
listeners=http://127.0.0.1:0
"""

# As a host of a mirror has it: with nothing but the base packages.
BASE_ONLY = """
import sys
sys.modules |= dict.fromkeys(("numpy", "google_crc32c", "confluent_kafka"))
from aqueduct.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def mirror_maker(source: Broker, target: Broker, directory: Path) -> Iterator[None]:
    properties = directory / "mm2.properties"
    properties.write_text(PROPERTIES.format(source=source.plaintext, target=target.plaintext))
    command = java("org.apache.kafka.connect.mirror.MirrorMaker", properties, "--clusters", "lake")
    with Process(command, directory / "mm2.log", lambda: True).running():
        yield


def produce(broker: Broker, records: int, *, transactional: bool = False) -> None:
    settings = {"transactional_id": "writer"} if transactional else {}
    producer = KafkaProducer(bootstrap_servers=broker.plaintext, **settings)
    if transactional:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(records):
        producer.send(TOPIC, partition=0, value=b"%d" % number)
    if transactional:
        producer.commit_transaction()
    producer.close()


def make_topic(broker: Broker) -> None:
    topic = DeclaredTopic(TOPIC, 2)
    with connect(End("cluster", broker.plaintext), "test") as client:
        apply_topics(client, TopicChanges(create=(topic,), grow={}, alter={}, warnings=()))
        await_topics(client, [topic])


def test_a_mirror_is_well_falls_behind_dies_and_loses(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = brokers
    report = tmp_path / "report.json"
    ask = ["mirror", "--source", "pro1", "--report", str(report)]
    ask += ["--source-bootstrap-servers", source.plaintext, "--target-bootstrap-servers", target.plaintext]

    def said(*more: str) -> tuple[int, str]:
        code = main([*ask, *more])
        return code, capsys.readouterr().out

    code, text = said()
    assert code == 3
    assert "no state of a mirror from pro1" in text

    make_topic(source)
    produce(source, 50, transactional=True)
    with mirror_maker(source, target, tmp_path):
        code, text = said("--wait", "60s", "--until-caught-up")
        assert (code, text) == (0, "2 partitions, 0 of them behind by 0 records.\n")
        on_a_host = subprocess.run(
            [sys.executable, "-c", BASE_ONLY, *ask, "--until-caught-up"], capture_output=True, text=True
        )
        assert (on_a_host.returncode, on_a_host.stdout) == (0, text), on_a_host.stderr
        first = json.loads(report.read_text())["partitions"][0]
        # The transaction's marker is the log's last offset, and no record that could be behind.
        assert (first["topic"], first["next"], first["to"], first["behind"]) == (TOPIC, 50, 51, 0)

    produce(source, 30)
    code, text = said("--until-caught-up")
    assert code == 3
    assert f"Not caught up: {TOPIC}-0 (31 records)." in text

    with closing(KafkaAdminClient(bootstrap_servers=source.plaintext)) as admin:
        admin.delete_records({TopicPartition(TOPIC, 0): 60})
        deadline = time.monotonic() + 30
        while (
            "No worker" not in text
        ):  # its tasks stay RUNNING; the group forgets it after session.timeout.ms
            assert time.monotonic() < deadline, text
            code, text = said()
        assert code == 3
        assert f"deleted it before it was mirrored: {TOPIC}-0 (10 offsets from 50)" in text
        gap = {"topic": TOPIC, "partition": 0, "from": 50, "to": 60}
        assert json.loads(report.read_text())["gaps"] == [gap]

        admin.delete_topics([TOPIC])
    make_topic(source)
    produce(source, 3)
    code, text = said()
    assert code == 3
    assert f"Deleted and recreated at pro1: {TOPIC}-0 (mirrored to offset 50, ends at 3)" in text


def test_a_cluster_that_does_not_answer_is_named(
    brokers: list[Broker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.mirror.reading.CONNECT_SECONDS", 1)
    ask = ["mirror", "--source", "pro1", "--source-bootstrap-servers", "127.0.0.1:1"]
    assert main([*ask, "--target-bootstrap-servers", brokers[1].plaintext]) == 1
    assert "No Kafka broker to be reached at 127.0.0.1:1" in capsys.readouterr().err
