"""The plan of a repair that was read, and the plan of the confirmed run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.common import strict_json
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.admin.features import FeaturesPlanUnreadable, ReadFeatures, plan_changes
from aqueduct.kafka.cluster import Cluster, Partition, Quorum
from aqueduct.recovery import read_plan
from aqueduct.recovery.broker_ids.agreement import (
    ReadRepair,
    RepairPlanChanged,
    RepairPlanUnreadable,
    changes,
    read_repair,
)
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder
from aqueduct.recovery.broker_ids.plan import RepairPlan, plan

Hosts = Mapping[str, Sequence[Folder]]


def cluster(*partitions: Partition) -> Cluster:
    return Cluster(
        cluster_id="C",
        brokers=frozenset({1, 12, 13}),
        fenced=frozenset(),
        partitions=partitions,
        quorum=Quorum(1, {1: 0}, {}),
    )


def part(topic: str, leader: int | None, *replicas: int) -> Partition:
    return Partition(
        topic=topic, number=0, leader=leader, replicas=replicas, in_sync=(leader,) if leader else ()
    )


def log(topic: str, end: int, damage: str = "") -> DiskLog:
    return DiskLog(
        partition=TopicPartition(topic, 0),
        folder=f"{topic}-0",
        stray=False,
        topic_id="",
        end=end,
        epoch=0,
        bytes=end * 10,
        damage=damage,
    )


def folder(node_id: int, *logs: DiskLog) -> list[Folder]:
    return [Folder(path="/data", cluster_id="C", node_id=node_id, logs=logs)]


BOTH = cluster(part("a", None, 2), part("b", None, 3))
LOGS = {"x": folder(12, log("a", 9)), "y": folder(13, log("b", 9))}


def planned(state: Cluster, hosts: Hosts) -> tuple[ReadRepair, RepairPlan]:
    repair = plan(state, hosts)
    return read_repair(state.cluster_id, repair, hosts), repair


def differences(read: ReadRepair, state: Cluster, hosts: Hosts) -> list[str]:
    now, repair = planned(state, hosts)
    return changes(read, now, repair.lead)


def test_same_or_partly_executed_plan_is_accepted() -> None:
    read, _ = planned(BOTH, LOGS)
    assert differences(read, BOTH, LOGS) == []
    assert differences(read, cluster(part("a", 12, 12), part("b", None, 3)), LOGS) == []
    assert differences(read, BOTH, {"x": folder(12, log("a", 10)), "y": LOGS["y"]}) == []


@pytest.mark.parametrize(
    ("state", "hosts"),
    [
        (cluster(part("a", None, 2), part("b", None, 3), part("c", None, 2)), LOGS),  # nobody leads one more
        (BOTH, {"x": folder(12, log("a", 8)), "y": LOGS["y"]}),  # a log is shorter
        (BOTH, {"x": folder(12, log("a", 9, "it is cut")), "y": LOGS["y"]}),
        (BOTH, {"x": folder(13, log("a", 9)), "y": folder(12, log("b", 9))}),  # other ids
    ],
)
def test_plan_that_repairs_or_loses_more_is_changed(state: Cluster, hosts: Hosts) -> None:
    read, _ = planned(BOTH, LOGS)
    assert differences(read, state, hosts)


def test_plan_of_another_cluster_is_changed() -> None:
    read, repair = planned(BOTH, LOGS)
    assert len(changes(replace(read, cluster="D"), read, repair.lead)) == 1


def test_stored_plan_is_read_and_changed_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert read_plan.load(ReadRepair, file, unreadable=RepairPlanUnreadable) is None
    plan_now, _ = planned(BOTH, LOGS)
    file.write_bytes(strict_json.dumps(plan_now))
    assert read_plan.load(ReadRepair, file, unreadable=RepairPlanUnreadable) == plan_now
    read_plan.refuse([], changed=RepairPlanChanged)
    with raises(RepairPlanChanged, "repair-plan-changed"):
        read_plan.refuse(["A lost folder."], changed=RepairPlanChanged)
    file.write_text("{")
    with raises(RepairPlanUnreadable, "repair-plan-unreadable"):
        read_plan.load(ReadRepair, file, unreadable=RepairPlanUnreadable)


def test_levels_of_features_are_those_that_were_shown(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"raised": {"metadata.version": 25, "group.version": 1}}')  # as the role writes it
    read = read_plan.load(ReadFeatures, file, unreadable=FeaturesPlanUnreadable)
    assert read is not None
    assert plan_changes(read, {"metadata.version": 25, "group.version": 1}) == []
    assert plan_changes(read, {"group.version": 1}) == []  # an interrupted run has raised the other one
    assert len(plan_changes(read, {"metadata.version": 26, "share.version": 1})) == 2
