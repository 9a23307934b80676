"""A fetch session names what changed, and nothing else. A damaged batch takes no other with it."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import Damaged
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import fetched_batches
from aqueduct.kafka.follow import FetchPositions, _FetchSession
from aqueduct.kafka.line import DEFAULTS

ONE, OTHER = UUID(int=1), UUID(int=2)


def told(request: Any) -> FetchPositions:
    return {
        (topic.topic_id, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def forgotten(request: Any) -> set[tuple[UUID, int]]:
    return {(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions}


def test_a_session_names_only_what_changed() -> None:
    session = _FetchSession(DEFAULTS)
    first = session.request({(ONE, 0): 0, (ONE, 1): 5, (OTHER, 0): 7}, {}, "")
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert told(first) == {(ONE, 0): 0, (ONE, 1): 5, (OTHER, 0): 7}
    assert session.goes_on(42)
    second = session.request({(ONE, 0): 3, (ONE, 1): 5, (OTHER, 0): 7}, {}, "")
    assert (second.session_id, second.session_epoch) == (42, 1)
    assert (told(second), forgotten(second)) == ({(ONE, 0): 3}, set())
    assert session.goes_on(42)
    third = session.request({(ONE, 0): 3, (OTHER, 0): 7, (OTHER, 1): 0}, {}, "")
    assert third.session_epoch == 2
    assert (told(third), forgotten(third)) == ({(OTHER, 1): 0}, {(ONE, 1)})


def test_recreated_topic_replaces_old_one_in_session() -> None:
    session = _FetchSession(DEFAULTS)
    session.request({(ONE, 0): 9}, {}, "")
    assert session.goes_on(42)
    request = session.request({(OTHER, 0): 0}, {}, "")
    assert (told(request), forgotten(request)) == ({(OTHER, 0): 0}, {(ONE, 0)})


def test_fetch_session_ends_if_broker_keeps_none() -> None:
    """Session id 0: a new session must then name all partitions."""
    session = _FetchSession(DEFAULTS)
    session.request({(ONE, 0): 9}, {}, "")
    assert not session.goes_on(0)


def test_epochs_start_again_at_one() -> None:
    session = _FetchSession(DEFAULTS)
    session._id, session._epoch = 42, (1 << 31) - 1
    assert session.goes_on(42)
    assert session.request({}, {}, "").session_epoch == 1


def test_batches_before_a_damaged_one_are_read() -> None:
    whole = [build(Records.listed([Record(5, offset, b"x")])) for offset in range(3)]
    whole[2][-1] ^= 1
    client = cast("Client", SimpleNamespace(end="source cluster at host:9092"))
    partition = TopicPartition("orders", 3)

    def offsets(data: bytes, **options: bool) -> list[int]:
        batches = fetched_batches(client, partition, SimpleNamespace(records=data), **options)
        return [batch.base_offset for batch in batches]

    answer = b"".join(whole)
    assert offsets(answer, up_to_damage=True) == [0, 1]
    for data, options in ((answer, {}), (bytes(whole[2]), {"up_to_damage": True})):
        with raises(Damaged, "batch-damaged", "orders-3", "host:9092", "offset 2"):
            offsets(data, **options)
