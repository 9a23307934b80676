"""The measured data: topics of four partitions, recreated by every run with the same seed."""

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 4
EMPTY = "empty"  # a topic: what is read of it is start-up
DIFFERENT = 20_000  # values; more than any of the compressors looks back
SEED = 4
FIELDS = [
    f"{name}_{number}"
    for number in range(3)
    for name in (
        *("customer_id", "session", "order_number", "warehouse", "device_serial", "invoice"),
        *("latitude", "longitude", "checksum", "trace", "amount_in_cents", "batch"),
    )
]


@dataclass(frozen=True)
class Data:
    name: str
    records: int
    record_bytes: int
    batch_bytes: int  # at most; 0: every record in a batch of its own
    values: Callable[[int], Iterator[bytes]]  # DIFFERENT ones of a size

    @property
    def bytes(self) -> int:
        """Return the bytes of the records' values; they have no keys."""
        return self.records * self.record_bytes


def fill(servers: str, data: Data) -> None:
    """Make the topic, named as its data, without compression by the producer."""
    create(servers, data.name)
    one_by_one = {"batch.num.messages": 1, "linger.ms": 0}
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "log_level": 0,
            "queue.buffering.max.kbytes": 1 << 18,
            "compression.type": "none",
            **({"batch.size": data.batch_bytes, "linger.ms": 20} if data.batch_bytes else one_by_one),
        }
    )
    values = list(data.values(data.record_bytes))
    for number in range(data.records):
        while True:
            try:
                producer.produce(data.name, values[number % DIFFERENT], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit(f"{data.name} could not be written")


def create(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.delete_topics([topic])[topic].result()


def _events(size: int) -> Iterator[bytes]:
    """Yield JSON: the same names again and again, and values that nobody can compress."""
    chance = random.Random(SEED)  # noqa: S311
    for number in range(DIFFERENT):
        text = f'{{"time":"2026-01-01T00:00:00.{number:06}Z"'
        for field in cycle(FIELDS):
            text += f',"{field}":"{chance.getrandbits(64):016x}"'
            if len(text) >= size:
                break
        yield text[: size - 1].encode() + b"}"


def _lines(size: int) -> Iterator[bytes]:
    """Log lines: words from a few hundred."""
    chance = random.Random(SEED)  # noqa: S311
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(4, 12))) for _ in range(300)]
    for number in range(DIFFERENT):
        text = f"2026-01-01T00:00:00.{number:06} "
        while len(text) < size:
            text += f"{chance.choice(words)}={chance.choice(words)} {chance.choice(words)} "
        yield text[:size].encode()


DATA = {
    each.name: each
    for each in (
        Data("1-kb-records", 1_000_000, 1_000, 64 << 10, _events),
        Data("log-lines", 3_000_000, 200, 64 << 10, _lines),
        Data("one-record-batches", 300_000, 200, 0, _lines),
    )
}
