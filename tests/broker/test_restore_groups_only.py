"""`aqueduct restore --groups-only`: positions that are gone, in a cluster that has all its records."""

import json
from pathlib import Path

import clients
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from identifiers import printed

from aqueduct import cli
from servers.broker import Broker


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    place = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    asked = clients.admin(broker)

    def committed() -> bool:  # a coordinator that still loads says so for the partition
        asked.alter_consumer_group_offsets([place])[group].result()
        return clients.committed(broker, group).get((topic, 0)) == offset

    clients.wait_for("the position", committed)


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
        commit(broker, group, topic, offset)
    store = f"file://{tmp_path}/store"
    asked = ("--bootstrap-servers", broker.plaintext, "--store", store)
    assert cli.main(["backup", *asked, "--topics", f"{kept},{again}"]) == 0
    admin = clients.admin(broker)
    for done in admin.delete_consumer_groups([lost, deleted, live]).values():
        done.result()
    commit(broker, here, kept, 9)
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
    arguments = ("--bootstrap-servers", "127.0.0.1:1", "--store", "file:///nowhere", "--groups-only", *more)
    assert cli.main(["restore", *arguments]) == 2
    said = capsys.readouterr().err
    assert printed(said) == ["option-conflict"]
    assert more[0] in said
