"""What ends all tasks of a process, what it reports of one, and when it looks at topics again."""

import re
import socket
from dataclasses import replace

import pytest
from kafka.errors import TopicAuthorizationFailedError

from aqueduct.errors import Failed
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import Fenced
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.flow import MirrorOrder
from aqueduct.mirror.engine.membership import consumer_settings
from aqueduct.mirror.engine.position import UnreadablePosition
from aqueduct.mirror.engine.run import ends_process
from aqueduct.mirror.engine.task import TaskTaken, task_failure
from aqueduct.mirror.engine.topics import MirroredTopics, rejected
from aqueduct.mirror.engine.upkeep import LEADER_SECONDS, Upkeep, pause_after_look

SHARED = MirrorOrder(
    flow="f",
    source=End("source", "localhost:1"),
    target=End("target", "localhost:1"),
    topics=MirroredTopics(re.compile("t")),
    shared=True,
)
ALONE = replace(SHARED, shared=False)
UNREADABLE = UnreadablePosition("x")
UNREACHABLE = Failed("cluster-unreachable", "x")


@pytest.mark.parametrize("error", [UNREADABLE, Failed("transaction-failed", "x"), KeyError("x")])
@pytest.mark.parametrize("order", [SHARED, ALONE])
@pytest.mark.parametrize("others_run", [True, False])
def test_error_of_one_task_does_not_end_others(
    order: MirrorOrder, error: Exception, others_run: bool
) -> None:
    assert not ends_process(order, error, others_run=others_run)


def test_process_ends_if_no_task_reaches_cluster() -> None:
    """A process on another host, which may reach the cluster, gets the tasks."""
    assert not ends_process(SHARED, UNREACHABLE, others_run=True)
    assert ends_process(SHARED, UNREACHABLE, others_run=False)


def test_fenced_task_ends_only_unshared_process() -> None:
    assert ends_process(ALONE, Fenced("x"), others_run=True)
    assert not ends_process(SHARED, Fenced("x"), others_run=False)
    assert not ends_process(SHARED, TaskTaken("x"), others_run=False)


@pytest.mark.parametrize(
    "order",
    [
        replace(ALONE, until_caught_up=True),
        replace(ALONE, again=frozenset({"t"})),
        replace(ALONE, accept_ranges=True),
    ],
)
def test_run_that_must_finish_ends_with_first_error(order: MirrorOrder) -> None:
    assert ends_process(order, UNREADABLE, others_run=True)


def test_task_failure_has_identifier_of_its_error() -> None:
    errors = [UNREADABLE, TopicAuthorizationFailedError("t"), KeyError("x")]
    ids = ["mirror-position-unreadable", "cluster-request-failed", "mirror-task-failed"]
    assert [task_failure(3, error).id for error in errors] == ids
    assert task_failure(3, UNREADABLE).what == "task 3"


def test_missing_topics_are_rechecked_with_growing_pauses() -> None:
    """Topics that the leader creates appear soon; topics that were refused are seldom looked for."""
    pauses = [30.0]
    for number in range(6):
        pauses.append(pause_after_look(pauses[-1], 30, waits=True, is_new=not number))
    assert pauses[1:] == [LEADER_SECONDS, 4, 8, 16, 30, 30]
    assert pause_after_look(4, 30, waits=False, is_new=True) == 30
    assert pause_after_look(1, 1, waits=True, is_new=True) == 1


def test_member_sees_a_new_topic_of_positions_soon() -> None:
    assert consumer_settings(SHARED.target, "f")["topic.metadata.refresh.interval.ms"] <= 10_000


def test_upkeep_that_waits_for_a_cluster_blocks_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections and never answers
        end = End("source", f"127.0.0.1:{silent.getsockname()[1]}")
        upkeep = Upkeep(replace(SHARED, source=end, target=end), MirrorFigures())
        with upkeep:
            silent.accept()
            assert upkeep.prepared is None
            assert not upkeep.is_synchronising
        assert upkeep.prepared is None  # its end is no error


def test_rejected_topics_are_listed_even_if_existing() -> None:
    """Topics that exist at the target are mirrored with the settings that they have."""
    listed = rejected({"b": "reason", "a": "policy"}, {"b"})
    assert [(omission.what, omission.id) for omission in listed] == [
        ("a", "topic-rejected"),
        ("b", "topic-rejected"),
    ]
    assert "policy" in listed[0].why
