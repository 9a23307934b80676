"""Groups and their offsets, seen by the raw client and by an independent one."""

from contextlib import closing
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kit.clients import consumer, create, unique, wait_for
from kit.identifiers import raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.client import Client
from servers.broker import Broker


@pytest.fixture
def topic(broker: Broker) -> str:
    return create(broker, unique("raw"), partitions=3)


def join(broker: Broker, group: str, topic: str, protocol: str) -> Consumer:
    member = consumer(broker, group, **{"group.protocol": protocol})
    assigned: list[confluent_kafka.TopicPartition] = []
    member.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))

    def has_partitions() -> bool:
        member.poll(0.1)
        return bool(assigned)

    wait_for(f"the partitions of {group}", has_partitions)
    return member


def test_what_other_clients_committed_is_told(broker: Broker, client: Client, topic: str) -> None:
    group = f"group-{uuid4().hex[:8]}"
    told = {TopicPartition(topic, 0): (5, "höchst"), TopicPartition(topic, 2): (7, "")}
    committing = consumer(broker, group)
    committing.commit(
        offsets=[
            confluent_kafka.TopicPartition(*place, offset, metadata)
            for place, (offset, metadata) in told.items()
        ],
        asynchronous=False,
    )
    committing.close()
    nobody = f"nobody-{uuid4().hex}"
    found = groups.committed(client, [group, nobody])
    assert found[nobody] == {}
    # confluent-kafka ends the text as C does.
    assert {place: (offset, said.rstrip("\0")) for place, (offset, said) in found[group].items()} == told
    assert groups.progress(client, group, [TopicPartition(topic, 1), TopicPartition(topic, 2)]) == {
        TopicPartition(topic, 2): found[group][topic, 2]
    }
    assert groups.progress(client, nobody, [TopicPartition(topic, 1)]) == {}
    listed = groups.list_groups(client).by_name
    assert (listed[group].protocol, listed[group].live) == ("classic", False)
    assert nobody not in listed


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_keeps_its_offsets(
    broker: Broker, client: Client, topic: str, protocol: str
) -> None:
    group = f"group-{uuid4().hex[:8]}"
    member = join(broker, group, topic, protocol)
    found = groups.list_groups(client).by_name[group]
    assert (found.protocol, found.live) == (protocol, True)
    with raises(groups.LiveGroup, "group-has-members", group):
        groups.commit(client, group, {TopicPartition(topic, 0): (3, "")})
    member.close()
    patience = raw.Patience(client, "keeps members")
    while groups.list_groups(client).by_name[group].live:
        patience.pause(raw.NodeNotReadyError())
    groups.commit(client, group, {TopicPartition(topic, 0): (3, "new")})
    assert groups.committed(client, [group]) == {group: {TopicPartition(topic, 0): (3, "new")}}


def test_committed_offsets_are_visible_to_other_clients(
    broker: Broker, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "COMMIT_BYTES", 300)
    group = f"group-{uuid4().hex[:8]}"
    wanted = {
        TopicPartition(topic, 0): (1, "a"),
        TopicPartition(topic, 1): (2, ""),
        TopicPartition(topic, 2): (3, "c"),
    }
    groups.commit(client, group, wanted)
    groups.commit(client, group, wanted)
    with closing(KafkaAdminClient(bootstrap_servers=broker.plaintext)) as admin:
        seen = admin.list_group_offsets(group)  # confluent-kafka reads metadata beyond their end
    assert {tuple(place): (each.offset, each.metadata) for place, each in seen[group].items()} == wanted
    admin_of_others = AdminClient({"bootstrap.servers": broker.plaintext})
    [answer] = admin_of_others.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert {each.partition: each.offset for each in answer.result().topic_partitions} == {0: 1, 1: 2, 2: 3}
    assert not groups.list_groups(client).by_name[group].live


def test_offsets_beyond_coordinator_batch_size_are_committed(broker: Broker, client: Client) -> None:
    topic, group = f"raw.{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    create(broker, topic, 300)
    wanted = {TopicPartition(topic, number): (number, "m" * 4000) for number in range(300)}
    groups.commit(client, group, wanted)
    assert groups.committed(client, [group]) == {group: wanted}


def test_many_groups_are_told_together(
    broker: Broker, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "GROUPS_PER_REQUEST", 2)
    wanted = {
        f"group-{uuid4().hex[:8]}": {TopicPartition(topic, 0): (number, str(number))} for number in range(5)
    }
    for group, positions in wanted.items():
        groups.commit(client, group, positions)
    assert groups.committed(client, wanted) == wanted
    assert wanted.keys() <= groups.list_groups(client).by_name.keys()
