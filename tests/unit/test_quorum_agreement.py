"""The plan of a confirmed run beside the one that was read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kit.quorum_metadata import BOTH, log, metadata, topic_record

from aqueduct.cli import quorum as command
from aqueduct.common import strict_json
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder
from aqueduct.recovery.quorum import plan
from aqueduct.recovery.quorum.agreement import ReadPlan, changes, read_plan

LATER = log(partition=TopicPartition("later", 0), topic_id="")


def planned(
    first: Sequence[DiskLog], second: Sequence[DiskLog] | None = BOTH, lost: Sequence[int] = (), *more: bytes
) -> plan.QuorumPlan:
    hosts = {"one": [Folder(path="/data", cluster_id="cluster", node_id=1, logs=tuple(first))]}
    if second is not None:
        hosts["two"] = [Folder(path="/data", cluster_id="cluster", node_id=2, logs=tuple(second))]
    return plan.plan(metadata(*more), hosts, lost)


def after_file(read: ReadPlan) -> ReadPlan:
    return strict_json.loads(ReadPlan, strict_json.dumps(read))


@pytest.mark.parametrize(
    ("now", "change", "fact"),
    [
        (planned([*BOTH, LATER]), "New since", "later-0"),
        (planned([log(0)], [log(0)]), "New since", "flights-1"),
        (planned([log(0), log(1, damage="it is cut")]), "New since", "flights-1 on one"),
        (planned(BOTH, None, [2]), "New since", "broker 2 are lost"),
        (planned(BOTH, None), "New since", "broker 2"),
        (planned([log(0, 9), log(1)], [log(0, 9), log(1)]), "logs", "flights-0"),
        (planned(BOTH, BOTH, (), topic_record("more", 2)), "metadata", "offset 4 of epoch 3"),
    ],
)
def test_plan_with_additional_losses_counts_as_change(now: plan.QuorumPlan, change: str, fact: str) -> None:
    lines = changes(after_file(read_plan(planned(BOTH))), now)
    assert len([line for line in lines if change in line and fact in line]) == 1
    assert changes(after_file(read_plan(now)), now) == []


def test_writes_between_both_plans_are_no_change() -> None:
    """Nor is a loss that has gone: a log that was read while its broker wrote seems damaged."""
    read = read_plan(planned([log(0), log(1, damage="it is cut")]))
    assert changes(read, planned([log(0, 12), log(1, 15)])) == []


def test_interrupted_run_continues_without_plan_change() -> None:
    read, begun = read_plan(planned(BOTH)), planned(BOTH).seed()
    hosts = {"one": [Folder(path="/data", cluster_id="cluster", node_id=1, logs=tuple(BOTH))]}
    again = plan.plan(
        begun, hosts | {"two": [Folder(path="/data", cluster_id="cluster", node_id=2, logs=tuple(BOTH))]}
    )
    assert changes(read, again) == []
    assert any("broker 2" in each for each in changes(read, plan.plan(begun, hosts)))


def test_plan_of_another_cluster_is_a_change() -> None:
    read = replace(read_plan(planned(BOTH)), cluster="other")
    assert any("cluster other" in each for each in changes(read, planned(BOTH)))


def test_file_that_is_no_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    command._compare(file, planned(BOTH))
    assert capsys.readouterr().out, "a note that no plan was compared"
    for content in ("{", '{"cluster": 1}', "[]"):
        file.write_text(content)
        with pytest.raises(Refused) as caught:
            command._compare(file, planned(BOTH))
        assert caught.value.id == "quorum-plan-unreadable"
    command._write(file, strict_json.dumps(read_plan(planned(BOTH))).decode())
    command._compare(file, planned(BOTH))
    with pytest.raises(Refused) as caught:
        command._compare(file, planned(BOTH, None))
    assert caught.value.id == "quorum-plan-changed"
