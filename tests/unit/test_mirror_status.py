import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import printed

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.mirror import status
from aqueduct.mirror.status import Log, MirrorProgress, MirrorStatus, Tasks, WorkersGroup

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b-c", 0)
SOURCE = status.SOURCE_CONNECTOR

# As Kafka 4.3.1's MirrorMaker wrote them, with secrets and dull properties left out.
STATUSES = {
    b"status-topic-flights:connector-MirrorSourceConnector": b'{"topic":{"name":"flights","task":1}}',
    b"status-connector-MirrorSourceConnector": (
        b'{"state":"RUNNING","trace":null,"worker_id":"10.0.0.1:8083/pro1->lake","generation":5}'
    ),
    b"status-task-MirrorSourceConnector-11": (
        b'{"state":"FAILED","trace":"org.apache.kafka.X: no\\n\\tat a.b.C","worker_id":"h2:8083/pro1->lake"}'
    ),
}
CONFIGS = {
    b"session-key": b'{"key":"secret"}',
    b"connector-MirrorSourceConnector": b'{"properties":{"topics":"a,b"}}',
    b"task-MirrorSourceConnector-0": b'{"properties":{"task.assigned.partitions":"a-0,b-c-0"}}',
    b"task-MirrorSourceConnector-1": b'{"properties":{"task.assigned.partitions":"a-1"}}',
    b"task-MirrorSourceConnector-2": b'{"properties":{"task.assigned.partitions":"left-0"}}',
    b"task-MirrorHeartbeatConnector-0": b'{"properties":{}}',
    b"commit-MirrorSourceConnector": b'{"tasks":2}',
    b"commit-MirrorHeartbeatConnector": b'{"tasks":1}',
    b"commit-MirrorCheckpointConnector": b'{"tasks":0}',
    b"tasks-fencing-MirrorSourceConnector": b'{"task-count":2}',
}
# The beginning of a member's metadata, version 2, from a running worker.
MEMBER = b"\x00\x02\x00\x17http://127.0.0.1:43535/\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\xca\x00\x02"


def test_statuses_are_those_of_connectors_and_tasks() -> None:
    others = {b"\xff": b"", b"status-task-MirrorSourceConnector-x": b"{}", b"status-task-": b"{}"}
    assert status.parse_statuses(others | STATUSES) == [
        MirrorStatus(connector=SOURCE, task=None, state="RUNNING", worker="10.0.0.1:8083", trace=""),
        MirrorStatus(
            connector=SOURCE, task=11, state="FAILED", worker="h2:8083", trace="org.apache.kafka.X: no"
        ),
    ]


UNREADABLE = [b"", b"\xff", b"null", b"[]", b"1", b"[" * 100_000, b"{}"]


@pytest.mark.parametrize("value", UNREADABLE)
def test_unreadable_connector_status_counts_as_missing(value: bytes) -> None:
    statuses = status.parse_statuses(STATUSES | {b"status-connector-MirrorSourceConnector": value})
    assert {each.task: each.state for each in statuses}.get(None) != "RUNNING"
    assert (11, "FAILED") in {(each.task, each.state) for each in statuses}


@pytest.mark.parametrize("value", [*UNREADABLE, b'{"tasks":"x","properties":1}', b'{"tasks":-1}'])
@pytest.mark.parametrize("key", [key for key in CONFIGS if key.endswith(b"MirrorSourceConnector")])
def test_tasks_of_unreadable_records_are_refused(key: bytes, value: bytes) -> None:
    if key.startswith(b"tasks-fencing"):
        assert status.parse_tasks(CONFIGS | {key: value}) == status.parse_tasks(CONFIGS)
        return
    with pytest.raises(Failed) as refused:
        status.parse_tasks(CONFIGS | {key: value})
    assert refused.value.id == "mirror-state-unreadable"
    assert key.decode() in str(refused.value)


@pytest.mark.parametrize("metadata", [b"", b"\x00\x02\xff\xff", b"\x00\x02\x7f\xff\xff", b"\x00"])
def test_member_with_unreadable_metadata_has_no_address(metadata: bytes) -> None:
    assert status.parse_worker(metadata) == ""


