"""Znodes of a snapshot are made to fit the logs on brokers' disks."""

import json
from dataclasses import replace

import pytest
from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, Refused
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder
from aqueduct.recovery.broker_ids.log_comparison import PRODUCER_IDS, sentences
from aqueduct.recovery.zookeeper import brokers
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot
from aqueduct.recovery.zookeeper.topics import DELETIONS, FATE, PRODUCERS, correct_snapshot, kept_deletions
from aqueduct.recovery.zookeeper.znodes import Right, Znode

ACL = (Right(31, "x509", "CN=kafka-old"),)
STATE = {"controller_epoch": 3, "leader": 11, "version": 1, "leader_epoch": 4, "isr": [11, 12]}
PLACE = "/brokers/topics/flights/partitions/0/state"


def snapshot(topic: object = None, state: object = STATE, cluster: str | None = "cluster") -> ZnodeSnapshot:
    contents = {
        "/brokers/topics/flights": topic or {"partitions": {"0": [11, 12]}, "topic_id": "id", "version": 3},
        PLACE: state,
        PRODUCERS: {"version": 1, "broker": 11, "block_start": "2000", "block_end": "2999"},
    }
    znodes = {path: Znode(path, json.dumps(content).encode(), ACL, 7) for path, content in contents.items()}
    return ZnodeSnapshot(number=1, created=0, connect="host:2181", cluster=cluster, zxid=9, znodes=znodes)


def log(end: int = 10, **other: object) -> DiskLog:
    found = DiskLog(
        partition=TopicPartition("flights", 0),
        folder="flights-0",
        stray=False,
        topic_id="id",
        end=end,
        epoch=4,
        bytes=100,
        committed=end,
    )
    return replace(found, **other)  # type: ignore[arg-type]


def hosts(first: DiskLog | None, second: DiskLog | None) -> dict[str, list[Folder]]:
    return {
        f"host-{number}": [
            Folder(path="/data", cluster_id="cluster", node_id=number, logs=(found,) if found else ())
        ]
        for number, found in ((11, first), (12, second))
    }


def state_of(found: ZnodeSnapshot) -> dict[str, object]:
    assert found.znodes[PLACE].acl == ACL
    return dict(json.loads(found.znodes[PLACE].data or b""))


def test_deeply_nested_znode_is_malformed() -> None:
    """Who may write a topic's znode could else end a restore in a traceback."""
    kept = snapshot()
    path = "/brokers/topics/flights"
    deep = {**kept.znodes, path: kept.znodes[path]._replace(data=b"[" * 200_000)}
    with raises(Failed, "znode-malformed", path):
        correct_snapshot(replace(kept, znodes=deep), hosts(log(), log()), ())


def test_deeply_nested_answer_of_ensemble_is_malformed() -> None:
    class Session:
        ensemble = "host:2181"

        def at(self, path: str) -> str:
            return path

        def ask(self, *_: object, **__: object) -> tuple[bytes]:
            return (b"[" * 200_000,)

    with raises(Failed, "znode-malformed", PLACE):
        brokers.znode_content(Session(), PLACE)  # type: ignore[arg-type]


def test_matching_logs_change_only_producer_ids() -> None:
    found, fitted = correct_snapshot(snapshot(), hosts(log(), log()), [])
    assert not found.differs
    assert [*sentences(found, FATE)] == []
    changed = [path for path, each in fitted.znodes.items() if each != snapshot().znodes[path]]
    assert changed == [PRODUCERS]
    block = json.loads(fitted.znodes[PRODUCERS].data or b"")
    assert block == {
        "version": 1,
        "broker": 11,
        "block_start": str(2000 + PRODUCER_IDS),
        "block_end": str(2999 + PRODUCER_IDS),
    }


def test_existing_state_overrides_that_of_snapshot() -> None:
    newer = {PLACE: json.dumps(STATE | {"leader": 12, "leader_epoch": 6, "isr": [12]}).encode()}
    found, fitted = correct_snapshot(snapshot(), hosts(log(), log(30, epoch=6)), [], newer)
    assert (found.corrected, fitted.znodes[PLACE].data) == ((), newer[PLACE])
    for begin, kept in ((5000, False), (PRODUCER_IDS * 3, True)):
        block = json.dumps({"version": 1, "block_start": str(begin), "block_end": str(begin + 999)}).encode()
        _, fitted = correct_snapshot(snapshot(), hosts(log(), log()), [], {PRODUCERS: block})
        assert (fitted.znodes[PRODUCERS].data == block) is kept


