"""The raw client reads what an independent client wrote, against real brokers that are also killed."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from kafka.protocol.admin import AlterClientQuotasRequest
from kit import clients
from kit.clients import create, delete_records, transaction, unique
from kit.identifiers import raises

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import acls, client_config, offsets
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.kafka.fetch import Fetched, Recreated, estimated_bytes, read
from servers.broker import Broker

Record = tuple[int, bytes | None, bytes | None]  # offset, key, value
ONE_BATCH = 1  # of bytes to fetch: a broker gives a whole batch all the same


@pytest.fixture
def make_topic(broker: Broker) -> Callable[..., str]:
    return lambda partitions=1, **config: create(broker, unique("raw"), partitions=partitions, **config)


def write(broker: Broker, topic: str, values: Iterable[object], key: str | None = None) -> None:
    """Write a batch for each value."""
    producer = Producer({"bootstrap.servers": broker.plaintext, "linger.ms": 0})
    for value in values:
        producer.produce(topic, str(value), key, partition=0)
        producer.flush()


def write_batches(broker: Broker, topic: str, batches: int, records: int) -> None:
    """Write batches of so many records."""
    producer = clients.producer_of_batches(broker, topic, records, **{"compression.type": "lz4"})
    for number in range(batches):
        for each in range(records):
            producer.produce(topic, f"{number} {each}", partition=0)
        producer.flush()


def whole(client: Client, topic: str) -> Range:
    """Return the range from the log's start to its last stable offset, once no marker is missing."""
    place = TopicPartition(topic, 0)
    return Range(topic, 0, offsets.log_starts(client, [place])[place], offsets.ends(client, [place])[place])


def decoded(pieces: Iterable[Fetched]) -> list[Record]:
    """Decode pieces with another decoder than ours."""
    records = [
        each for piece in pieces for batch in piece.batches for each in clients.decoded(bytes(batch.data))
    ]
    return [(record.offset, record.key, record.value) for record in records]


def consumed(broker: Broker, wanted: Range) -> list[Record]:
    """Read a range with another client, read-committed."""
    messages = clients.read(broker, wanted.topic, wanted.partition, start=wanted.start)
    found = [(message.offset() or 0, message.key(), message.value()) for message in messages]
    return [record for record in found if record[0] < wanted.stop]


