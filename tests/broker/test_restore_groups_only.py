"""`aqueduct restore --groups-only`: positions that are gone, in a cluster that has all its records."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic
from kit import clients
from kit.identifiers import printed

from aqueduct import cli
from aqueduct.kafka import client as raw
from aqueduct.kafka.diagnosis import group_partition
from aqueduct.snapshots.backup.selection import POSITION_GROUP
from aqueduct.snapshots.restore import progress
from servers import broker as brokers_
from servers.broker import Broker

OFFSETS = "__consumer_offsets"
LEADERS = (1, 2, 1)  # of its partitions; broker 2 is stopped


def is_served(group: str) -> bool:
    return LEADERS[group_partition(group, len(LEADERS))] == 1


GROUPS = [f"readers-{number}" for number in range(8)]
SERVED = [*filter(is_served, GROUPS)]
ORPHANED = [name for name in GROUPS if not is_served(name)]


def test_groups_get_the_positions_that_they_lack(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that has a position keeps it; one beyond the log's beginning, and a topic made again, are named."""
    kept, again = (clients.create(broker, clients.unique(name)) for name in ("kept", "again"))
    for topic in (kept, again):
        clients.produce(broker, topic, range(20))
    lost, deleted, here, live = (clients.unique(name) for name in ("lost", "deleted", "here", "live"))
    for group, topic, offset in (
        (lost, kept, 7), (lost, again, 3), (deleted, kept, 2), (here, kept, 5), (live, kept, 4),
    ):  # fmt: skip
        clients.set_position(broker, group, topic, offset)
    store = f"file://{tmp_path}/store"
    asked = ("--bootstrap-server", broker.plaintext, "--store", store)
    assert cli.main(["backup", *asked, "--topics", f"{kept},{again}"]) == 0
    admin = clients.admin(broker)
    for done in admin.delete_consumer_groups([lost, deleted, live]).values():
        done.result()
    clients.set_position(broker, here, kept, 9)
    clients.delete_records(broker, kept, 4)
    clients.recreate(broker, again)
    clients.produce(broker, again, range(20))

    report = tmp_path / "report.json"
    capsys.readouterr()
    member = clients.consumer(broker, live)
    member.subscribe([kept])
    clients.wait_for("a member", lambda: member.poll(0.2))
    only = ("restore", *asked, "--groups-only", "--groups-pattern", f"{lost}|{deleted}|{here}|{live}")
    assert cli.main([*only, "--dry-run"]) == 3
    assert clients.committed(broker, lost) == {}
    assert cli.main([*only, "--report", str(report)]) == 3
    member.close()
    assert clients.committed(broker, lost) == {(kept, 0): 7}
    assert clients.committed(broker, deleted) == {(kept, 0): 4}
    assert clients.committed(broker, here) == {(kept, 0): 9}
    said = json.loads(report.read_text())
    assert {each["group"]: (each["old"], each["new"]) for each in said["groups"]} == {
        lost: (7, 7),
        deleted: (2, 4),
    }
    assert {(each["id"], each["what"]) for each in said["left_out"]} == {
        ("topic-recreated", f"group offsets of {again}"),
        ("group-has-members", f"group {live}"),
    }
    assert said["kept"] == 1


@dataclass(frozen=True)
class HalfStopped:
    """A cluster whose groups are backed up, and lost, and whose second broker is stopped."""

    broker: Broker
    run: Callable[..., dict[str, Any]]


