"""Kafka as tests use it: independent clients (confluent-kafka, aiokafka's decoder), with no code of ours."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal
from uuid import uuid4

from aiokafka.record import MemoryRecords
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from servers.broker import Broker

SECONDS = 30


def unique(name: str) -> str:
    """Make a name that no other test has."""
    return f"{name}.{uuid4().hex[:8]}"


def admin(broker: Broker) -> AdminClient:
    """Connect; keep what you get in a variable, for one that is collected drops its requests."""
    return AdminClient({"bootstrap.servers": broker.plaintext})


def create(broker: Broker, name: str, partitions: int = 1, **config: str) -> str:
    """Create a topic and return its name. In settings' names _ is the dot."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    asked = admin(broker)
    asked.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
    return name


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **settings: Any) -> None:
    """Write values, or arguments of Producer.produce; idempotent, so that none is doubled or out of order."""
    producer = Producer({"bootstrap.servers": broker.plaintext, "enable.idempotence": True, **settings})
    write(producer, topic, values, partition)
    assert producer.flush(SECONDS) == 0


def write(producer: Producer, topic: str, values: Iterable[Any], partition: int = 0) -> None:
    for each in values:
        arguments = (
            each if isinstance(each, dict) else {"value": each if isinstance(each, bytes) else str(each)}
        )
        producer.produce(topic, partition=partition, **arguments)
        producer.poll(0)


def transaction(
    broker: Broker,
    topic: str,
    values: Iterable[Any],
    end: Literal["commit", "abort", "leave"],
    partition: int = 0,
    **settings: Any,
) -> Producer:
    """Write in a transaction; one that is left is open for as long as you keep the producer."""
    own = {"bootstrap.servers": broker.plaintext, "transactional.id": uuid4().hex}
    producer = Producer(own | settings)
    producer.list_topics()  # saves init_transactions half a second
    producer.init_transactions()
    producer.begin_transaction()
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
    """Read partitions (0 if none is named) to their ends, or to an open transaction."""
    partitions = partitions or (0,)
    reader = consumer(broker)
    try:
        places = [TopicPartition(topic, number) for number in partitions]
        for place in places:
            low, _ = reader.get_watermark_offsets(place, timeout=SECONDS)
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
        return found
    finally:
        reader.close()


def ends(broker: Broker, topic: str, *partitions: int, isolation: str = "read_uncommitted") -> list[int]:
    """Return end offsets of partitions (0 if none is named)."""
    reader = consumer(broker, **{"isolation.level": isolation})
    try:
        places = [TopicPartition(topic, number) for number in partitions or (0,)]
        return [reader.get_watermark_offsets(place, timeout=SECONDS)[1] for place in places]
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
