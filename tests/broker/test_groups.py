"""`aqueduct groups`: the lag of groups on a real broker."""

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kit import clients

from aqueduct.cli import main
from aqueduct.kafka import acls
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.client_config import End
from servers.broker import Broker

Capture = pytest.CaptureFixture[str]


def look(broker: Broker, capsys: Capture, code: int, *options: str) -> dict[str, Any]:
    arguments = ["groups", "--bootstrap-server", broker.plaintext, "--json", *options]
    capsys.readouterr()
    assert main(arguments) == code
    return dict(json.loads(capsys.readouterr().out))


@contextmanager
def member(broker: Broker, group: str, topic: str, read: int) -> Iterator[None]:
    """Be a member that has read and committed so many records of partition 0, and reads no more."""
    consumer: Consumer = clients.consumer(broker, group, **{"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        for _ in range(read):
            message = consumer.poll(clients.SECONDS)
            assert message is not None
        consumer.commit(offsets=[TopicPartition(topic, 0, read)], asynchronous=False)
        yield
    finally:
        consumer.close()


def test_groups_are_ok_stuck_or_stopped(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    clients.produce(broker, topic, range(5))
    done, stuck, stopped = (clients.unique(name) for name in ("done", "stuck", "stopped"))
    clients.set_position(broker, done, topic, 5)
    clients.set_position(broker, stopped, topic, 1)
    chosen = [f"--group={name}" for name in (done, stuck, stopped)]
    with member(broker, stuck, topic, 2):
        document = look(broker, capsys, 3, *chosen, "--window", "2s")
        assert main(["groups", "--bootstrap-server", broker.plaintext, *chosen, "--window", "2s"]) == 3
        shown = capsys.readouterr()
    found = {group["name"]: group for group in document["groups"]}
    assert {name: (group["state"], group["lag"]) for name, group in found.items()} == {
        stopped: ("stopped", 4),
        stuck: ("stuck", 3),
        done: ("ok", 0),
    }
    assert [group["name"] for group in document["groups"]][-1] == done, "worst first"
    assert {name: group["has_members"] for name, group in found.items()} == {
        stopped: False,
        stuck: True,
        done: False,
    }
    assert found[done]["seconds"] == 0
    assert found[stuck]["seconds"] > 2, "it was looked at for so long"
    assert {f"[group-{state}]" in shown.err for state in ("stuck", "stopped")} == {True}
    assert document["unknown"] == []


def test_no_lag_needs_no_second_look(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    clients.produce(broker, topic, range(5))
    group = clients.unique("done")
    clients.set_position(broker, group, topic, 5)
    document = look(broker, capsys, 0, "--group", group, "--window", "1h")
    assert [each["state"] for each in document["groups"]] == ["ok"]


def test_a_group_that_reads_too_slowly_falls_behind(
    broker: Broker, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks, it reads fewer records than are written, however long that takes."""
    topic = clients.create(broker, clients.unique("lag"))
    group = clients.unique("slow")
    clients.produce(broker, topic, range(5))
    clients.set_position(broker, group, topic, 1)
    offsets = itertools.count(2)

    def fall_behind(*_: object) -> None:
        clients.produce(broker, topic, range(5))
        clients.set_position(broker, group, topic, next(offsets))

    monkeypatch.setattr(raw.Client, "sleep", fall_behind)
    document = look(broker, capsys, 3, "--group", group, "--window", "1s")
    assert [each["state"] for each in document["groups"]] == ["falling behind"]


def test_lag_seconds_are_age_of_oldest_unread_record(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    producer = clients.idempotent(broker)
    now = int(time.time() * 1000)
    for age in (7200, 3600, 60):
        producer.produce(topic, b"x", timestamp=now - age * 1000)
        producer.flush()  # a batch each
    group = clients.unique("behind")
    clients.set_position(broker, group, topic, 1)
    [found] = look(broker, capsys, 3, "--group", group, "--window", "1s")["groups"]
    assert (found["lag"], found["partitions"][0]["offset"]) == (2, 1)
    assert 3600 <= found["seconds"] < 7200


def test_age_is_known_for_batches_larger_than_fetch(broker: Broker, capsys: Capture) -> None:
    """A broker sends a batch that is larger than asked only where it is the first of its answer."""
    topic = clients.create(broker, clients.unique("large"), 3)
    group = clients.unique("behind")
    for partition in range(3):
        clients.produce(broker, topic, ["x" * 200_000], partition)
    asked = clients.admin(broker)
    places = [TopicPartition(topic, partition, 0) for partition in range(3)]
    wanted = clients.ConsumerGroupTopicPartitions(group, places)
    clients.set_position(broker, group, topic, 0)  # once it has a coordinator
    asked.alter_consumer_group_offsets([wanted])[group].result()
    [found] = look(broker, capsys, 3, "--group", group, "--window", "1s")["groups"]
    assert [each["lag"] for each in found["partitions"]] == [1, 1, 1]
    assert None not in [each["seconds"] for each in found["partitions"]]


def test_unread_records_that_were_deleted_are_counted(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    clients.produce(broker, topic, range(10))
    group = clients.unique("late")
    clients.set_position(broker, group, topic, 2)
    clients.delete_records(broker, topic, 6)
    [found] = look(broker, capsys, 3, "--group", group, "--window", "1s")["groups"]
    assert found["partitions"][0]["expired"] == 4


def test_unknown_is_not_ok(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("hidden"))
    clients.produce(broker, topic, range(5))
    group = clients.unique("done")
    clients.set_position(broker, group, topic, 5)
    missing = clients.unique("missing")
    document = look(broker, capsys, 3, "--group", missing)
    assert [each["id"] for each in document["unknown"]] == ["group-unknown"]
    assert document["groups"] == []

    name = clients.unique("watcher")
    granted = (
        Acl(
            principal=f"User:CN={name}", resource="group", name=group, pattern="literal", operation="describe"
        ),
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(granted, ()))
    options = ["--command-config", str(broker.authority.client_config(name)), "--group", group, "--json"]
    capsys.readouterr()
    assert main(["groups", "--bootstrap-server", broker.tls, *options]) == 3
    shown = capsys.readouterr()
    [found] = json.loads(shown.out)["groups"]
    assert (found["state"], found["lag"], found["seconds"]) == ("unknown", None, None)
    assert "[group-lag-unknown]" in shown.err
    assert "[groups-unlisted]" in shown.err, "it may not describe __consumer_offsets"


def test_excluded_groups_are_not_listed(broker: Broker, capsys: Capture) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    clients.produce(broker, topic, range(5))
    name = clients.unique("own")
    for suffix in ("a", "b"):
        clients.set_position(broker, f"{name}-{suffix}", topic, 5)
    document = look(broker, capsys, 0, f"--group={name}-a", f"--group={name}-b", "--exclude", ".*-b")
    assert [each["name"] for each in document["groups"]] == [f"{name}-a"]


def test_a_cluster_without_an_answer_is_a_failure(capsys: Capture) -> None:
    assert main(["groups", "--bootstrap-server", "127.0.0.1:1", "--patience", "1"]) == 1


@pytest.mark.parametrize("options", [["--exclude", ".*"], ["--group", "{name}", "--exclude", "{name}"]])
def test_exclusion_of_all_groups_is_reported(broker: Broker, capsys: Capture, options: list[str]) -> None:
    topic = clients.create(broker, clients.unique("lag"))
    clients.produce(broker, topic, range(5))
    name = clients.unique("own")
    clients.set_position(broker, name, topic, 5)
    document = look(broker, capsys, 3, *(option.format(name=name) for option in options))
    assert document["groups"] == []
    assert [skipped["id"] for skipped in document["unknown"]] == ["group-unknown"]