@pytest.mark.parametrize(
    ("group", "running"),
    [
        (WorkersGroup("Stable", frozenset({"h1:8083", "h2:8083"})), {0}),
        (WorkersGroup("Stable", frozenset({"h2:8083"})), set()),
        (WorkersGroup("PreparingRebalance", frozenset()), set()),
        (WorkersGroup("Dead", frozenset()), set()),
    ],
)
def test_task_runs_only_while_worker_is_in_group(group: WorkersGroup, running: set[int]) -> None:
    statuses = [
        MirrorStatus(connector=SOURCE, task=0, state="RUNNING", worker="h1:8083", trace=""),
        MirrorStatus(connector=SOURCE, task=1, state="FAILED", worker="h2:8083", trace="x"),
    ]
    tasks = status.flow_tasks(group, statuses, Tasks(counts={SOURCE: 3}, partitions=frozenset()))
    assert [task.worker for task in tasks] == ["h1:8083", "h2:8083", ""]
    assert {number for number, task in enumerate(tasks) if task.is_running} == running


def test_tasks_that_are_not_known_are_null() -> None:
    assert status.tasks_report(None) is None
    assert status.tasks_report([]) == []


def test_tasks_are_the_committed_ones_with_their_partitions() -> None:
    tasks = status.parse_tasks(CONFIGS)
    assert tasks.patterns == ("a", "b")
    assert tasks.counts == {SOURCE: 2, "MirrorHeartbeatConnector": 1, "MirrorCheckpointConnector": 0}
    assert tasks.partitions == {A0, A1, B0}


def test_worker_is_identified_by_host_and_port() -> None:
    assert status.parse_worker(MEMBER) == "127.0.0.1:43535"


names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
partitions = st.sets(st.builds(TopicPartition, names, st.integers(0, 999)))


@given(st.lists(partitions, max_size=4))
def test_any_legal_topic_name_survives_the_task_configuration(tasks: list[set[TopicPartition]]) -> None:
    records = {b"commit-MirrorSourceConnector": json.dumps({"tasks": len(tasks)}).encode()}
    for number, assigned in enumerate(tasks):
        properties = {"task.assigned.partitions": ",".join(map(str, assigned))}
        records[f"task-{SOURCE}-{number}".encode()] = json.dumps({"properties": properties}).encode()
    assert status.parse_tasks(records).partitions == set().union(*tasks)


ALIVE = WorkersGroup("Stable", frozenset({"h1:1", "h2:2"}))
TASKS = Tasks(counts={SOURCE: 2, "MirrorCheckpointConnector": 0}, partitions=frozenset({A0}))


def running(worker: str = "h1:1") -> list[MirrorStatus]:
    return [
        MirrorStatus(
            connector="MirrorCheckpointConnector", task=None, state="RUNNING", worker=worker, trace=""
        ),
        *(
            MirrorStatus(connector=SOURCE, task=task, state="RUNNING", worker=worker, trace="")
            for task in (None, 0, 1)
        ),
    ]


def test_all_tasks_running_on_live_workers_is_well() -> None:
    assert status.task_findings("pro1", ALIVE, running(), TASKS) == []


def test_task_on_missing_worker_is_reported() -> None:
    statuses = [
        *running()[:-1],
        MirrorStatus(connector=SOURCE, task=1, state="RUNNING", worker="h3:3", trace=""),
    ]
    [sentence] = status.task_findings("pro1", ALIVE, statuses, TASKS)
    assert sentence.startswith(
        f"[mirror-worker-gone] Task 1 of {SOURCE} does not run, because its worker h3:3 does not run "
        "(running workers: h1:1, h2:2)"
    )


@pytest.mark.parametrize("state", ["FAILED", "PAUSED", "STOPPED", "UNASSIGNED", "RESTARTING"])
def test_task_not_running_is_reported_with_reason(state: str) -> None:
    statuses = [
        *running()[:-1],
        MirrorStatus(connector=SOURCE, task=1, state=state, worker="h2:2", trace="KafkaException: why"),
    ]
    [sentence] = status.task_findings("pro1", ALIVE, statuses, TASKS)
    assert sentence.startswith(
        f"[mirror-task-not-running] Task 1 of {SOURCE} is in state {state} on h2:2 (KafkaException: why)"
    )
    assert "mirror_maker@pro1" in sentence


