"""Kafka as tests use it: independent clients (confluent-kafka, aiokafka's decoder), with no code of ours."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal
from uuid import uuid4

from aiokafka.record import MemoryRecords
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from demo.offsets import watermarks
from servers.broker import Broker

SECONDS = 30
# The command line as a host of a mirror has it: with nothing but the base packages.
BASE_ONLY = [
    sys.executable,
    "-c",
    "import sys; sys.modules |= dict.fromkeys(('numpy', 'google_crc32c', 'confluent_kafka')); "
    "from aqueduct.cli import main; sys.exit(main(sys.argv[1:]))",
]
Record = tuple[bytes | None, bytes | None, Any, tuple[int, int]]  # key, value, headers, time with its type

End = Literal["commit", "abort", "leave"]  # of a transaction


def unique(name: str) -> str:
    """Make a name that no other test has."""
    return f"{name}.{uuid4().hex[:8]}"


def admin(broker: Broker) -> AdminClient:
    """Connect; keep what you get in a variable, for one that is collected drops its requests."""
    return AdminClient({"bootstrap.servers": broker.plaintext})


def refused(servers: str, times: int, **settings: object) -> None:
    """Come to a listener so often as a client that it does not let in. In settings' names _ is the dot."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    for _ in range(times):
        try:
            AdminClient({"bootstrap.servers": servers, "log_level": 0, **given}).list_topics(timeout=1)
        except KafkaException:
            continue
        raise AssertionError(f"{servers} let a client in")


def create(broker: Broker, name: str, partitions: int = 1, **config: str) -> str:
    """Create a topic and return its name, when the broker knows it. In settings' names _ is the dot."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    asked = admin(broker)
    asked.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
    # The controller answers; the broker may hear of it a moment later.
    deadline = time.monotonic() + SECONDS
    while not led(asked, name, partitions):
        assert time.monotonic() < deadline, f"{name} has no leaders"
        time.sleep(0.02)
    return name


def configure(broker: Broker, topic: str, **config: str) -> None:
    """Change settings of a topic. In settings' names _ is the dot."""
    asked = admin(broker)
    set_ = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=set_)
    asked.incremental_alter_configs([resource])[resource].result(SECONDS)


def led(asked: AdminClient, name: str, partitions: int) -> bool:
    found = asked.list_topics(timeout=SECONDS).topics.get(name)
    return bool(found) and [part.leader >= 0 for part in found.partitions.values()] == [True] * partitions


def numbered(broker: Broker, name: str, partitions: int, records: int) -> str:
    """Make a topic of its own whose records tell their partition and number."""
    topic = create(broker, unique(name), partitions)
    for partition in range(partitions):
        produce(broker, topic, [f"{partition}-{n}" for n in range(records)], partition)
    return topic


def topics(broker: Broker) -> set[str]:
    return {*admin(broker).list_topics(timeout=SECONDS).topics}


def delete(broker: Broker, name: str) -> None:
    asked = admin(broker)
    asked.delete_topics([name])[name].result()


def recreate(broker: Broker, name: str, partitions: int = 1) -> None:
    """Delete a topic and create it: another one, of the same name, with an empty log.

    For a moment a broker has the new topic's metadata and the old one's log. A record that a client without
    topic ids (KIP-516) writes then is acknowledged, and deleted with the old log.
    """
    delete(broker, name)

    def created() -> bool:
        try:
            create(broker, name, partitions)
        except KafkaException:  # the broker has not forgotten the name yet
            return False
        return True

    wait_for(f"another {name}", created)
    wait_for(f"the log of the other {name}", lambda: not any(ends(broker, name, *range(partitions))))


def delete_records(broker: Broker, topic: str, before: int) -> None:
    """Delete the first records of partition 0."""
    asked, place = admin(broker), TopicPartition(topic, 0, before)
    asked.delete_records([place])[place].result()


def idempotent(broker: Broker, **settings: Any) -> Producer:
    """Return a producer that neither doubles records nor changes their order."""
    return Producer({"bootstrap.servers": broker.plaintext, "enable.idempotence": True, **settings})


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **settings: Any) -> None:
    """Write values, or arguments of Producer.produce, in their order."""
    producer = idempotent(broker, **settings)
    write(producer, topic, values, partition)
    assert producer.flush(SECONDS) == 0


def write(producer: Producer, topic: str, values: Iterable[Any], partition: int = 0) -> None:
    for each in values:
        arguments = (
            each if isinstance(each, dict) else {"value": each if isinstance(each, bytes) else str(each)}
        )
        producer.produce(topic, **{"partition": partition, **arguments})
        producer.poll(0)


