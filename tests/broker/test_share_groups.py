"""Share groups (KIP-932) are backed up and restored; groups of types that are not supported are listed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit import share_groups as members
from kit.clients import create, unique

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups, share_groups
from aqueduct.kafka.client_config import End
from servers.broker import Broker

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a verb against a broker and the test's store, and return its report."""

    def run(verb: str, broker: Broker, *argv: str, code: int = 0) -> dict[str, Any]:
        report = tmp_path / "report.json"
        common = ["--bootstrap-server", broker.plaintext, "--store", f"file://{tmp_path}/store"]
        assert main([verb, *common, "--report", str(report), *argv]) == code
        return dict(json.loads(report.read_text()))

    return run


@pytest.fixture
def topic(source: Broker) -> str:
    """Make a topic whose offsets change in a restore: a marker follows each ten records."""
    topic = create(source, unique("shared"))
    for start in (0, 10, 20):
        clients.transaction(source, topic, range(start, start + 10), "commit")
    return topic


def values(*numbers: int) -> list[str]:
    return [str(number) for number in range(*numbers)]


def positions(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    with raw.connect(End("c", broker.plaintext), "test") as client:
        return dict(share_groups.positions(client, share_groups.start_offsets(client, [group]))[group])


def test_share_group_resumes_after_last_acknowledged_record(
    source: Broker, target: Broker, tmp_path: Path, topic: str, run: Run
) -> None:
    group = unique("share")
    assert members.consume(source, tmp_path, topic, group, 14) == values(13)
    backup = run("backup", source, "--topics", topic)
    [stored] = [each for each in backup["groups"] if each["group"] == group]
    assert (stored["topic"], stored["old"], stored["type"]) == (topic, 14, "share")
    restored = run("restore", target)
    [move] = [each for each in restored["groups"] if each["group"] == group]
    assert (move["old"], move["type"]) == (14, "share")
    assert positions(target, group) == {(topic, 0): move["new"]}
    assert members.consume(target, tmp_path, topic, group, 17) == values(13, 30)


def test_share_group_at_log_end_resumes_there(
    source: Broker, target: Broker, tmp_path: Path, topic: str, run: Run
) -> None:
    group = unique("share")
    assert members.consume(source, tmp_path, topic, group, 32) == values(30)
    run("backup", source, "--topics", topic)
    run("restore", target)
    clients.produce(target, topic, ["next"])
    assert members.consume(target, tmp_path, topic, group, 1) == ["next"]


def test_share_group_with_members_is_restored_later(
    source: Broker, target: Broker, tmp_path: Path, topic: str, run: Run
) -> None:
    group, other = unique("share"), create(target, unique("other"))
    assert members.consume(source, tmp_path, topic, group, 7) == values(7)
    run("backup", source, "--topics", topic)
    with members.joined(target, tmp_path, other, group):
        found = run("restore", target, code=3)
    assert [each["what"] for each in found["left_out"]] == [f"group {group}"]
    assert (topic, 0) not in positions(target, group)
    run("restore", target)
    assert positions(target, group)[topic, 0] == 7


def test_groups_only_restores_deleted_share_group(
    source: Broker, tmp_path: Path, topic: str, run: Run
) -> None:
    group, kept = unique("share"), unique("share")
    for each in (group, kept):
        assert members.consume(source, tmp_path, topic, each, 5) == values(5)
    run("backup", source, "--topics", topic)
    with raw.connect(End("c", source.plaintext), "test") as client:
        groups.delete(client, [group])
        share_groups.set_positions(client, kept, {TopicPartition(topic, 0): 9})
    found = run("restore", source, "--groups-only", "--groups-pattern", f"{group}|{kept}")
    assert [(each["group"], each["new"]) for each in found["groups"]] == [(group, 5)]
    assert positions(source, group) == {(topic, 0): 5}
    assert positions(source, kept) == {(topic, 0): 9}


def test_group_of_unsupported_type_is_listed(source: Broker, target: Broker, topic: str, run: Run) -> None:
    """A streams group (KIP-1071) may have more than committed offsets; these are restored."""
    group = unique("streams")
    members.streams_group(source, group, topic)
    with raw.connect(End("c", source.plaintext), "test") as client:
        groups.commit(client, group, {TopicPartition(topic, 0): (3, "")})
    found = run("backup", source, "--topics", topic, "--groups-pattern", group, code=3)
    [skipped] = found["left_out"]
    assert skipped["what"] == f"group {group}"
    assert "streams" in skipped["why"]
    run("restore", target)
    assert clients.committed(target, group) == {(topic, 0): 3}
    with raw.connect(End("c", source.plaintext), "test") as client:
        groups.delete(client, [group])  # other tests back up all groups of this broker
