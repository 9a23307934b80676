"""Topics of every kind that is easily got wrong, as two scenarios need them."""

from collections.abc import Callable, Iterable
from typing import Literal

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from lab import Lab, Record, wait_until

# What others lose or change: see each kind's headers, nulls, empties, order and times.
KINDS = [
    Record(b"key", b"value", (("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")), 5_000),
    Record(None, b"no key", (), 1_000),
    Record(b"", b"empty key", (), 9_000),
    Record(b"tombstone", None, (("why", b"gone"),), 2_000),
    Record(b"empty value", b"", (), 2_000),
    Record(None, None, (), 3_000),
    Record(b"\x00\xff", bytes(range(256)), (("", b"no name"), ("a", b"1")), 1_357_000_000_000),
    Record(b"large", b"x" * 200_000, (), 4_000),
]

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "600000",
}


def make(lab: Lab, host: str, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
    admin = lab.admin(host)
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()
    wait_until(f"topic {topic}", lambda: topic in admin.list_topics().topics)


def write(lab: Lab, host: str, topic: str, records: Iterable[Record], partition: int = -1) -> None:
    producer = lab.producer(host, "admin")
    failures: list[str] = []
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(300) == 0
    assert failures == []


def transaction(
    lab: Lab, host: str, topic: str, end: Literal["commit", "abort", "open"], number: int
) -> Producer:
    """Seven records; `open` leaves it so, for as long as the producer is kept."""
    settings = lab.client(host) | {
        "transactional.id": f"{topic}-{number}",
        "transaction.timeout.ms": 900_000,  # the most that brokers allow
    }
    producer = Producer(settings)
    producer.init_transactions(300)  # the first of a cluster waits for the coordinator's topic
    producer.begin_transaction()
    for each in range(7):
        producer.produce(
            topic, b"%s %d.%d" % (end.encode(), number, each), partition=0, timestamp=1_000 + each
        )
    producer.flush(300)
    if end == "commit":
        producer.commit_transaction(300)
    elif end == "abort":
        producer.abort_transaction(300)
    return producer


def fill_compacted(lab: Lab, host: str, topic: str) -> Callable[[], bool]:
    """Of many records few keys stay: the cleaner leaves holes inside batches. Returns what tells, when asked
    again and again, that it has."""
    keys = (b"k%d" % (each if each % 5 == 0 else each % 3) for each in range(500))
    write(lab, host, topic, (keyed(each, key) for each, key in enumerate(keys)), 0)

    def compacted() -> bool:
        write(lab, host, topic, [keyed(0, b"roll")], 0)  # only a closed segment is cleaned
        return len(lab.read(host, topic)[0]) < 400

    return compacted


def keyed(value: int, key: bytes) -> Record:
    return Record(key, b"%d" % value, (), 0)  # now: by their records' times segments are closed
