"""Partitions that grow, followed, against real brokers that are also killed."""

import time
from collections import defaultdict
from itertools import pairwise

import pytest
from kit import clients
from kit.clients import create, decoded, produce, unique

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client import Client
from aqueduct.kafka.follow import Follower, News
from servers.broker import Broker

SECONDS = 180


@pytest.fixture
def topic(broker: Broker) -> str:
    return create(broker, unique("follow"), partitions=3)


def values(news: list[News]) -> dict[TopicPartition, list[str]]:
    """Decode the news' values with another decoder than ours."""
    found: dict[TopicPartition, list[str]] = defaultdict(list)
    for each in news:
        for batch in each.batches:
            found[each.topic_partition] += [record.value.decode() for record in decoded(batch.data.tobytes())]
    return found


def until(follower: Follower, news: list[News], done: object) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():  # type: ignore[operator]
        assert time.monotonic() < deadline, news
        news += follower.poll(0.5)


def test_what_is_written_comes_in_order(broker: Broker, client: Client, topic: str) -> None:
    produce(broker, topic, ["a", "b", "c"])
    follower, news = (
        Follower(
            client, {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0, TopicPartition(topic, 2): 0}
        ),
        [],
    )
    until(follower, news, lambda: values(news)[topic, 0] == ["b", "c"])
    produce(broker, topic, ["d"], partition=1)
    produce(broker, topic, ["e"])
    until(follower, news, lambda: values(news) == {(topic, 0): ["b", "c", "e"], (topic, 1): ["d"]})
    assert follower.positions == {(topic, 0): 4, (topic, 1): 1, (topic, 2): 0}
    assert {
        each.topic_partition for each in news
    } == follower.positions.keys()  # with log start and end, idle or not


def test_what_was_aborted_does_not(broker: Broker, client: Client, topic: str) -> None:
    clients.transaction(broker, topic, ["abort"], "abort")
    clients.transaction(broker, topic, ["commit"], "commit")
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["commit"] and follower.positions[topic, 0] == 4)
    # Its offsets were told all the same, each once.
    told = [(each.start, each.next_offset) for each in news if each.next_offset > each.start]
    assert [told[0][0], *(stop for _, stop in told)][-1] == 4
    assert all(before[1] == after[0] for before, after in pairwise(told))


def test_deleted_records_are_told(broker: Broker, client: Client, topic: str) -> None:
    produce(broker, topic, ["a", "b", "c"])
    clients.delete_records(broker, topic, 2)
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["c"])
    first = news[0]
    assert (first.start, first.next_offset, first.log_start, first.batches) == (0, 2, 2, ())


def test_follower_detects_recreated_topic_by_its_id(broker: Broker, client: Client, topic: str) -> None:
    produce(broker, topic, ["a", "b"])
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b"])
    old = news[-1].topic_id
    clients.recreate(broker, topic, 3)
    produce(broker, topic, ["c"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b", "c"])
    assert news[-1].topic_id != old
    assert follower.positions[topic, 0] == 1


@pytest.mark.usefixtures("patient")
def test_a_broker_that_is_killed(broker: Broker, client: Client, topic: str) -> None:
    produce(broker, topic, ["a"])
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    broker.process.kill()
    news += follower.poll(0.5)
    broker.process.start()
    produce(broker, topic, ["b"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b"])


@pytest.mark.usefixtures("patient")
def test_follower_waits_for_broker_after_idle_hour(broker: Broker, client: Client, topic: str) -> None:
    produce(broker, topic, ["a"])
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    follower._patience._since -= 3_600  # as if the last news had come an hour ago
    for _ in range(4):
        news += follower.poll(1)  # answers without news
    broker.process.kill()
    for _ in range(4):
        news += follower.poll(0.5)
    broker.process.start()
    produce(broker, topic, ["b"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b"])


def test_a_fetch_session_that_the_broker_has_forgotten(broker: Broker, client: Client, topic: str) -> None:
    follower, news = Follower(client, {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}), []
    produce(broker, topic, ["a"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    for session in follower._sessions.values():
        session._id += 1  # of no session at all
    produce(broker, topic, ["b"], partition=1)
    until(follower, news, lambda: values(news)[topic, 1] == ["b"])
    produce(broker, topic, ["c"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "c"])


def test_a_topic_that_is_left_comes_no_more(broker: Broker, client: Client, topic: str) -> None:
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    produce(broker, topic, ["a"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    follower.leave(topic)
    produce(broker, topic, ["b"])
    produce(broker, topic, ["c"], partition=1)
    follower.follow({TopicPartition(topic, 1): 0})
    until(follower, news, lambda: values(news)[topic, 1] == ["c"])
    assert values(news)[topic, 0] == ["a"]
