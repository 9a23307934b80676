"""The raw client writes in transactions, and independent clients see what they should, and only that."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast
from uuid import uuid4

import pytest
from kafka.errors import MessageSizeTooLargeError
from kafka.protocol.admin import UpdateFeaturesRequest
from kit import clients
from kit.clients import Record, unique
from kit.identifiers import raises

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import acls, client_config, groups, offsets
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.admin.asking import change
from aqueduct.kafka.admin.features import features
from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.produce import Ready, ready
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.kafka.fetch import read
from aqueduct.kafka.produce import Fenced, Retry, TransactionalProducer
from servers import broker as kafka
from servers import zookeeper
from servers.broker import Broker
from servers.process import QUICK

MAX_BYTES = 1 << 20
FEATURE, SAFE_DOWNGRADE = "transaction.version", 2


@pytest.fixture(scope="module")
def classic_transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker whose transactions are as before KIP-890's second part: as after an upgrade from 3.9."""
    with kafka.running(tmp_path_factory.mktemp("classic")) as started:
        with raw.connect(End("target", started.plaintext), "test") as client:
            lowered = UpdateFeaturesRequest.FeatureUpdateKey(
                feature=FEATURE, max_version_level=0, upgrade_type=SAFE_DOWNGRADE
            )
            request = UpdateFeaturesRequest(
                timeout_ms=10_000, feature_updates=[lowered], validate_only=False, min_version=1
            )
            assert change(client, request, lambda answer: [(FEATURE, answer.error_code, "")]) == []
            clients.wait_for("the level", lambda: features(client)[FEATURE].level == 0)
        yield started


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker of Kafka 3.9.2."""
    directory, jvm = tmp_path_factory.mktemp("older"), (*QUICK, zookeeper.LOGGING)
    with kafka.running(directory, jvm=jvm, version="3.9.2") as started:
        yield started


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker of Kafka 4.4.0."""
    with kafka.running(tmp_path_factory.mktemp("newest"), version="4.4.0") as started:
        yield started


@pytest.fixture(params=["transaction.version 2", "transaction.version 0", "3.9.2", "4.4.0"])
def broker(request: pytest.FixtureRequest) -> Broker:
    fixtures = {"transaction.version 0": "classic_transactions", "3.9.2": "older", "4.4.0": "newest"}
    if request.param not in fixtures:
        return cast("list[Broker]", request.getfixturevalue("brokers"))[0]
    return cast("Broker", request.getfixturevalue(fixtures[request.param]))


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with raw.connect(End("target", broker.plaintext), "test") as client:
        yield client


@pytest.fixture
def make_topic(broker: Broker) -> Callable[..., str]:
    return lambda **config: create(broker, **config)


def create(broker: Broker, **config: str) -> str:
    name = clients.create(broker, unique("raw"), partitions=2, **config)
    with raw.connect(End("target", broker.plaintext), "test") as client:
        offsets.ends(
            client, [TopicPartition(name, 0), TopicPartition(name, 1)]
        )  # once it answers, it can be written to
    return name


def fill(broker: Broker, topic: str, batches: int, records: int, size: int = 100) -> None:
    producer = clients.producer_of_batches(broker, topic, records, **{"compression.type": "zstd"})
    for number in range(batches):
        for each in range(records):
            value = f"{number} {each} ".encode() + os.urandom(size)
            key = None if each % 3 else str(each)
            headers: list[tuple[str, str | bytes | None]] = [("h", "1"), ("h", None), ("", b"")]
            producer.produce(topic, value, key, 0, timestamp=1_600_000_000_000 + each * 7, headers=headers)
        producer.flush()


def batches_of(client: Client, topic: str, start: int = 0) -> list[Batch]:
    place = TopicPartition(topic, 0)
    wanted = Range(*place, start, offsets.ends(client, [place])[place])
    return [batch for piece in read(client, wanted) for batch in piece.batches]


