"""Kafka clients for tests (confluent-kafka, the decoder of aiokafka), which share no code with Aqueduct."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal
from uuid import uuid4

from aiokafka.record import MemoryRecords
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    ResourcePatternType,
    ResourceType,
)

from demo.offsets import watermarks
from servers.broker import Broker

SECONDS = 400  # for what must come: a machine may be ten times slower at times
ASK_SECONDS = 20  # for an answer that may never come
TRANSACTION_MS = 600_000  # a slow machine aborts no transaction that a test has open
# Answers of a cluster that has not begun to coordinate a group: it is young, or a broker has just started.
NO_COORDINATOR = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
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
    """Return a name that no other test uses."""
    return f"{name}.{uuid4().hex[:8]}"


def admin(broker: Broker) -> AdminClient:
    """Return an admin client. Keep it in a variable: garbage collection would cancel its requests."""
    return AdminClient({"bootstrap.servers": broker.plaintext})


def refused(servers: str, times: int, **settings: object) -> None:
    """Connect so many times to a listener that rejects the client. In names of settings, _ means a dot."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    given |= {"bootstrap.servers": servers, "log_level": 0}
    for _ in range(times):
        errors: list[KafkaError] = []
        client = AdminClient(given | {"error_cb": errors.append})
        with suppress(KafkaException):
            client.list_topics(timeout=1)
            raise AssertionError(f"{servers} let a client in")
        # It may not have come there yet.
        wait_for(
            f"{servers} to refuse a client", lambda client=client, errors=errors: client.poll(0.1) and errors
        )


def create(broker: Broker, name: str, partitions: int = 1, **config: str) -> str:
    """Create a topic, wait until the broker knows it, and return its name.

    In names of settings, _ means a dot."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    asked = admin(broker)

    def created() -> bool:
        """Create the topic. A node that was suspended has no session, so it has no broker for a moment."""
        try:
            asked.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_for(f"a broker for {name}", created)
    # The controller answers; the broker may hear of it a moment later.
    wait_for(f"leaders of {name}", lambda: led(asked, name, partitions))
    return name


def grow(broker: Broker, name: str, partitions: int) -> None:
    """Increase the partitions of a topic to this number, and wait until the broker knows them."""
    asked = admin(broker)
    asked.create_partitions([NewPartitions(name, partitions)])[name].result()
    wait_for(f"leaders of {name}", lambda: led(asked, name, partitions))


def configure(broker: Broker, topic: str, **config: str) -> None:
    """Change settings of a topic, and wait until the broker knows them. In names, _ means a dot."""
    asked = admin(broker)
    settings = {key.replace("_", "."): value for key, value in config.items()}
    set_ = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=set_)
    asked.incremental_alter_configs([resource])[resource].result(SECONDS)

    wait_for(f"the settings of {topic}", lambda: settings.items() <= settings_of(broker, topic).items())


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    """Return all effective settings of a topic."""
    asked, described = admin(broker), ConfigResource(ResourceType.TOPIC, topic)
    found = asked.describe_configs([described])[described].result(SECONDS)
    return {key: entry.value for key, entry in found.items()}


def metadata(asked: AdminClient) -> ClusterMetadata:
    """Return the metadata of brokers and topics.

    A client may send its request to a broker that was killed, so a request has a short timeout and is
    repeated.
    """
    found: list[ClusterMetadata] = []

    def answer() -> bool:
        with suppress(KafkaException):
            found.append(asked.list_topics(timeout=5))
        return bool(found)

    wait_for("metadata", answer)
    return found[0]


def partition_of(broker: Broker, topic: str, partition: int = 0) -> PartitionMetadata | None:
    """Return the metadata of a partition; None if the broker does not know the partition."""
    found = metadata(admin(broker)).topics.get(topic)
    return found.partitions.get(partition) if found else None


def led(asked: AdminClient, name: str, partitions: int) -> bool:
    found = metadata(asked).topics.get(name)
    return bool(found) and [part.leader >= 0 for part in found.partitions.values()] == [True] * partitions


def numbered(broker: Broker, name: str, partitions: int, records: int) -> str:
    """Create a new topic whose records contain their partition and number."""
    topic = create(broker, unique(name), partitions)
    values = (
        {"value": f"{partition}-{n}", "partition": partition}
        for partition in range(partitions)
        for n in range(records)
    )
    produce(broker, topic, values)
    return topic


def topics(broker: Broker) -> set[str]:
    return {*metadata(admin(broker)).topics}


def forget(broker: Broker, name: str) -> None:
    """Delete a topic without a wait, because a client may create it again at once."""
    asked = admin(broker)
    asked.delete_topics([name])[name].result()


def delete(broker: Broker, name: str) -> None:
    """Delete a topic, and wait until the broker no longer knows it."""
    forget(broker, name)
    wait_for(f"the end of {name}", lambda: name not in topics(broker))


def recreate(broker: Broker, name: str, partitions: int = 1) -> None:
    """Re-create a topic: delete it, create another one with the same name, and wait for its empty log.

    For a moment, a broker has the metadata of the new topic and the log of the old one. A record of a client
    without topic ids (KIP-516) is then acknowledged, and deleted with the old log.
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
    """Return an idempotent producer, which neither duplicates nor reorders records."""
    return Producer({"bootstrap.servers": broker.plaintext, "enable.idempotence": True, **settings})


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **settings: Any) -> None:
    """Write values, or arguments of Producer.produce, in this order."""
    producer = idempotent(broker, **settings)
    write(producer, topic, values, partition)
    request_id(producer, topic)  # when all records are queued, so that batches are as large as they can be
    assert producer.flush(SECONDS) == 0


