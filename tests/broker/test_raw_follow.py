"""Partitions that grow, followed, against real brokers that are also killed."""

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from uuid import uuid4

import confluent_kafka
import pytest
from aiokafka.record import MemoryRecords
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_broker import Broker

from aqueduct.kafka import client as raw
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.kafka.follow import Follower, News
from aqueduct.names import TopicPartition

SECONDS = 30


@pytest.fixture
def broker(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.plaintext})


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        yield client


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"follow.{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 3, 1)])[name].result()
    return name


def write(broker: Broker, topic: str, partition: int, values: list[str], **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.plaintext, **settings})
    if "transactional.id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush()
    if "transactional.id" in settings:
        (producer.abort_transaction if "abort" in values else producer.commit_transaction)()


def values(news: list[News]) -> dict[TopicPartition, list[str]]:
    """As another decoder reads them."""
    found: dict[TopicPartition, list[str]] = defaultdict(list)
    for each in news:
        for batch in each.batches:
            records = MemoryRecords(batch.data.tobytes()).next_batch()
            found[each.place] += [record.value.decode() for record in records]
    return found


def until(follower: Follower, news: list[News], done: object) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():  # type: ignore[operator]
        assert time.monotonic() < deadline, news
        news += follower.poll(0.5)


def test_what_is_written_comes_in_order(broker: Broker, client: Client, topic: str) -> None:
    write(broker, topic, 0, ["a", "b", "c"])
    starts = {TopicPartition(topic, number): start for number, start in enumerate((1, 0, 0))}
    follower, news = Follower(client, starts), []
    until(follower, news, lambda: values(news)[topic, 0] == ["b", "c"])
    write(broker, topic, 1, ["d"])
    write(broker, topic, 0, ["e"])
    until(follower, news, lambda: values(news) == {(topic, 0): ["b", "c", "e"], (topic, 1): ["d"]})
    assert follower.positions == {(topic, 0): 4, (topic, 1): 1, (topic, 2): 0}
    assert {each.place for each in news} == follower.positions.keys()  # with log start and end, idle or not


def test_what_was_aborted_does_not(broker: Broker, client: Client, topic: str) -> None:
    write(broker, topic, 0, ["abort"], **{"transactional.id": topic})
    write(broker, topic, 0, ["commit"], **{"transactional.id": topic})
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["commit"] and follower.positions[topic, 0] == 4)
    # Its offsets were told all the same, each once.
    told = [(each.start, each.next_offset) for each in news if each.next_offset > each.start]
    assert [told[0][0], *(stop for _, stop in told)][-1] == 4
    assert all(before[1] == after[0] for before, after in pairwise(told))


def test_deleted_records_are_told(broker: Broker, admin: AdminClient, client: Client, topic: str) -> None:
    write(broker, topic, 0, ["a", "b", "c"])
    [done] = admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 2)]).values()
    done.result()
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["c"])
    first = news[0]
    assert (first.start, first.next_offset, first.log_start, first.batches) == (0, 2, 2, ())


def test_a_topic_made_anew_is_told_by_its_id(
    broker: Broker, admin: AdminClient, client: Client, topic: str
) -> None:
    write(broker, topic, 0, ["a", "b"])
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b"])
    old = news[-1].topic_id
    admin.delete_topics([topic])[topic].result()
    time.sleep(1)  # a broker refuses the name while the old logs go
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result()
    write(broker, topic, 0, ["c"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b", "c"])
    assert news[-1].topic_id != old
    assert follower.positions[topic, 0] == 1


def test_a_broker_that_is_killed(broker: Broker, client: Client, topic: str) -> None:
    write(broker, topic, 0, ["a"])
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    broker.process.kill()
    news += follower.poll(0.5)
    broker.process.start()
    write(broker, topic, 0, ["b"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "b"])


def test_a_fetch_session_that_the_broker_has_forgotten(broker: Broker, client: Client, topic: str) -> None:
    follower, news = Follower(client, {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}), []
    write(broker, topic, 0, ["a"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    for session in follower._sessions.values():
        session._id += 1  # of no session at all
    write(broker, topic, 1, ["b"])
    until(follower, news, lambda: values(news)[topic, 1] == ["b"])
    write(broker, topic, 0, ["c"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a", "c"])


def test_a_topic_that_is_left_comes_no_more(broker: Broker, client: Client, topic: str) -> None:
    follower, news = Follower(client, {TopicPartition(topic, 0): 0}), []
    write(broker, topic, 0, ["a"])
    until(follower, news, lambda: values(news)[topic, 0] == ["a"])
    follower.leave(topic)
    write(broker, topic, 0, ["b"])
    write(broker, topic, 1, ["c"])
    follower.follow({(topic, 1): 0})
    until(follower, news, lambda: values(news)[topic, 1] == ["c"])
    assert values(news)[topic, 0] == ["a"]