def readies(client: Client, topic: str, start: int = 0) -> list[Ready]:
    return list(ready(batches_of(client, topic, start), max_bytes=MAX_BYTES))


def visible(broker: Broker, topic: str) -> list[Record]:
    """Read partition 0, read-committed, up to the log's end or an open transaction."""
    return [clients.record(each) for each in clients.read(broker, topic)]


def position(broker: Broker, group: str, stable: bool = False) -> int:
    """Return the offset that a group committed for its only partition."""
    [found] = clients.committed(broker, group, stable).values()
    return found


def test_records_and_progress_become_visible_together(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic(), make_topic()
    fill(broker, source, batches=20, records=50, size=2000)
    group = f"restore-{uuid4().hex[:8]}"
    groups.commit(client, group, {TopicPartition(target, 0): (0, "")})
    producer = TransactionalProducer(client, group)
    every = readies(client, source)
    assert len(every) > 10
    half = len(every) // 2
    for some in (every[:half], every[half:]):
        before = visible(broker, target), position(broker, group)
        producer.begin()
        for each in some:
            producer.send(target, 0, each)
        progress = some[-1].next_offset, "start 0, ünicode"
        producer.commit_offsets(group, {TopicPartition(target, 0): progress})
        assert (visible(broker, target), position(broker, group)) == before
        producer.commit()
        clients.settle(broker, target)
        assert len(visible(broker, target)) == progress[0]
        assert position(broker, group, stable=True) == progress[0]
        assert groups.progress(client, group, [TopicPartition(target, 0)]) == {
            TopicPartition(target, 0): progress
        }
    assert visible(broker, target) == visible(broker, source)


def test_what_is_aborted_is_never_seen(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic(), make_topic()
    fill(broker, source, batches=3, records=5)
    group = f"restore-{uuid4().hex[:8]}"
    producer = TransactionalProducer(client, group)
    for end in (producer.abort, producer.commit, producer.abort, producer.commit):
        producer.begin()
        for each in readies(client, source):
            producer.send(target, 0, each)
            producer.send(target, 1, readies(client, source)[0])
        producer.commit_offsets(group, {TopicPartition(target, 0): (15, "")})
        end()
    producer.begin()
    producer.commit()  # of nothing
    clients.settle(broker, target)
    assert visible(broker, target) == 2 * visible(broker, source)


def test_a_later_producer_fences_an_earlier_one(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic(), make_topic()
    fill(broker, source, batches=1, records=5)
    name = f"restore-{uuid4().hex[:8]}"
    steps: list[Callable[[TransactionalProducer], None]] = [
        lambda producer: producer.send(target, 1, readies(client, source)[0]),
        lambda producer: producer.commit_offsets(name, {TopicPartition(target, 0): (1, "")}),
        lambda producer: producer.commit(),
    ]
    for step in steps:
        earlier, later = TransactionalProducer(client, name), TransactionalProducer(client, name)
        earlier.begin()
        earlier.send(target, 0, readies(client, source)[0])
        later.begin()
        with raises(Fenced, "producer-fenced", name, broker.plaintext):
            step(earlier)
        with pytest.raises(Fenced):
            earlier.begin()
        later.send(target, 0, readies(client, source)[0])
        later.commit()
    clients.settle(broker, target)
    assert visible(broker, target) == len(steps) * visible(broker, source)


@pytest.mark.parametrize(
    ("size", "kills"),
    [
        (100, [2]),  # all of it is one batch, so the first transaction's progress is the group's first
        pytest.param(4000, [2, 11], marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("patient")
def test_broker_killed_in_transaction_loses_and_doubles_nothing(
    brokers: list[Broker], size: int, kills: list[int]
) -> None:
    """Kill the producer; `kills`: before which batches of the source."""
    broker = brokers[1]
    source, target = create(broker), create(broker)
    fill(broker, source, batches=30, records=20, size=size)
    group = f"restore-{uuid4().hex[:8]}"
    expected = visible(broker, source)
    expected_kills = len(kills)

    def attempt(client: Client, producer: TransactionalProducer) -> bool:
        """Write up to three batches more, from the committed progress on; whether there were any."""
        done, _ = groups.progress(client, group, [TopicPartition(target, 0)]).get(
            TopicPartition(target, 0), (0, "")
        )
        rest = readies(client, source, done)[:3]
        for each in rest:
            if kills and each.next_offset > kills[0] * 20:
                kills.pop(0)
                broker.process.kill()
                restarts.append(other.submit(broker.process.start))
            producer.send(target, 0, each)
            producer.commit_offsets(group, {TopicPartition(target, 0): (each.next_offset, "")})
        producer.commit()
        return bool(rest)

    end = End("target", broker.plaintext)
    restarts: list[Future[None]] = []
    retries = 0
    with ThreadPoolExecutor() as other, raw.connect(end, "test") as client:
        producer = TransactionalProducer(client, group)
        going_on = True
        while going_on:
            producer.begin()
            try:
                going_on = attempt(client, producer)
            except Retry:
                retries += 1
        for restart in restarts:
            restart.result()
        clients.settle(broker, target)
    assert (kills, len(restarts)) == ([], expected_kills)
    assert visible(broker, target) == expected
    assert retries <= 4


def test_rejected_batch_is_named_and_does_not_block(broker: Broker, make_topic: Callable[..., str]) -> None:
    source, target = make_topic(), make_topic(max_message_bytes="2000")
    fill(broker, source, batches=1, records=100, size=300)

    with raw.connect(End("target", broker.plaintext), "test") as client:
        producer = TransactionalProducer(client, f"restore-{uuid4().hex[:8]}")

        def write() -> None:
            producer.begin()
            producer.send(target, 1, next(ready(batches_of(client, source), max_bytes=1500)))
            producer.send(target, 0, readies(client, source)[0])
            producer.commit()

        with pytest.raises(MessageSizeTooLargeError):
            write()
        assert producer.rejected == TopicPartition(target, 0)
        clients.settle(broker, target)
        clients.configure(broker, target, max_message_bytes="1000000")
        write()
    clients.settle(broker, target)
    assert len(visible(broker, target)) == 100


def test_tls_and_the_rights_that_it_takes(broker: Broker, make_topic: Callable[..., str]) -> None:
    source, target = make_topic(), make_topic()
    fill(broker, source, batches=1, records=5)
    name = f"restore-{uuid4().hex[:8]}"
    principal = f"User:CN={name}"
    end = End("target", broker.tls, client_config.load(broker.authority.client_config(name)))

    def write() -> None:
        with raw.connect(End("source", broker.plaintext), "test") as client:
            every = readies(client, source)
        with raw.connect(end, "test") as client:
            producer = TransactionalProducer(client, name)
            producer.begin()
            for each in every:
                producer.send(target, 0, each)
            producer.commit_offsets(name, {TopicPartition(target, 0): (5, "")})
            producer.commit()
            clients.settle(broker, target)

    with pytest.raises(Failed, match=r"TransactionalIdAuthorizationFailed|AuthorizationFailed"):
        write()
    needed = [("transactional_id", name, "write"), ("topic", target, "write"), ("group", name, "read")]
    granted = [
        Acl(principal=principal, resource=kind, name=what, pattern="literal", operation=operation)
        for kind, what, operation in needed
    ]
    granted.append(
        Acl(principal=principal, resource="topic", name=target, pattern="literal", operation="read")
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(add=tuple(granted), remove=()))
    write()
    assert visible(broker, target) == visible(broker, source)


def test_open_transaction_is_aborted_by_next_one(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic(), make_topic()
    fill(broker, source, batches=2, records=3)
    producer = TransactionalProducer(client, f"test-{uuid4()}")
    producer.begin()
    producer.send(target, 0, readies(client, source)[0])
    producer.begin()
    for each in readies(client, source):
        producer.send(target, 0, each)
    producer.commit()
    clients.settle(broker, target)
    assert len(visible(broker, target)) == 6