def request_id(producer: Producer, topic: str) -> None:
    """Make a new idempotent producer request its id now.

    librdkafka requests the id when it gets metadata, or half a second later. The first metadata end its only
    connection, so that it cannot request the id.
    """
    with suppress(KafkaException):
        for _ in range(2):
            producer.list_topics(topic, timeout=5)


def producer_of_batches(broker: Broker, topic: str, records: int, **settings: Any) -> Producer:
    """Return a producer that sends batches of so many records, and the remaining records at `flush`.

    It first waits for the leader of the topic. Records that wait for a leader are queued one by one, and a
    flush at that moment would send the first of them as a separate batch.
    """
    of_batches = {"linger.ms": 10_000, "batch.num.messages": records}
    producer = Producer({"bootstrap.servers": broker.plaintext, **of_batches, **settings})
    producer.list_topics(topic, SECONDS)
    return producer


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
    """Write to each partition (by default 0) in a transaction.

    A transaction without an end stays open as long as you keep the producer. Otherwise, return when the
    markers are in the logs: the coordinator answers before it has written them.
    """
    own = {"bootstrap.servers": broker.plaintext, "transactional.id": uuid4().hex}
    own |= {"transaction.timeout.ms": TRANSACTION_MS}
    producer = Producer(own | settings)
    producer.list_topics()  # saves init_transactions half a second
    producer.init_transactions()
    producer.begin_transaction()
    values, touched = list(values), set[int]()
    for partition in partitions or (0,):
        write(producer, topic, values, partition)
        touched |= {
            each.get("partition", partition) if isinstance(each, dict) else partition for each in values
        }
    producer.flush()
    if end == "leave" or not values:
        return producer
    written = ends(broker, topic, *touched)
    if end == "commit":
        producer.commit_transaction()
    else:
        producer.abort_transaction()

    def marked() -> bool:
        now = ends(broker, topic, *touched)
        return all(end > before for end, before in zip(now, written, strict=True))

    wait_for(f"the end of a transaction in {topic}", marked)
    return producer


def consumer(broker: Broker, group: str = "", **settings: Any) -> Consumer:
    """Return a read_committed consumer that reports the ends of partitions, and commits no offsets itself."""
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
    """Read partitions (by default 0) one after another, each to its end or to an open transaction."""
    partitions = partitions or (0,)
    # The end of a partition is reported after a fetch without records, which takes 500 ms by default.
    reader = consumer(broker, **{"fetch.wait.max.ms": 20})
    try:
        places = [TopicPartition(topic, number) for number in partitions]
        for place in places:
            low, _ = watermarks(reader, place)
            place.offset = low if start is None else start
        reader.assign(places)
        found: list[Message] = []
        reading = {*partitions}  # one that grows meanwhile may come to its end again
        while reading:
            message = reader.poll(SECONDS)
            assert message is not None, f"nothing more came of {topic}, not even its end"
            if not (error := message.error()):
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
        return sorted(found, key=lambda each: each.partition() or 0)  # they came as brokers answered
    finally:
        reader.close()


def records(broker: Broker, topic: str, *partitions: int, start: int | None = None) -> list[Record]:
    """Read partitions (by default 0) to their ends. Waits for the end of open transactions."""
    settle(broker, topic, *partitions)
    return [record(message) for message in read(broker, topic, *partitions, start=start)]


