"""The landed data: a million flights with as much that differs as real ones have, as JSON and as Avro."""

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer

from bench.data import PARTITIONS, SEED, create

CARRIERS = ["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"]
AIRPORTS = [f"{a}{b}{c}" for a in "ABCDE" for b in "FGHIJ" for c in "KLMN"]
BEGIN = 1_357_000_000  # in 2013
DAYS = 3
FIELDS = {  # names, and types in Avro, Hive and Spark
    "id": ("long", "bigint"),
    "carrier": ("string", "string"),
    "origin": ("string", "string"),
    "dest": ("string", "string"),
    "dep_delay": ("double", "double"),
    "arr_delay": ("double", "double"),
    "distance": ("int", "int"),
    "cancelled": ("boolean", "boolean"),
    "seats": ({"type": "array", "items": "string"}, "array<string>"),
    "departed": ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
    "note": ("string", "string"),
}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": name, "type": avro} for name, (avro, _) in FIELDS.items()],
}


def flights(number: int, note: int) -> Iterator[dict[str, Any]]:
    """Yield flights; `note`: the hexadecimal digits that nobody can guess in each."""
    chance = random.Random(SEED)  # noqa: S311
    for each in range(number):
        yield {
            "id": each,
            "carrier": chance.choice(CARRIERS),
            "origin": chance.choice(AIRPORTS),
            "dest": chance.choice(AIRPORTS),
            "dep_delay": round(chance.gauss(12, 40), 1),
            "arr_delay": round(chance.gauss(7, 45), 1),
            "distance": chance.randrange(80, 5000),
            "cancelled": chance.random() < 0.02,
            "seats": [f"{chance.randrange(1, 60)}{chance.choice('ABCDEF')}" for _ in range(3)],
            "departed": (BEGIN + chance.randrange(DAYS * 86_400)) * 1000 + chance.randrange(1000),
            "note": f"{chance.getrandbits(4 * note):0{note}x}",
        }


def as_json(flight: dict[str, Any]) -> bytes:
    return json.dumps(flight, separators=(",", ":")).encode()


def as_avro() -> Callable[[dict[str, Any]], bytes]:
    schema = parse_schema(AVRO)

    def written(flight: dict[str, Any]) -> bytes:
        schemaless_writer(out := io.BytesIO(), schema, flight)
        return out.getvalue()

    return written


def fill(servers: str, topic: str, number: int, note: int, encode: Callable[[dict[str, Any]], bytes]) -> int:
    """Make a topic of so many flights, and return the bytes of their values."""
    create(servers, topic)
    producer = Producer(
        {"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 20, "log_level": 0}
    )
    size = 0
    for each, flight in enumerate(flights(number, note)):
        size += len(value := encode(flight))
        while True:
            try:
                producer.produce(topic, value, partition=each % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(f"{topic} could not be written")
    return size
