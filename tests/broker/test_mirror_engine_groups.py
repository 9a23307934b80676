"""Groups that `aqueduct replicate` synchronises continue at the target with the very next record."""

import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from kit import clients
from kit.clients import Record
from kit.cut_logs import cut_log
from kit.identifiers import assert_printed
from kit.mirror_engine_flows import Flow

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import groups
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.mirror.engine.groups import GroupsSynchronised, GroupSynchroniser, MirroredGroups
from aqueduct.mirror.engine.state import FlowState
from servers.broker import Broker

OTHERS = b"of another source"


def next_records(broker: Broker, topic: str, groups_: Collection[str]) -> dict[str, Record | None]:
    """Return the flow's record of partition 0 that each group reads next; None at the end."""
    clients.settle(broker, topic)
    messages = [message for message in clients.read(broker, topic) if message.value() != OTHERS]
    found = {}
    with ThreadPoolExecutor() as together:  # each request has a client of its own, which connects first
        committed = list(together.map(partial(clients.committed, broker), groups_))
    for group, offsets in zip(groups_, committed, strict=True):
        start = offsets[topic, 0]
        following = [message for message in messages if (message.offset() or 0) >= start]
        found[group] = clients.record(following[0]) if following else None
    return found


def check_synchronised(flow: Flow, offsets: Iterable[int]) -> None:
    """Synchronise a group at each of these source offsets, and compare their next records at both ends."""
    groups_ = {f"{flow.name}-{offset}": offset for offset in offsets}
    with connect(End("source", flow.source.plaintext), "test") as client:
        for group, offset in groups_.items():
            groups.commit(client, group, {TopicPartition(flow.topic, 0): (offset, "")})
    assert flow.catch_up("--groups-pattern", f"{flow.name}-.*") == 0
    at_source = next_records(flow.source, flow.topic, groups_)
    assert next_records(flow.target, flow.topic, groups_) == at_source


def numbered(count: int) -> list[dict[str, object]]:
    return [{"key": f"{number}", "value": f"value {number}"} for number in range(count)]


def test_groups_continue_at_the_next_record(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, numbered(60), **{"batch.num.messages": 7})
    assert flow.catch_up() == 0
    clients.produce(flow.source, flow.topic, numbered(60), **{"batch.num.messages": 7})
    check_synchronised(flow, range(0, 121, 8))


def test_groups_of_transactional_topics_continue_at_next_record(flow: Flow) -> None:
    for number in range(4):
        end = ("commit", "abort")[number % 2]
        clients.transaction(flow.source, flow.topic, [f"{number} {n}" for n in range(6)], end)
        clients.produce(flow.source, flow.topic, [f"between {number}"])
        assert flow.catch_up() == 0
    [stop] = clients.settle(flow.source, flow.topic)
    check_synchronised(flow, range(stop + 1))


def test_group_never_moves_back_or_beyond_arrived_records(flow: Flow) -> None:
    group = f"{flow.name}-group"
    clients.produce(flow.source, flow.topic, numbered(10))
    assert flow.catch_up() == 0
    clients.produce(flow.source, flow.topic, numbered(20)[10:])
    clients.set_position(flow.source, group, flow.topic, 20)  # the mirror has reached 10
    assert synchronised(flow, group, lambda: False).offsets == 1
    assert clients.committed(flow.target, group) == {(flow.topic, 0): 10}
    assert flow.catch_up() == 0
    following = next_records(flow.target, flow.topic, [group])[group]
    assert following == clients.records(flow.source, flow.topic, start=10)[0]
    assert flow.catch_up("--groups-pattern", group) == 0
    assert next_records(flow.target, flow.topic, [group]) == {group: None}
    end = clients.committed(flow.target, group)
    clients.set_position(flow.source, group, flow.topic, 3)
    assert flow.catch_up("--groups-pattern", group) == 0
    assert clients.committed(flow.target, group) == end