def record(message: Message) -> Record:
    return message.key(), message.value(), message.headers(), message.timestamp()


def settle(broker: Broker, topic: str, *partitions: int) -> list[int]:
    """Wait until no transaction is open, and return the end offsets of partitions (by default 0)."""

    def settled() -> list[int] | None:
        found = ends(broker, topic, *partitions, isolation="read_committed")
        return found if found == ends(broker, topic, *partitions) else None

    found: list[int] = wait_for(f"{topic} without open transactions", settled)
    return found


def committed(
    broker: Broker, group: str, stable: bool = False, asked: AdminClient | None = None
) -> dict[tuple[str, int], int]:
    """Wait for the coordinator, and return a group's offsets. `stable`: also wait for pending commits.

    `asked`: a client to use, for many groups; None: a new one.
    """
    client, wanted = asked or admin(broker), [ConsumerGroupTopicPartitions(group)]
    found: list[dict[tuple[str, int], int]] = []

    def answer() -> bool:
        [told] = client.list_consumer_group_offsets(wanted, require_stable=stable).values()
        try:
            places = told.result().topic_partitions or ()
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR:
                raise
            return False
        found.append({(each.topic, each.partition): each.offset for each in places})
        return True

    wait_for(f"a coordinator of {group}", answer)
    return found[0]


def coordinated(broker: Broker, group: str, topic: str, seconds: float = ASK_SECONDS) -> int | None:
    """Return a group's next offset in partition 0; None if it gets no coordinator within these seconds."""
    asked = Consumer({"bootstrap.servers": broker.plaintext, "group.id": group, "log_level": 0})
    try:
        [found] = asked.committed([TopicPartition(topic, 0)], timeout=seconds)
    except KafkaException:
        return None
    finally:
        asked.close()
    return None if found.error else int(found.offset)


def all_coordinated(
    broker: Broker, groups: Sequence[str], topic: str, seconds: float = ASK_SECONDS
) -> list[int | None]:
    """Return the same for several groups, in parallel requests."""
    with ThreadPoolExecutor(len(groups)) as together:
        return list(together.map(lambda group: coordinated(broker, group, topic, seconds), groups))


def set_position(broker: Broker, group: str, topic: str, offset: int) -> None:
    """Wait for the coordinator, and set a group's next offset in partition 0."""
    asked, place = admin(broker), ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])

    def known() -> bool:  # a coordinator that still loads says so for the partition
        with suppress(KafkaException):
            asked.alter_consumer_group_offsets([place])[group].result()
            return coordinated(broker, group, topic) == offset
        return False

    wait_for(f"the position of {group}", known)


def commit(committing: Consumer, *places: TopicPartition) -> None:
    """Wait for the coordinator of a consumer's group, and commit offsets as the group's positions."""

    def is_done() -> bool:
        try:
            committing.commit(offsets=[*places], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR:
                raise
            return False
        return True

    wait_for(f"positions {places}", is_done)


def await_no_members(broker: Broker, group: str) -> None:
    """Wait until all members of a group have left it."""
    asked = admin(broker)

    def members() -> Any:
        return asked.describe_consumer_groups([group])[group].result(SECONDS).members

    wait_for(f"no member of {group}", lambda: not members())


def allow(broker: Broker, name: str, topic: str, *operations: AclOperation) -> None:
    """Allow a principal an operation on a topic, and wait until the broker knows the ACL."""
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:CN={name}", "*")
    rights = [AclBinding(*what, each, AclPermissionType.ALLOW) for each in operations]
    asked = admin(broker)
    for done in asked.create_acls(rights).values():
        done.result()
    every = AclBindingFilter(*what, AclOperation.ANY, AclPermissionType.ALLOW)
    wait_for(f"the rights of {name}", lambda: {*rights} <= {*asked.describe_acls(every).result(SECONDS)})


def ends(broker: Broker, topic: str, *partitions: int, isolation: str = "read_uncommitted") -> list[int]:
    """Return the end offsets of partitions (by default 0)."""
    reader = consumer(broker, **{"isolation.level": isolation})
    try:
        places = [TopicPartition(topic, number) for number in partitions or (0,)]
        return [watermarks(reader, place)[1] for place in places]
    finally:
        reader.close()


def decoded(data: bytes) -> list[Any]:
    """Decode batches with aiokafka's decoder: offset, timestamp, key, value and headers of each record."""
    batches, found = MemoryRecords(data), []
    while batch := batches.next_batch():
        found += list(batch)
    return found


def wait_for(what: str, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Poll until the condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return value