def test_committed_records_come_and_no_others(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write(broker, topic, ["plain 0", "plain 1"])
    transaction(broker, topic, ["committed 2", "committed 3"], "commit")
    transaction(broker, topic, ["aborted 5"], "abort")
    write(broker, topic, ["plain 7"])
    transaction(broker, topic, ["committed 8"], "commit")
    clients.settle(broker, topic)
    assert whole(client, topic) == Range(topic, 0, 0, 10)
    opened = transaction(broker, topic, ["open 10"], "leave")
    write(broker, topic, ["behind the open one 11"])
    wanted = whole(client, topic)
    assert wanted == Range(topic, 0, 0, 10)
    assert offsets.ends(client, [TopicPartition(topic, 0)], "read_uncommitted") == {(topic, 0): 12}
    pieces = list(read(client, wanted))
    assert pieces[-1].next_offset == 10
    assert decoded(pieces) == consumed(broker, wanted)
    assert [offset for offset, _, _ in decoded(pieces)] == [0, 1, 2, 3, 7, 8]
    # The aborted transaction is told with every answer, whatever part of it the answer holds.
    for start in range(10):
        assert decoded(read(client, Range(topic, 0, start, 10), max_bytes=ONE_BATCH)) == [
            record for record in decoded(pieces) if record[0] >= start
        ]
    opened.commit_transaction()


def test_range_is_cut_exactly_from_its_batches(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write_batches(broker, topic, batches=3, records=4)
    every = decoded(read(client, whole(client, topic)))
    assert [value for _, _, value in every] == [f"{b} {r}".encode() for b in range(3) for r in range(4)]
    for start in range(13):
        for stop in range(start, 13):
            pieces = list(read(client, Range(topic, 0, start, stop), max_bytes=ONE_BATCH))
            assert decoded(pieces) == every[start:stop]
            assert [piece.next_offset for piece in pieces][-1:] == ([stop] if stop > start else [])


def test_holes_of_compaction_are_no_loss(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(
        cleanup_policy="compact",
        segment_ms="1",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="0",
    )
    for _ in range(5):
        write(broker, topic, ["old", "new"], key="a")
        write(broker, topic, ["old", "new"], key="b")
        time.sleep(0.01)
    deadline = time.monotonic() + 180
    while len(consumed(broker, wanted := whole(client, topic))) > 5:
        assert time.monotonic() < deadline
        write(broker, topic, ["one more"], key="a")  # only what makes a new segment lets the last be cleaned
    expected = None
    while expected != (expected := consumed(broker, wanted)):  # unless the log is cleaned between two reads
        assert time.monotonic() < deadline
        pieces = list(read(client, wanted, max_bytes=ONE_BATCH))
    assert decoded(pieces) == expected
    assert not any(piece.lost for piece in pieces)
    assert pieces[-1].next_offset == wanted.stop


def test_records_deleted_by_retention_before_reading_are_reported(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write_batches(broker, topic, batches=20, records=2)
    delete_records(broker, topic, 3)  # in the middle of the second batch
    reading = read(client, Range(topic, 0, 0, 40), max_bytes=ONE_BATCH)
    pieces = [next(reading), next(reading)]
    assert (pieces[0].lost, pieces[0].batches) == ((0, 3), ())
    delete_records(broker, topic, 31)
    pieces += reading
    later = next(piece.lost for piece in pieces[1:] if piece.lost)
    assert later[1] == 31
    missing = {*range(3), *range(*later)}
    assert [offset for offset, _, _ in decoded(pieces)] == [n for n in range(40) if n not in missing]


def test_all_of_a_range_may_be_deleted(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write_batches(broker, topic, batches=4, records=2)
    delete_records(broker, topic, 7)
    assert list(read(client, Range(topic, 0, 2, 6))) == [Fetched((), 6, (2, 6))]


def test_wait_beyond_log_end_ends(
    broker: Broker, client: Client, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    write_batches(broker, topic, batches=2, records=10)
    assert len(decoded(read(client, Range(topic, 0, 0, 20)))) == 20
    monkeypatch.setattr(raw, "STALL_SECONDS", 1)
    silent = (Failed, "cluster-not-responding", broker.plaintext, f"{topic}-0", "1 s")
    with raises(*silent):
        list(read(client, Range(topic, 0, 10, 21)))
    with raises(*silent, "offset 25"):
        list(read(client, Range(topic, 0, 25, 30)))


def test_killed_broker_is_waited_for_until_patience_ends(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers[1]
    topic = unique("raw")
    create(broker, topic)
    write_batches(broker, topic, batches=30, records=10)
    end = End("source", broker.plaintext)
    with raw.connect(end, "test") as client, raw.connect(end, "test", patience_seconds=1) as hasty:
        expected = consumed(broker, Range(topic, 0, 0, 300))
        assert len(decoded(read(hasty, Range(topic, 0, 0, 20)))) == 20
        monkeypatch.setattr(raw, "STALL_SECONDS", 600)  # as long as a start takes on a slow machine
        reading = read(client, Range(topic, 0, 0, 300), max_bytes=ONE_BATCH)
        pieces = [next(reading), next(reading)]
        broker.process.kill()
        with ThreadPoolExecutor() as other:
            try:
                with raises(Failed, "cluster-not-responding", broker.plaintext, f"{topic}-0", "1 s"):
                    list(read(hasty, Range(topic, 0, 0, 20)))
            finally:
                started = other.submit(broker.process.start)
            pieces += reading
            started.result()
        assert decoded(pieces) == expected
        assert [a.next_offset for a in pieces] == sorted({a.next_offset for a in pieces})
        assert offsets.ends(client, [TopicPartition(topic, 0)]) == {(topic, 0): 300}


def test_read_fails_when_topic_is_recreated(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write_batches(broker, topic, batches=20, records=2)
    reading = read(client, Range(topic, 0, 0, 40), max_bytes=ONE_BATCH)
    first = next(reading)
    known = client.topics([topic])[topic].id
    clients.recreate(broker, topic)
    write_batches(broker, topic, batches=20, records=2)
    with raises(Recreated, "topic-recreated", topic, known):
        list(reading)
    assert decoded([first])
    with raises(Recreated, "topic-recreated", topic, known):
        list(read(client, Range(topic, 0, 0, 40), topic_id=known))
    again = client.topics([topic])[topic].id
    assert isinstance(again, UUID)
    assert len(decoded(read(client, Range(topic, 0, 0, 40), topic_id=again))) == 40


def test_a_topic_that_is_not_there(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "STALL_SECONDS", 1)
    with raises(Failed, "cluster-not-responding", "nothing.here-0", "1 s", "topic nothing.here"):
        list(read(client, Range("nothing.here", 0, 0, 1)))


def test_tls_and_large_answers(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    principal = f"reader-{uuid4().hex[:8]}"
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        granted = Acl(
            principal=f"User:CN={principal}",
            resource="topic",
            name=topic,
            pattern="literal",
            operation="read",
        )
        apply_acls(client, acls.AclChanges(add=(granted,), remove=()))
    producer = Producer({"bootstrap.servers": broker.plaintext, "linger.ms": 50})
    for number in range(20_000):
        producer.produce(topic, f"{number:01000d}", partition=0)
    producer.flush()
    config = client_config.load(broker.authority.client_config(principal))
    with raw.connect(End("source", broker.tls, config), "test") as client:
        pieces = list(read(client, whole(client, topic)))
    assert [value for _, _, value in decoded(pieces)] == [b"%01000d" % number for number in range(20_000)]
    assert 4 <= len(pieces) <= 8  # of 20 MB


def test_untrusted_client_certificate_is_named_as_cause(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "CONNECT_SECONDS", 4)
    config = client_config.load(brokers[0].authority.client_config("stranger", trust=brokers[1].authority))
    end = End("source", brokers[0].tls, config)
    with (
        raises(Failed, "cluster-unreachable", brokers[0].tls, "certificate verify failed"),
        raw.connect(end, "test"),
    ):
        pass


def test_a_quota_slows_reading_and_loses_nothing(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    write(broker, topic, (os.urandom(10_000).hex() for _ in range(20)))
    wanted = whole(client, topic)
    unhindered = decoded(read(client, wanted))
    entry = AlterClientQuotasRequest.EntryData
    limited = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name="throttled")],
        ops=[entry.OpData(key="consumer_byte_rate", value=100_000.0, remove=False)],
    )
    client.send(AlterClientQuotasRequest(entries=[limited], validate_only=False))
    with raw.connect(End("source", broker.plaintext), "throttled") as slow:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:  # until the broker knows of the quota
            started = time.monotonic()
            assert decoded(read(slow, wanted, max_bytes=1 << 15)) == unhindered
            if time.monotonic() > started + 1:
                return
    raise AssertionError("the quota slowed nothing")


def test_offsets_of_many_partitions_come_together(
    broker: Broker, client: Client, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "PARTITIONS_PER_REQUEST", 2)
    topics = [make_topic(partitions=3), make_topic(partitions=2)]
    for topic in topics:
        write(broker, topic, range(4))
        delete_records(broker, topic, 1)
    places = [
        TopicPartition(topics[each], number) for each, number in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))
    ]
    assert offsets.log_starts(client, places) == dict(zip(places, [1, 0, 0, 1, 0], strict=True))
    assert offsets.ends(client, places) == dict(zip(places, [4, 0, 0, 4, 0], strict=True))
    found = client.topics(topics)
    assert [len(found[topic].partitions) for topic in topics] == [3, 2]
    assert found[topics[0]].partitions[0].replicas == (1,)
    assert found.items() <= client.topics().items()
    assert all(a.number < b.number for topic in found.values() for a, b in pairwise(topic.partitions))


def test_newest_time_is_of_record_or_transaction_end(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=3)
    now = int(time.time() * 1000)
    clients.produce(
        broker, topic, [{"value": "a", "timestamp": now - 5_000}, {"value": "b", "timestamp": now - 9_000}]
    )
    transaction(broker, topic, [{"value": "c", "timestamp": now - 300_000}], "commit", 1)
    asked = [TopicPartition(topic, number) for number in range(3)]
    plain, transactional, empty = (offsets.newest(client, asked)[each] for each in asked)
    assert plain == now - 5_000
    assert now <= transactional <= time.time() * 1000
    assert empty == -1


def test_bytes_of_ranges_are_estimated(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    """Each topic has records of its own size, and only the second half of one is asked for."""
    small, large = make_topic(), make_topic()
    clients.produce(broker, small, (b"s" * 100 for _ in range(20_000)))
    clients.produce(broker, large, (b"l" * 5_000 for _ in range(2_000)))
    wanted = [Range(small, 0, 10_000, 20_000), whole(client, large)]
    stored = sum(
        len(batch.data) for each in wanted for piece in read(client, each) for batch in piece.batches
    )
    assert 0.9 * stored < estimated_bytes(client, wanted) < 1.1 * stored


def test_size_estimate_counts_unsampled_ranges_like_sampled_ones(
    broker: Broker, client: Client, make_topic: Callable[..., str]
) -> None:
    there, absent, empty = make_topic(), unique("absent"), make_topic()
    clients.produce(broker, there, (b"v" * 1_000 for _ in range(100)))
    wanted = whole(client, there)
    alone = estimated_bytes(client, [wanted])
    assert alone > 100_000
    both = [wanted, Range(absent, 0, 0, 100)]
    assert estimated_bytes(client, both) == pytest.approx(2 * alone, abs=2)
    assert estimated_bytes(client, [Range(absent, 0, 0, 100)]) == 0
    assert estimated_bytes(client, [Range(empty, 0, 0, 0)]) == 0
    assert estimated_bytes(client, []) == 0
