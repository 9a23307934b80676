"""Groups that no broker lists: ListGroups leaves them out without an error."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kit import clients

from aqueduct import cli
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.acls import Acl, AclChanges
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.client_config import End, load
from aqueduct.kafka.diagnosis import GROUPS, group_partition
from servers import broker as brokers
from servers.broker import Broker

NAMES = [f"readers-{number}" for number in range(8)]
PARTITIONS, DAMAGED = 3, 1
LOST = [name for name in NAMES if group_partition(name, PARTITIONS) == DAMAGED]
LISTED = [name for name in NAMES if name not in LOST]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker that cannot load one partition of `__consumer_offsets`."""
    folder = tmp_path_factory.mktemp("damaged")
    with brokers.running(folder, coordinators=PARTITIONS) as broker:
        clients.create(broker, "kept")
        clients.produce(broker, "kept", range(20))
        for number, name in enumerate(NAMES):
            clients.set_position(broker, name, "kept", number)
        # Kafka lets this client ID write to its own topics. A key has a version of two bytes.
        writer = Producer({"bootstrap.servers": broker.plaintext, "client.id": "__admin_client"})
        writer.produce(GROUPS, key=b"\x00", value=b"", partition=DAMAGED)
        assert writer.flush(clients.SECONDS) == 0
        broker.process.kill()
        broker.process.start()
        clients.wait_for("the log", lambda: clients.ends(broker, "kept") == [20])
        assert None not in clients.all_coordinated(broker, LISTED, "kept", clients.SECONDS)
        yield broker


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "STALL_SECONDS", 3)


def test_partition_that_leader_cannot_load_is_reported(damaged: Broker) -> None:
    with raw.connect(End("source", damaged.plaintext), "test") as client:
        listed = groups.list_groups(client)
        again = groups.list_groups(client, patient=False, silent=[1])
    assert listed.by_name.keys() == set(LISTED)
    assert list(listed.unlisted) == [TopicPartition(GROUPS, DAMAGED)]
    assert "does not coordinate its groups" in listed.unlisted[TopicPartition(GROUPS, DAMAGED)]
    assert (again.by_name, len(again.unlisted)) == ({}, PARTITIONS), "a silent broker is not asked"


def test_backup_lists_groups_that_cannot_be_loaded(damaged: Broker, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    backup = ["backup", "--bootstrap-server", damaged.plaintext, "--store", f"file://{tmp_path}/store"]
    assert cli.main([*backup, "--topics", "kept", "--report", str(report)]) == 3
    missing = {(each["id"], each["what"]) for each in read(report)["left_out"]}
    assert ("groups-unlisted", f"groups of {GROUPS}-{DAMAGED}") in missing


def test_lag_of_unlisted_groups_is_unknown(damaged: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--group", LISTED[0], "--group", LOST[0]]
    assert cli.main(["groups", "--bootstrap-server", damaged.plaintext, "--json", *asked]) == 3
    unknown = json.loads(capsys.readouterr().out)["unknown"]
    assert {(each["id"], each["what"]) for each in unknown} == {
        ("groups-unlisted", f"{GROUPS}-{DAMAGED}"),
        ("group-unknown", f"group {LOST[0]}"),
    }


def test_client_of_one_group_gets_this_group(damaged: Broker) -> None:
    """It may not ask the leaders for other groups."""
    name = clients.unique("watcher")
    granted = [
        Acl(principal=f"User:CN={name}", resource=resource, name=of, pattern="literal", operation="describe")
        for resource, of in (("group", LISTED[0]), ("topic", GROUPS))
    ]
    with raw.connect(End("cluster", damaged.plaintext), "test") as client:
        apply_acls(client, AclChanges(granted, ()))
    own = End("cluster", damaged.tls, load(damaged.authority.client_config(name)))

    def listed() -> groups.ListedGroups:
        with raw.connect(own, "test") as client:
            return groups.list_groups(client)

    clients.wait_for("the ACLs", lambda: listed().by_name.keys() == {LISTED[0]} and listed().checked)
    assert listed().unlisted == {}


def read(report: Path) -> dict[str, Any]:
    return dict(json.loads(report.read_text()))
