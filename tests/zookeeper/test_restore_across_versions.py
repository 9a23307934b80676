"""Restored to a Kafka of another version: what it does not know is listed, and all else is restored."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.clients import create, unique

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka import share_groups
from aqueduct.kafka.acls import Acl, AclChanges
from aqueduct.kafka.admin.acls import apply_acls, grant_known, list_acls
from aqueduct.kafka.admin.quotas import list_quotas, set_known_quotas
from aqueduct.kafka.admin.settings import own_settings
from aqueduct.kafka.client_config import End
from aqueduct.kafka.quotas import Quota
from servers import zookeeper
from servers.broker import Broker
from servers.zookeeper import OlderBroker

Run = Callable[..., dict[str, Any]]
MORE = "\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderBroker]:
    """Yield a broker of Kafka 3.9."""
    folder = tmp_path_factory.mktemp("older")
    (folder / "zookeeper").mkdir()
    with zookeeper.running(folder / "zookeeper") as ensemble:
        broker = zookeeper.broker(ensemble.connect, 1, folder / "broker", more=MORE)
        with broker.process.running():
            yield broker


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(verb: str, broker: Broker | OlderBroker, *argv: str, code: int = 0) -> dict[str, Any]:
        report = tmp_path / "report.json"
        common = ["--bootstrap-server", broker.plaintext, "--store", f"file://{tmp_path}/store"]
        assert main([verb, *common, "--report", str(report), *argv]) == code
        return dict(json.loads(report.read_text()))

    return run


def settings(broker: Broker | OlderBroker, topic: str) -> dict[str, str]:
    with raw.connect(End("c", broker.plaintext), "test") as client:
        return own_settings(client, [topic])[topic]


def values(broker: Any, topic: str) -> list[bytes | None]:
    return [each.value() for each in clients.read(broker, topic)]


def test_settings_removed_from_kafka_are_dropped_and_listed(older: Any, target: Broker, run: Run) -> None:
    topic, plain = unique("moved"), unique("moved")
    kept = {"retention.ms": "3600000000", "cleanup.policy": "compact,delete", "segment.bytes": "2000000"}
    removed = {"message.format.version": "2.8-IV1", "message.downconversion.enable": "false"}
    create(older, topic, **{key.replace(".", "_"): value for key, value in (kept | removed).items()})
    create(older, plain, retention_ms="7200000000")
    for each in (topic, plain):
        clients.produce(older, each, [{"key": str(n), "value": str(n)} for n in range(20)])
    run("backup", older, "--topics", f"{topic},{plain}")
    planned = run("restore", target, "--dry-run", code=3)
    assert {each["key"] for each in planned["dropped_settings"]} == removed.keys()
    found = run("restore", target, code=3)
    assert {(each["topic"], each["key"]) for each in found["dropped_settings"]} == {
        (topic, key) for key in removed
    }
    assert len(found["left_out"]) == len(removed)
    assert settings(target, topic) == kept
    assert settings(target, plain) == {"retention.ms": "7200000000"}
    assert values(target, topic) == values(older, topic)
    again = run("restore", target, code=3)
    assert again["finished_before"]
    assert again["dropped_settings"] == found["dropped_settings"]


def test_settings_are_dropped_of_topics_that_exist(older: Any, target: Broker, run: Run) -> None:
    topic = unique("moved")
    create(older, topic, retention_ms="3600000000", message_format_version="2.8-IV1")
    clients.produce(older, topic, ["1"])
    run("backup", older, "--topics", topic)
    create(target, topic)
    found = run("restore", target, code=3)
    assert [each["key"] for each in found["dropped_settings"]] == ["message.format.version"]
    assert settings(target, topic) == {"retention.ms": "3600000000"}


def test_acls_and_groups_unknown_to_target_are_listed(older: Any, source: Broker, run: Run) -> None:
    topic, group = create(source, unique("back")), unique("share")
    clients.produce(source, topic, range(5))
    fine = Acl(principal=f"User:{topic}", resource="topic", name=topic, pattern="literal", operation="read")
    newer = Acl(
        principal=f"User:{topic}",
        resource="transactional_id",
        name=topic,
        pattern="literal",
        operation="two_phase_commit",
    )
    with raw.connect(End("c", source.plaintext), "test") as client:
        apply_acls(client, AclChanges((fine, newer), ()))
        share_groups.set_positions(client, group, {TopicPartition(topic, 0): 2})
    run("backup", source, "--topics", topic, "--groups-pattern", group)
    found = run("restore", older, "--acls", code=3)
    listed = {each["what"]: each["why"] for each in found["left_out"]}
    assert f"ACL {newer}" in listed
    assert f"ACL {fine}" not in listed
    assert "share.version" in listed[f"group {group}"]
    with raw.connect(End("c", older.plaintext), "test") as client:
        there = list_acls(client)
    assert fine in there
    assert newer not in there


def test_unknown_quota_keys_and_acls_block_no_others(source: Broker) -> None:
    user = unique("user")
    with raw.connect(End("c", source.plaintext), "test") as client:
        known = Quota({"user": user}, {"consumer_byte_rate": 1e6})
        [(refused, _)] = set_known_quotas(
            client, [Quota({"user": user}, {"consumer_byte_rate": 1e6, "rate_of_a_later_version": 5})]
        )
        assert refused.values == {"rate_of_a_later_version": 5}
        clients.wait_for("the quota", lambda: known in list_quotas(client))
        fine = Acl(principal=f"User:{user}", resource="topic", name=user, pattern="literal", operation="read")
        later = [
            Acl(principal=f"User:{user}", resource="99", name=user, pattern="literal", operation="read"),
            Acl(principal=f"User:{user}", resource="topic", name=user, pattern="literal", operation="99"),
            Acl(principal=f"User:{user}", resource="thing", name=user, pattern="literal", operation="read"),
        ]
        assert grant_known(client, [fine, *later]).keys() == {*later}
        assert fine in list_acls(client)
