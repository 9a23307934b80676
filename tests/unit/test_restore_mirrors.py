"""Positions of mirrors that keep a restore from continuing them."""

from typing import Any

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.kafka.client_config import End
from aqueduct.kafka.compacted_topics import Table, TableTooLarge
from aqueduct.mirror.binding import CONNECTOR
from aqueduct.mirror.engine.names import positions_topic
from aqueduct.mirror.engine.position import (
    BATCHES,
    MM2,
    Holder,
    Position,
    UnreadablePosition,
    holder_record,
    is_engine_key,
    parse_checkpoint_key,
    parse_position_key,
    parse_status_key,
    position_record,
)
from aqueduct.mirror.positions import FLOW_UNREADABLE, FlowPositions
from aqueduct.mirror.status import SOURCE_CONNECTOR
from aqueduct.snapshots.restore.mirrors import mirrored_by_batches, readable
from aqueduct.snapshots.restore.order import FollowingMirror

OTHER_KEYS = (b"", b"x", b"\xff", b"null", b"7", b'"text"', b"[1", b"[" * 100_000)
POSITION = Position(topic_id="a", next=7, target_topic_id="b", target_end=9)
ROWS = dict([position_record(TopicPartition("flights", 0), POSITION)])
MIRROR = FollowingMirror("lake", End("lake", "lake-1:9092"))


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_position_keys_of_other_programs_are_ignored(key: bytes) -> None:
    assert not is_engine_key(key)
    assert mirrored_by_batches(ROWS | {key: b"x"}, {"flights"}) == {"flights"}
    positions = FlowPositions("lake", None)  # type: ignore[arg-type]
    positions._table.add(TopicPartition("p", 0), key, b"x")
    positions.check()


@pytest.mark.parametrize(
    "key",
    [b"{}", b'{"x":1}', b'{"task":"0"}', b'{"task":1e999}', b"[]", b'["t",1e999]', b"[1,2]", b'["t",0,1]'],
)
def test_keys_of_later_versions_are_not_ignored(key: bytes) -> None:
    """Such a position could be of a topic to restore."""
    assert is_engine_key(key)
    with pytest.raises(UnreadablePosition):
        mirrored_by_batches(ROWS | {key: b"{}"}, {"flights"})


@pytest.mark.parametrize("key", [b"[[1],2,3,4]", b'["t",1e999,0,0]', b'["t",0,0,1e999]'])
def test_numbers_that_are_none_are_unreadable(key: bytes) -> None:
    with pytest.raises(UnreadablePosition):
        parse_checkpoint_key(key)


def test_only_positions_of_restored_topics_are_read() -> None:
    rows = ROWS | {b'["crews",0]': b"not JSON", b'{"task":0}': b"not JSON"}
    assert mirrored_by_batches(rows, {"flights"}) == {"flights", "crews"}
    with pytest.raises(UnreadablePosition):
        mirrored_by_batches(rows, {"crews"})
    assert parse_position_key(b'["crews",0]') == TopicPartition("crews", 0)
    assert parse_status_key(b'{"task":0}') == 0


def test_engine_that_has_the_flow_decides() -> None:
    key, value = holder_record(Holder(engine=MM2, time=1))
    assert mirrored_by_batches(ROWS | {key: value, b'["t"]': b""}) == set()
    assert mirrored_by_batches(ROWS | dict([holder_record(Holder(engine=BATCHES, time=1))])) == {"flights"}
    with pytest.raises(UnreadablePosition):
        mirrored_by_batches(ROWS | {key: b"{}"})


@pytest.mark.parametrize(
    "key", [f'["{name}",{{"topic":"t","partition":0}}]'.encode() for name in (SOURCE_CONNECTOR, CONNECTOR)]
)
def test_unreadable_mirrormaker_position_stops_restore(key: bytes) -> None:
    positions = FlowPositions("lake", None)  # type: ignore[arg-type]  # no cluster is asked
    positions._table.add(TopicPartition("p", 0), key, b"not JSON")
    with pytest.raises(Failed) as error:
        positions.check()
    assert error.value.id == FLOW_UNREADABLE


@pytest.mark.parametrize("error_type", [Refused, Failed])
@pytest.mark.parametrize("error", [UnreadablePosition("x"), TableTooLarge("x"), Failed(FLOW_UNREADABLE, "x")])
def test_the_error_names_mirror_and_topic(error: Failed, error_type: type[AqueductError]) -> None:
    with pytest.raises(error_type) as raised, readable(MIRROR, error_type):
        raise error
    assert raised.value.id == error.id
    assert {"lake", "lake-1:9092:"} <= {*raised.value.sentence.split()}
    is_of_batches = isinstance(error, UnreadablePosition)
    assert (positions_topic("lake") in raised.value.sentence) == is_of_batches  # others name their own topic


def test_other_errors_stay() -> None:
    with pytest.raises(Failed) as raised, readable(MIRROR, Refused):
        raise Failed("cluster-request-failed", "x")
    assert raised.value.id == "cluster-request-failed"


def test_a_table_has_a_limit() -> None:
    table = Table(None, most_bytes=10)  # type: ignore[arg-type]  # no cluster is asked
    partition = TopicPartition("p", 0)
    rows: list[tuple[bytes, Any]] = [
        (b"a", b"1234"),
        (b"a", b"5678"),
        (b"b", b"12"),
        (b"b", None),
        (b"c", b"1"),
    ]
    for key, value in rows:
        table.add(partition, key, value)
    assert set(table.rows) == {b"a", b"c"}
    with pytest.raises(TableTooLarge) as error:
        table.add(partition, b"d", b"123")
    assert error.value.id == "compacted-topic-too-large"