def test_missing_task_or_connector_is_reported() -> None:
    found = status.task_findings("pro1", ALIVE, running()[:2], TASKS)
    assert [sentence.partition(" has ")[0] for sentence in found] == [
        f"[mirror-task-missing] Task 0 of {SOURCE}",
        f"[mirror-task-missing] Task 1 of {SOURCE}",
    ]
    assert status.task_findings("pro1", ALIVE, running()[1:], TASKS)


@pytest.mark.parametrize(
    ("group", "said"),
    [("Empty", "No worker"), ("Dead", "No worker"), ("PreparingRebalance", "are rebalancing")],
)
def test_without_a_stable_group_no_state_counts(group: str, said: str) -> None:
    [sentence] = status.task_findings("pro1", WorkersGroup(group, frozenset()), running(), TASKS)
    assert said in sentence


def test_findings_distinguish_absent_mirror_from_one_without_topics() -> None:
    [never] = status.task_findings(
        "pro1", WorkersGroup("Dead", frozenset()), [], Tasks(counts={}, partitions=frozenset())
    )
    assert "no state of a mirror from pro1" in never
    statuses = [MirrorStatus(connector=SOURCE, task=None, state="RUNNING", worker="h1:1", trace="")]
    [idle] = status.task_findings("pro1", ALIVE, statuses, Tasks(counts={SOURCE: 0}, partitions=frozenset()))
    assert "has no task, because no topic of pro1 matches" in idle


@pytest.mark.parametrize(
    ("position", "log", "drained", "behind", "gone", "recreated"),
    [
        (10, Log(0, 10), False, 0, 0, False),
        (10, Log(0, 25), False, 15, 0, False),
        (10, Log(0, 11), True, 0, 0, False),  # only the marker of a transaction is left
        (10, Log(10, 10), False, 0, 0, False),
        (10, Log(15, 25), False, 10, 5, False),
        (10, Log(25, 25), False, 0, 15, False),
        (10, Log(0, 4), False, 4, 0, True),
        (10, Log(0, 0), False, 0, 0, False),  # made again, but nothing is in it yet
    ],
)
def test_how_far_a_partition_is(
    position: int, log: Log, drained: bool, behind: int, gone: int, recreated: bool
) -> None:
    progress = MirrorProgress(partition=A0, next=position, log=log, drained=drained)
    assert (progress.behind, progress.gone, progress.recreated) == (behind, gone, recreated)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_each_offset_is_mirrored_lost_or_pending(position: int, start: int, length: int) -> None:
    progress = MirrorProgress(partition=A0, next=position, log=Log(start, start + length), drained=False)
    if position <= progress.log.end:
        assert position + progress.gone + progress.behind == progress.log.end
    assert progress.behind <= length


def test_each_trouble_with_a_log_has_its_sentence() -> None:
    progress = [
        MirrorProgress(partition=A0, next=10, log=Log(15, 25), drained=False),
        MirrorProgress(partition=A1, next=10, log=Log(0, 4), drained=False),
        MirrorProgress(partition=B0, next=3, log=Log(0, 3), drained=False),
    ]
    hidden = TopicPartition("d", 0)
    assert status.hidden_partitions([A0, A1, B0, hidden], progress) == [hidden]
    assert ["d-0" in each for each in status.hidden_findings("pro1", [hidden])] == [True]
    [recreated] = status.recreated_findings("pro1", progress)
    assert "a-1 (position 10, end of the log 4)" in recreated
    [loss] = status.loss_findings("pro1", progress)
    assert "a-0 (5 offsets from 10)" in loss
    assert status.lag_findings(progress) == [
        "[mirror-behind] Not caught up: a-0 (10 records), a-1 (4 records)."
    ]
    caught_up = progress[2:]
    assert status.hidden_partitions([B0], caught_up) == []
    assert status.hidden_findings("pro1", []) == []
    assert status.recreated_findings("pro1", caught_up) == []
    assert status.loss_findings("pro1", caught_up) == []
    assert status.lag_findings(caught_up) == []


def test_groups_of_mismatched_topics_are_reported_unchecked() -> None:
    """MirrorMaker translates their offsets by a topic's name, and keeps no id beside them."""
    [sentence] = status.unknown_groups("pro1", {"b", "a"})
    assert printed(f"aqueduct: {sentence}") == ["synchronised-groups-unchecked"]
    assert "of a, b were" in sentence
    assert status.unknown_groups("pro1", []) == []