def transaction(
    broker: Broker,
    topic: str,
    values: Iterable[Any],
    end: End,
    *partitions: int,
    **settings: Any,
) -> Producer:
    """Write to each of the partitions (0 if none is named) in a transaction.

    One that is left is open for as long as you keep the producer.
    """
    own = {"bootstrap.servers": broker.plaintext, "transactional.id": uuid4().hex}
    producer = Producer(own | settings)
    producer.list_topics()  # saves init_transactions half a second
    producer.init_transactions()
    producer.begin_transaction()
    values = list(values)
    for partition in partitions or (0,):
        write(producer, topic, values, partition)
    producer.flush()
    if end == "commit":
        producer.commit_transaction()
    elif end == "abort":
        producer.abort_transaction()
    return producer


def consumer(broker: Broker, group: str = "", **settings: Any) -> Consumer:
    """Return a read-committed reader that tells the log's end, and commits nothing by itself."""
    own = {
        "bootstrap.servers": broker.plaintext,
        "group.id": group or uuid4().hex,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }
    return Consumer(own | settings)


def read(broker: Broker, topic: str, *partitions: int, start: int | None = None) -> list[Message]:
    """Read partitions (0 if none is named) to their ends, or to an open transaction; one after another."""
    partitions = partitions or (0,)
    reader = consumer(broker)
    try:
        places = [TopicPartition(topic, number) for number in partitions]
        for place in places:
            low, _ = watermarks(reader, place)
            place.offset = low if start is None else start
        reader.assign(places)
        found: list[Message] = []
        reading = len(places)
        while reading:
            message = reader.poll(SECONDS)
            assert message is not None, f"nothing more came of {topic}, not even its end"
            if message.error():
                reading -= 1
            else:
                found.append(message)
        return sorted(found, key=lambda each: each.partition() or 0)  # they came as brokers answered
    finally:
        reader.close()


def records(broker: Broker, topic: str, *partitions: int, start: int | None = None) -> list[Record]:
    """Read partitions (0 if none is named) to their very ends: what is being committed is waited for."""
    settle(broker, topic, *partitions)
    return [record(message) for message in read(broker, topic, *partitions, start=start)]


def record(message: Message) -> Record:
    return message.key(), message.value(), message.headers(), message.timestamp()


def settle(broker: Broker, topic: str, *partitions: int) -> list[int]:
    """Return the end offsets of partitions (0 if none is named) when no transaction is open any more."""

    def settled() -> list[int] | None:
        found = ends(broker, topic, *partitions, isolation="read_committed")
        return found if found == ends(broker, topic, *partitions) else None

    found: list[int] = wait_for(f"{topic} without open transactions", settled)
    return found


def committed(broker: Broker, group: str, stable: bool = False) -> dict[tuple[str, int], int]:
    """Return a group's offsets; `stable`: when none is being committed."""
    asked, wanted = admin(broker), [ConsumerGroupTopicPartitions(group)]
    [answer] = asked.list_consumer_group_offsets(wanted, require_stable=stable).values()
    return {(each.topic, each.partition): each.offset for each in answer.result().topic_partitions or ()}


def coordinated(broker: Broker, group: str, topic: str) -> int | None:
    """Return a group's next offset in partition 0; None if nobody coordinates the group, or it has none."""
    asked = Consumer({"bootstrap.servers": broker.plaintext, "group.id": group, "log_level": 0})
    try:
        [found] = asked.committed([TopicPartition(topic, 0)], timeout=3)
    except KafkaException:
        return None
    finally:
        asked.close()
    return None if found.error else int(found.offset)


def allow(broker: Broker, name: str, topic: str, *operations: AclOperation) -> None:
    """Let who has a certificate of this name do this with a topic."""
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:CN={name}", "*")
    rights = [AclBinding(*what, each, AclPermissionType.ALLOW) for each in operations]
    asked = admin(broker)
    for done in asked.create_acls(rights).values():
        done.result()


def ends(broker: Broker, topic: str, *partitions: int, isolation: str = "read_uncommitted") -> list[int]:
    """Return end offsets of partitions (0 if none is named)."""
    reader = consumer(broker, **{"isolation.level": isolation})
    try:
        places = [TopicPartition(topic, number) for number in partitions or (0,)]
        return [watermarks(reader, place)[1] for place in places]
    finally:
        reader.close()


def decoded(data: bytes) -> list[Any]:
    """Decode batches by another decoder than ours; a record has offset, timestamp, key, value and headers."""
    batches, found = MemoryRecords(data), []
    while batch := batches.next_batch():
        found += list(batch)
    return found


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until the condition holds, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return value
