"""The workers that share a flow, as the target's group coordinator describes them; and a look at it."""

import re
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kit.identifiers import printed

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.cluster import Partition
from aqueduct.mirror import status as flow_status
from aqueduct.mirror.engine import reading
from aqueduct.mirror.engine.names import member_host, member_id
from aqueduct.mirror.engine.position import SILENT_SECONDS, TaskStatus, parse_status
from aqueduct.mirror.engine.reading import (
    BatchesReader,
    FlowWorker,
    assigned_tasks,
    flow_tasks,
    taken_findings,
)


def test_tasks_are_partitions_of_the_assignment() -> None:
    # Version 0, one topic with partitions 2 and 0, and no user data.
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\2\0\0\0\0" + b"\xff\xff\xff\xff"
    assert assigned_tasks(assignment) == (0, 2)


def test_member_without_assignment_stands_by() -> None:
    assert assigned_tasks(b"") == ()
    assert assigned_tasks(b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff") == ()
    assert str(FlowWorker("lake-1", ())) == "lake-1 (on standby)"
    assert str(FlowWorker("lake-1", (0, 2))) == "lake-1 (tasks 0, 2)"


def test_member_host_is_read_from_client_id() -> None:
    assert member_host(member_id("pro1", "lake-1.example.com")) == "lake-1.example.com"
    assert member_host("another") == ""


def status(number: int, *, alone: bool, seconds: float) -> dict[int, TaskStatus]:
    return {number: TaskStatus(time=int(seconds * 1000), host="lake-1", alone=alone)}


def test_unshared_task_is_listed_while_status_is_recent() -> None:
    statuses = status(0, alone=False, seconds=1000) | status(1, alone=True, seconds=1000)
    [finding] = taken_findings("pro1", statuses, 1000 + SILENT_SECONDS)
    assert finding.startswith("[mirror-task-taken]")
    assert taken_findings("pro1", statuses, 1001 + SILENT_SECONDS) == []


def test_task_runs_while_it_reports() -> None:
    statuses = status(0, alone=False, seconds=1000)
    [running, absent] = flow_tasks(2, statuses, 1000 + SILENT_SECONDS)
    assert (running.is_running, running.worker) == (True, "lake-1")
    assert (absent.is_running, absent.worker) == (False, "")
    [silent] = flow_tasks(1, statuses, 1001 + SILENT_SECONDS)
    assert (silent.is_running, silent.worker) == (False, "lake-1")


def test_status_in_older_format_counts_as_shared() -> None:
    assert parse_status(b'{"task":0}', b'{"time":1,"host":"h","refused":[],"refused_count":0}') == (
        0,
        TaskStatus(time=1, host="h"),
    )


def test_source_partition_without_leader_has_unknown_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """No one can be asked for its end, so its records may wait: the flow is not caught up."""
    partitions = tuple(
        Partition(topic="t", number=number, leader=leader, replicas=(1,), in_sync=(1,))
        for number, leader in ((0, 1), (1, None))
    )
    topics = {
        "t": Topic(id=None, name="t", partitions=partitions),
        "other": Topic(id=None, name="other", partitions=partitions[1:]),  # not mirrored
    }
    client = cast(
        Client, SimpleNamespace(end=SimpleNamespace(bootstrap_servers="h:1"), topics=lambda: topics)
    )

    def asked(_: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    monkeypatch.setattr(reading, "offsets", SimpleNamespace(log_starts=asked, ends=asked))
    reader = BatchesReader("pro1", re.compile("t"), client, client)
    running = {0: TaskStatus(time=int(time.time() * 1000), host="lake-1")}
    monkeypatch.setattr(reader, "_read", lambda: (1, running, []))
    monkeypatch.setattr(reader, "workers", list)
    findings, progress = reader.look()
    assert printed("\n".join(f"aqueduct: {finding}" for finding in findings)) == ["mirror-partition-hidden"]
    assert "t-1" in findings[0]
    assert reader.hidden == [TopicPartition("t", 1)]
    entries: list[dict[str, Any]] = flow_status.report(findings, progress, [], [], hidden=reader.hidden)[
        "partitions"
    ]
    assert [(entry["partition"], entry["behind"]) for entry in entries] == [(0, 0), (1, None)]
