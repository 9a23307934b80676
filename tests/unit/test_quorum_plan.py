"""What metadata don't know of the logs on brokers' disks, and with what a new quorum begins."""

import struct
from dataclasses import replace

import pytest
from kit.identifiers import raises
from kit.quorum_metadata import BOTH, ID, OTHER, STATE, log, metadata, topic_record

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder
from aqueduct.recovery.quorum import plan
from aqueduct.recovery.quorum.records import PartitionState, producer_ids_record


def change_record(number: int, *tags: tuple[int, bytes]) -> bytes:
    fields = b"".join(bytes((tag, len(value))) + value for tag, value in tags)
    return bytes((1, 5, 1)) + struct.pack(">i", number) + bytes([1] * 16) + bytes([len(tags)]) + fields


def nodes(*ids: int) -> bytes:
    return bytes([len(ids) + 1]) + struct.pack(f">{len(ids)}i", *ids)


def planned(first: list[DiskLog], second: list[DiskLog] | None, *more: bytes) -> plan.QuorumPlan:
    """Plan with the logs of broker 1, and of broker 2 unless it was not looked at."""
    hosts = {"one": [Folder(path="/data", cluster_id="cluster", node_id=1, logs=tuple(first))]}
    if second is not None:
        hosts["two"] = [Folder(path="/data", cluster_id="cluster", node_id=2, logs=tuple(second))]
    return plan.plan(metadata(*more), hosts)


def said(found: plan.QuorumPlan) -> str:
    return "\n".join(plan.sentences(found)[1:])


def test_logs_as_the_metadata_know_them_need_nothing() -> None:
    found = planned(BOTH, BOTH)
    assert (found.comparison.differs, found.comparison.corrected, said(found)) == (False, (), "")


@pytest.mark.parametrize(
    ("strange", "facts"),
    [
        (
            log(2),
            [f"NOT known: flights-2 (topic id {ID})", "do not have the partition", "1 log on one"],
        ),
        (
            log(0, topic_id=OTHER),
            ["NOT known: flights-0", "another topic", "1 log on one, up to offset 10"],
        ),
        (
            log(partition=TopicPartition("later", 0), topic_id=OTHER),
            [f"NOT known: later-0 (topic id {OTHER})", "do not have the topic", "1 log on one"],
        ),
        (
            log(partition=TopicPartition("older", 0), topic_id=""),
            ["NOT known: older-0 (topic id none)", "do not have the topic"],
        ),
        (
            log(partition=TopicPartition("__consumer_offsets", 0), topic_id=OTHER),
            ["committed offsets", "`aqueduct restore --groups-only`"],
        ),
    ],
)
def test_log_unknown_to_metadata_is_reported(strange: DiskLog, facts: list[str]) -> None:
    found = planned([*BOTH, strange], BOTH)
    assert found.comparison.differs
    assert [fact for fact in facts if fact not in said(found)] == []


def test_what_is_not_there_is_named() -> None:
    assert said(planned([log(0)], [log(0)])).startswith("EMPTY: flights-1.")
    found = planned(BOTH, None)
    assert found.comparison.differs
    assert said(found).startswith("NOT inspected: brokers 2.")
    damaged = log(1, damage="it is cut")
    assert "DAMAGED: flights-1 on two: it is cut" in said(planned(BOTH, [log(0), damaged]))
    assert said(planned([*BOTH, log(7, stray=True)], BOTH)) == "Already set aside and left unchanged: 1 log."


def state_of(found: plan.QuorumPlan, number: int) -> PartitionState:
    """Return how a partition begins, as the records of the new log have it."""
    return found.seed().image.topics[ID].partitions[number]


def test_newer_epoch_on_disk_raises_leader_epoch() -> None:
    found = planned([log(0), log(1, epoch=7)], BOTH)
    assert not found.comparison.differs
    assert said(found) == "Broker 1 has the longest logs and becomes leader of: flights-1."
    assert state_of(found, 0) == STATE
    assert state_of(found, 1) == replace(STATE, in_sync=(1,), leader=1, leader_epoch=8, epoch=10)


def test_replica_with_shorter_log_leaves_isr() -> None:
    found = planned(BOTH, [log(0), log(1, end=20)])
    assert not found.comparison.differs, "nothing is lost"
    assert said(found).startswith("Broker 2 has the longest logs and becomes leader of: flights-1. ")
    assert "in sync, but their logs differ: 1." in said(found)
    assert state_of(found, 1) == replace(STATE, in_sync=(2,), leader=2, leader_epoch=5, epoch=10)
    # One that goes on in an older epoch would have the other one cut off what is of a newer (KIP-101).
    diverged = planned([log(0), log(1, end=12, epoch=3, committed=9)], BOTH).comparison.corrected
    assert [(each.leader, each.lacking) for each in diverged] == [(2, (1,))]
    # A broker that was killed had not written down what was committed last.
    assert (
        planned(BOTH, [log(0), log(1, end=20, committed=10)]).comparison.corrected
        == found.comparison.corrected
    )
    # Who was not in sync any more may lack it.
    out = change_record(1, (0, nodes(2)), (1, struct.pack(">i", 2)))
    assert planned(BOTH, [log(0), log(1, end=20)], out).comparison.corrected == ()


