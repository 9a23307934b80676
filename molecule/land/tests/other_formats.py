"""The same flights as delimited text, as Avro, and as Avro by a registry, of which some are broken."""

import csv
import io
import itertools
import json
import random
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
from departures import PLACE, ZONE, Departures, Place, Row, instant, milliseconds
from lab import Lab, Record

SITE, RECORDS = "pro1-kafka-1", 3_000
DELIMITED, AVRO, REGISTERED = "flights-delimited", "flights-avro", "flights-registered"
OTHER_TOPICS = {
    "flights.delimited": DELIMITED,
    "flights.avro": AVRO,
    "flights.registered": REGISTERED,
}  # by table
REGISTRY, TLS = "lake-hive-1", "/etc/aqueduct/schema_registry/tls"
# Runs on the registry's host, with its certificate, and prints the id of a schema that is registered then.
REGISTER = f"""
import json, ssl, sys, urllib.request
tls = ssl.create_default_context(cafile="{TLS}/ca.pem")
tls.load_cert_chain("{TLS}/schema-registry-lake.pem")
url = "https://{REGISTRY}:8081/apis/ccompat/v7/subjects/{REGISTERED}-value/versions"
body = json.dumps({{"schema": sys.argv[1]}}).encode()
asked = urllib.request.Request(url, body, {{"Content-Type": "application/json"}})
print(json.load(urllib.request.urlopen(asked, context=tls))["id"])
"""
NAMES = ("number", "carrier", "delay", "fare", "departed", "gate")


def write(lab: Lab, schema: Any, chance: random.Random) -> None:
    """Write flights to all topics; one of a hundred is broken."""
    parsed, failures = fastavro.parse_schema(schema), list[str]()
    older, newer = registered(lab, schema).items()
    producer = lab.producer(SITE, "flights")
    for number, flight in enumerate(itertools.islice(Departures("EWR", chance), RECORDS)):
        try:
            value = json.loads(flight.value)
            flat = _flat(value)
        except (ValueError, TypeError, KeyError):
            continue
        broken = chance.random() < 0.01
        id_, version = older if number < RECORDS / 2 else newer
        values = {
            DELIMITED: _delimited(flat),
            AVRO: _avro(flat, parsed),
            REGISTERED: struct.pack(">BI", 0, id_) + _avro(flat, version),
        }
        for topic, data in values.items():
            if broken:
                data = chance.choice([data[:-1] + b'";', b"", data[: len(data) // 2] + b'"'])
            producer.produce(
                topic, data, flight.key, timestamp=flight.timestamp,
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )  # fmt: skip
        producer.poll(0)
    assert producer.flush(300) == 0
    assert failures == []


def registered(lab: Lab, schema: Any) -> dict[int, Any]:
    """Have the registry know an older version of a schema, and it; return both, by their ids."""
    older = schema | {"fields": [each for each in schema["fields"] if each["name"] != "gate"]}
    return {
        int(
            lab.run(REGISTRY, "/usr/bin/python3", "-c", REGISTER, json.dumps(each)).stdout
        ): fastavro.parse_schema(each)
        for each in (older, schema)
    }


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": value["number"],
        "carrier": value["airline"]["carrier"],
        "delay": value["dep_delay"],
        "fare": None if value["fare"] is None else Decimal(str(value["fare"])).quantize(Decimal("0.01")),
        "departed": value["clock"] and datetime.fromisoformat(value["clock"]),
        "gate": value["gate"] + ';"',
    }


def _delimited(flat: dict[str, Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=";", lineterminator="").writerow([flat[name] for name in NAMES])
    return text.getvalue().encode()


def _avro(flat: dict[str, Any], schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, flat | {"seats": {"economy": flat["number"] % 200}})
    return out.getvalue()


def expected(
    topic: str, read: dict[int, list[tuple[int, Record]]], schema: Any, by_id: dict[int, Any]
) -> tuple[dict[Place, Row], set[Place]]:
    """Return the rows that a topic comes to, by csv or fastavro alone, and where its rejected records are."""
    rows, bad = dict[Place, Row](), set[Place]()
    parsed = fastavro.parse_schema(schema)
    fields_of: dict[str, Callable[[bytes], dict[str, Any]]] = {
        DELIMITED: _read_text,
        AVRO: lambda value: _read_avro(value, parsed),
        REGISTERED: lambda value: _read_registered(value, by_id),
    }
    for partition, records in read.items():
        for offset, record in records:
            place = (topic, partition, offset)
            assert record.value is not None
            try:
                fields = fields_of[topic](record.value)
                rows[place] = dict(zip(PLACE, place, strict=True)) | _row(record, fields)
            except (
                ValueError,
                KeyError,
                struct.error,
                TypeError,
                ArithmeticError,
                EOFError,
                IndexError,
                csv.Error,
            ):
                bad.add(place)
    return rows, bad


def _read_text(value: bytes) -> dict[str, Any]:
    [fields] = csv.reader([value.decode()], delimiter=";", strict=True) if value else [[]]
    text = dict(zip(NAMES, fields, strict=True))
    return {
        "number": int(text["number"]),
        "carrier": text["carrier"],
        "delay": float(text["delay"]) if text["delay"] else None,
        "fare": Decimal(text["fare"]) if text["fare"] else None,
        "departed": datetime.fromisoformat(text["departed"]) if text["departed"] else None,
        "gate": text["gate"],
    }


def _read_avro(value: bytes, schema: Any) -> dict[str, Any]:
    data = io.BytesIO(value)
    fields = fastavro.schemaless_reader(data, schema, None)
    if data.read(1):
        raise ValueError("there are bytes behind its end")
    assert isinstance(fields, dict)
    return fields


def _read_registered(value: bytes, by_id: dict[int, Any]) -> dict[str, Any]:
    magic, id_ = struct.unpack_from(">BI", value)
    if magic:
        raise ValueError("it does not begin with 0")
    return {"gate": None} | _read_avro(value[5:], by_id[id_])


def _row(record: Record, fields: dict[str, Any]) -> Row:
    moment = instant(fields["departed"]) if fields["departed"] else None
    row = {
        "k_timestamp": record.timestamp,
        **{name: fields[name] for name in ("number", "carrier", "delay", "gate")},
        "fare": None if fields["fare"] is None else f"{fields['fare']:.2f}",
        "departed": milliseconds(moment.astimezone(UTC)) if moment else None,
        "day": str(moment.astimezone(ZONE).date()) if moment else None,
    }
    return {name: each for name, each in row.items() if each is not None}