@pytest.fixture
def half_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HalfStopped]:
    """Yield a cluster in which a partition of `__consumer_offsets`, and one of a topic, have no leader."""
    (tmp_path / "first").mkdir()
    with brokers_.running(tmp_path / "first", coordinators=len(LEADERS)) as first:
        asked, report = clients.admin(first), tmp_path / "report.json"

        def run(verb: str, *arguments: str, code: int) -> dict[str, Any]:
            common = ("--bootstrap-server", first.plaintext, "--store", f"file://{tmp_path}/store")
            assert cli.main([verb, *common, "--report", str(report), *arguments]) == code
            return dict(json.loads(report.read_text()))

        with brokers_.joining(first, 2, tmp_path / "second").running():
            topics = {"kept": [[1]], "half": [[1], [2]], OFFSETS: [[each] for each in LEADERS]}
            for topic, replicas in topics.items():
                config = {"cleanup.policy": "compact"} if topic == OFFSETS else {}
                made = NewTopic(topic, len(replicas), replica_assignment=replicas, config=config)
                asked.create_topics([made])[topic].result()
            clients.wait_for(
                "leaders", lambda: all(clients.led(asked, name, len(each)) for name, each in topics.items())
            )
            clients.produce(first, "kept", range(20))
            for partition in range(2):
                clients.produce(first, "half", range(20), partition)
            for number, group in enumerate(GROUPS):
                clients.set_position(first, group, "kept", number)
            both = [TopicPartition("half", partition, 5) for partition in range(2)]
            place = ConsumerGroupTopicPartitions(SERVED[0], both)
            asked.alter_consumer_group_offsets([place])[SERVED[0]].result()
            run("backup", "--topics", "kept,half", code=0)
            for done in asked.delete_consumer_groups(SERVED).values():
                done.result()
        clients.wait_for("no leader", lambda: not clients.led(asked, OFFSETS, len(LEADERS)))
        monkeypatch.setattr(raw, "STALL_SECONDS", 3)
        yield HalfStopped(first, run)


def skipped(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["id"], each["what"]) for each in report["left_out"]}


UNSERVED = {("group-coordinator-unavailable", f"group {name}") for name in ORPHANED}


def test_groups_without_coordinator_do_not_stop_others(half_stopped: HalfStopped) -> None:
    """Groups and partitions that cannot be served now are listed; all others are set."""
    expected = UNSERVED | {("partition-unavailable", "group offsets of half-1")}
    assert skipped(half_stopped.run("restore", "--groups-only", "--dry-run", code=3)) == expected
    report = half_stopped.run("restore", "--groups-only", code=3)
    assert skipped(report) == expected
    for name in SERVED:
        also = {("half", 0): 5} if name == SERVED[0] else {}
        assert clients.committed(half_stopped.broker, name) == {("kept", 0): GROUPS.index(name), **also}
    assert {each["group"] for each in report["groups"]} == set(SERVED)


def test_backup_lists_groups_that_no_broker_lists(half_stopped: HalfStopped) -> None:
    report = half_stopped.run("backup", "--topics", "kept", code=3)
    others = {(id_, what) for id_, what in skipped(report) if POSITION_GROUP not in what}
    assert others == {("groups-unlisted", f"groups of {OFFSETS}-1")}


@pytest.mark.long
def test_restore_sets_groups_that_have_a_coordinator(half_stopped: HalfStopped) -> None:
    """The restore's own groups have one; where records exist, earlier restores may be unknown."""
    own = next(
        name
        for name in map(str, range(100))
        if is_served(progress.group(name)) and is_served(progress.plan_group(name))
    )
    report = half_stopped.run("restore", "--topics", "kept:new", "--restore-id", own, code=3)
    assert skipped(report) == UNSERVED
    assert {each["group"] for each in report["groups"]} == set(SERVED)
    assert clients.committed(half_stopped.broker, SERVED[1]) == {("new", 0): GROUPS.index(SERVED[1])}
    report = half_stopped.run("restore", "--topics", "kept", "--append", code=1)
    assert report["error"]["id"] == "group-coordinator-unavailable"
    assert clients.ends(half_stopped.broker, "kept") == [20]


@pytest.mark.parametrize(
    "more",
    [
        ("--append",),
        ("--acls",),
        ("--no-groups",),
        ("--topics", "a:b"),
        ("--from-time", "2026-01-31T18:00:00Z"),
    ],
)
def test_what_is_of_records_is_refused_beside_it(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--bootstrap-server", "127.0.0.1:1", "--store", "file:///nowhere", "--groups-only", *more)
    assert cli.main(["restore", *arguments]) == 2
    said = capsys.readouterr().err
    assert printed(said) == ["option-conflict"]
    assert more[0] in said