@pytest.mark.parametrize("damage", ["it is cut", ""])
def test_furthest_log_leads_even_if_damaged(damage: str) -> None:
    """A follower that ends before would have it cut off what is whole."""
    found = planned(BOTH, [log(0), log(1, end=30, damage=damage, committed=40)])
    assert [(each.leader, each.lacking) for each in found.comparison.corrected] == [(2, (1,))]
    whole = planned([log(0), log(1, end=30)], [log(0), log(1, end=30, damage="it is cut")])
    assert whole.comparison.corrected == ()
    assert [each.damage for _, each in whole.comparison.damaged] == ["it is cut"]
    led = planned([log(0), log(1, end=30, epoch=7)], [log(0), log(1, end=30, epoch=7, damage="it is cut")])
    assert [each.leader for each in led.comparison.corrected] == [1]


@pytest.mark.parametrize("furthest_first", [True, False])
def test_broker_with_duplicate_logs_uses_longer_one(
    furthest_first: bool,
) -> None:
    both = [log(1, end=30), log(1, end=5)]
    found = planned([log(0), *(both if furthest_first else reversed(both))], BOTH)
    assert [(each.leader, each.lacking) for each in found.comparison.corrected] == [(1, (2,))]
    assert "DAMAGED: flights-1 on one: another folder of the broker's log.dirs" in said(found)


def test_broker_with_lost_disk_does_not_lead() -> None:
    """It would come back empty, and all others would cut off what they have."""
    logs = {"one": [Folder(path="/data", cluster_id="cluster", node_id=1, logs=(log(0), log(1)))]}
    found = plan.plan(metadata(), logs, [2])
    assert found.comparison.differs
    assert "Broker 1 has the longest logs and becomes leader of: flights-0, flights-1. " in said(found)
    assert "in sync, but their logs differ: 2." in said(found)
    assert state_of(found, 1) == replace(STATE, in_sync=(1,), leader=1, leader_epoch=5, epoch=10)
    assert "LOST: the disks of brokers 2." in said(found)
    assert said(plan.plan(metadata(), {}, [1, 2])).startswith("EMPTY: flights-0, flights-1.")
    with raises(Refused, "lost-broker-has-logs"):
        plan.plan(metadata(), logs, [1])


def test_new_metadata_log_has_unused_epoch() -> None:
    """Who has more of the old log, by epoch first, would else lead (KIP-595)."""
    begun, before = planned(BOTH, BOTH).seed(), metadata()
    assert begun.end_epoch - before.end_epoch == plan.EPOCHS
    assert begun.end == before.end + 1


def test_all_controllers_get_log_of_interrupted_run() -> None:
    logs = {"one": [Folder(path="/data", cluster_id="cluster", node_id=1, logs=(log(0), log(1, epoch=7)))]}
    begun = plan.plan(metadata(), logs).seed()
    assert plan.plan(begun, logs).seed() == begun
    led = begun.with_records([bytes((1, 20, 0, 0))], begun.end_epoch + 1)
    assert plan.plan(led, logs).seed().end == led.end + 1


def test_records_are_replayed_as_a_controller_does() -> None:
    more = (
        change_record(0, (0, nodes(2)), (1, struct.pack(">i", 2)), (2, nodes(2, 3)), (8, b"\x01")),
        topic_record("gone", 2),
        bytes((1, 9, 0)) + bytes([2] * 16) + b"\0",
        producer_ids_record(5000),
        bytes((1, 20, 0, 0)),  # one that says nothing
    )
    image = metadata(*more).image
    assert [each.name for each in image.topics.values()] == ["flights"]
    assert image.topics[ID].partitions[1] == STATE
    assert image.topics[ID].partitions[0] == replace(
        STATE, replicas=(2, 3), in_sync=(2,), leader=2, leader_epoch=5, epoch=10, directories=()
    )
    assert planned(BOTH, BOTH, *more).seed().image.next_producer_id == 5000 + plan.PRODUCER_IDS


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (bytes((1, 3, 9)) + bytes(40), "type 3 .*version 9\\b"),
        (bytes((2, 2, 0)) + bytes(40), "type 2 .*version 0\\b"),
        (bytes((1, 3, 1, 0)), "offset 0\\b"),
        (change_record(7), "offset 0\\b"),
        (b"", "offset 0\\b"),
    ],
)
def test_unreadable_metadata_record_counts_as_damage(record: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _ = metadata(record).image


def test_folders_of_another_cluster_are_refused() -> None:
    with raises(Refused, "cluster-mismatch", "/data", "one", "other"):
        plan.plan(metadata(), {"one": [Folder(path="/data", cluster_id="other", node_id=1, logs=())]})