def test_foreign_znode_among_topics_stays_unchanged() -> None:
    strange = Znode("/brokers/topics/tooling", None, ACL, 1)
    kept = snapshot()
    _, fitted = correct_snapshot(
        replace(kept, znodes={**kept.znodes, strange.path: strange}), hosts(log(), log()), []
    )
    assert fitted.znodes[strange.path] == strange


def test_furthest_log_leads_in_new_highest_epoch() -> None:
    unclean = STATE | {"leader_recovery_state": 1}
    _, fitted = correct_snapshot(snapshot(state=unclean), hosts(log(), log(30, epoch=9)), [])
    assert state_of(fitted) == STATE | {"leader": 12, "leader_epoch": 10, "isr": [12]}
    _, fitted = correct_snapshot(snapshot(), hosts(log(), None), [])
    assert state_of(fitted) == STATE | {"leader": 11, "leader_epoch": 5, "isr": [11]}


def test_whose_disks_are_lost_leads_nothing() -> None:
    found, fitted = correct_snapshot(snapshot(), {"host-12": hosts(None, log())["host-12"]}, [11])
    assert found.differs
    assert state_of(fitted) == STATE | {"leader": 12, "leader_epoch": 5, "isr": [12]}
    assert found.unseen == ()
    found, _ = correct_snapshot(snapshot(), {"host-12": hosts(None, log())["host-12"]}, [])
    assert found.unseen == (11,)


@pytest.mark.parametrize(("in_znode", "on_disk"), [("", "id"), ("id", ""), ("", "")])
def test_topic_or_log_without_id_matches_by_name(in_znode: str, on_disk: str) -> None:
    topic = {"partitions": {"0": [11, 12]}, "version": 1} | ({"topic_id": in_znode} if in_znode else {})
    found, _ = correct_snapshot(snapshot(topic), hosts(log(topic_id=on_disk), log(topic_id=on_disk)), [])
    assert not found.differs


def test_logs_of_recreated_topic_are_unknown() -> None:
    found, _ = correct_snapshot(snapshot(), hosts(log(topic_id="other"), log(topic_id="other")), [])
    [unknown] = found.unknown
    assert "another topic" in unknown.why
    assert found.empty == (TopicPartition("flights", 0),)


def test_pending_deletion_spares_recreated_topic() -> None:
    whole = snapshot()
    paths = [f"{DELETIONS}/{name}" for name in ("flights", "gone")]
    marks = {path: Znode(path, None, ACL, 7) for path in paths}
    of = replace(whole, znodes=whole.znodes | marks)
    _, fitted = correct_snapshot(of, hosts(log(topic_id="other"), log(topic_id="other")), [])
    assert of.znodes.keys() - fitted.znodes.keys() == {paths[0]}
    assert kept_deletions(of, fitted).startswith("NOT deleted: flights.")
    _, fitted = correct_snapshot(of, hosts(log(), log()), [])
    assert fitted.znodes.keys() == of.znodes.keys()
    assert kept_deletions(of, fitted) == ""


def test_partition_under_creation_has_no_state() -> None:
    whole = snapshot()
    znodes = {path: each for path, each in whole.znodes.items() if path != PLACE}
    found, _ = correct_snapshot(replace(whole, znodes=znodes), hosts(log(), None), [])
    [unknown] = found.unknown
    assert "the partition" in unknown.why
    [sentence] = sentences(found, FATE)
    assert FATE in sentence


def test_what_no_broker_wrote_and_no_cluster_s() -> None:
    of = snapshot()
    for path, content in (
        *((PLACE, content) for content in ("{", "[1]", "{}", '{"isr": 7}', "null")),
        *(("/brokers/topics/flights", content) for content in ("{}", '{"partitions": []}', "7")),
        *((PRODUCERS, content) for content in ("{}", '{"block_start": "x", "block_end": "1"}')),
    ):
        znode = of.znodes[path]._replace(data=content.encode())
        with raises(Failed, "znode-malformed") as failed:
            correct_snapshot(replace(of, znodes={**of.znodes, path: znode}), hosts(log(), log()), [])
        assert path in str(failed.value)
    with raises(Refused, "snapshot-without-cluster"):
        correct_snapshot(snapshot(cluster=None), hosts(log(), log()), [])
    with raises(Refused, "cluster-mismatch", "other"):
        correct_snapshot(snapshot(cluster="other"), hosts(log(), log()), [])