def synchronised(flow: Flow, group: str, is_over: Callable[[], bool]) -> GroupsSynchronised:
    """Synchronise a group in one round. `is_over` is asked while the round runs."""
    partitions = [TopicPartition(flow.topic, number) for number in (0, 1)]
    with (
        connect(End("source", flow.source.plaintext), "test") as source,
        connect(End("target", flow.target.plaintext), "test") as target,
    ):
        synchroniser = GroupSynchroniser(source, target, FlowState(target, flow.name, range(2)))
        chosen = MirroredGroups(re.compile(re.escape(group)))
        return synchroniser.synchronise(chosen, {p: p for p in partitions}, is_over)


def test_group_moved_by_other_process_never_moves_back(flow: Flow) -> None:
    group = f"{flow.name}-group"
    clients.produce(flow.source, flow.topic, numbered(10))
    clients.set_position(flow.source, group, flow.topic, 4)
    assert flow.catch_up() == 0

    def move() -> bool:
        """Commit as the next leader does, after this round has read the group's offsets."""
        with connect(End("target", flow.target.plaintext), "test") as client:
            groups.commit(client, group, {TopicPartition(flow.topic, 0): (7, "")})
        return False

    assert synchronised(flow, group, move).offsets == 0
    assert clients.committed(flow.target, group) == {(flow.topic, 0): 7}


def test_former_leader_sets_no_group_offsets(flow: Flow) -> None:
    group = f"{flow.name}-group"
    clients.produce(flow.source, flow.topic, numbered(10))
    clients.set_position(flow.source, group, flow.topic, 4)
    assert flow.catch_up() == 0
    assert synchronised(flow, group, lambda: True).offsets == 0
    assert clients.committed(flow.target, group) == {}
    assert synchronised(flow, group, lambda: False).offsets == 1
    assert clients.committed(flow.target, group) == {(flow.topic, 0): 4}


def test_group_with_members_at_the_target_is_listed(flow: Flow) -> None:
    group = f"{flow.name}-group"
    clients.produce(flow.source, flow.topic, numbered(10))
    clients.set_position(flow.source, group, flow.topic, 4)
    assert flow.catch_up() == 0
    member = clients.consumer(flow.target, group)
    member.subscribe([flow.topic])
    clients.wait_for("an assignment", lambda: member.poll(0.1) or member.assignment())
    try:
        assert flow.catch_up("--groups-pattern", group) == 3
        assert flow.identifiers() == ["group-has-members"]
        assert clients.committed(flow.target, group) == {}
    finally:
        member.close()
    assert flow.catch_up("--groups-pattern", group) == 0
    assert clients.committed(flow.target, group) == {(flow.topic, 0): 4}


def test_groups_of_shared_topic_continue_at_next_record(flow: Flow) -> None:
    """Other producers write to the target topic, too."""
    clients.produce(flow.source, flow.topic, numbered(20))
    assert flow.catch_up() == 0
    clients.produce(flow.target, flow.topic, [OTHERS])
    clients.produce(flow.source, flow.topic, numbered(20))
    check_synchronised(flow, range(0, 41, 10))


@pytest.mark.parametrize("attack", ["recreated", "cut"])
def test_groups_continue_after_source_log_is_replaced(flow: Flow, attack: str) -> None:
    """The log has grown past the positions of both the flow and the group."""
    for first in (0, 10):
        clients.produce(flow.source, flow.topic, numbered(20)[first : first + 10])
    assert flow.catch_up() == 0
    check_synchronised(flow, [15])
    if attack == "recreated":
        clients.recreate(flow.source, flow.topic, 2)
    else:
        cut_log(flow.source, flow.topic, 10)
    clients.produce(flow.source, flow.topic, numbered(50)[20:])
    assert flow.catch_up() == 3
    assert flow.catch_up("--accept-ranges") == 0
    check_synchronised(flow, range(0 if attack == "recreated" else 10, 31, 5))


def test_groups_pattern_without_match_is_reported(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, ["one"])
    assert flow.catch_up("--groups-pattern", f"{flow.name}-missing") == 3
    assert flow.identifiers() == ["pattern-matches-nothing"]


def test_again_with_unmirrored_topic_is_refused(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    clients.produce(flow.source, flow.topic, ["one"])
    assert flow.catch_up("--again", f"{flow.topic}-missing") == 2
    assert_printed(capsys.readouterr().err, "topic-unknown", f"{flow.topic}-missing", "--again")
    assert flow.topic not in clients.topics(flow.target)
