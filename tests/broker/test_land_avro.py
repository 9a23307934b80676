"""Topics of Avro land by a registry of schemas; fastavro writes them, pyarrow reads what landed."""

import io
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import clients
import fastavro
import pytest
import schema_registry
import yaml
from pyarrow import orc
from schema_registry import Registry

from aqueduct.cli import main
from aqueduct.land import registry
from servers.broker import Broker

TIME = {"type": "long", "logicalType": "timestamp-millis"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
FIRST = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]}},
        {"name": "departed", "type": TIME},
        {"name": "notes", "type": {"type": "map", "values": "string"}},
    ],
}
SECOND = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "crew", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "id", "type": "long"},
        {"name": "departed", "type": ["null", TIME]},
        {"name": "carrier", "type": "string"},
        {
            "name": "fare",
            "type": ["null", {"type": "record", "name": "Fare", "fields": [{"name": "sum", "type": MONEY}]}],
        },
    ],
}
WRONG = {"type": "record", "name": "Flight", "fields": [{"name": "id", "type": "double"}]}
COLUMNS = [
    {"name": "id", "type": "bigint"},
    {"name": "carrier", "type": "string"},
    {"name": "departed", "type": "timestamp"},
    {"name": "crew", "type": "array<string>"},
    {"name": "fare", "type": "decimal(12,2)", "from": "fare.sum"},
]
START = datetime(2013, 11, 1, tzinfo=UTC)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(registry, "ASK_SECONDS", 0.5)
    monkeypatch.setattr(registry, "PAUSE_SECONDS", 0.05)
    registry.schema.cache_clear()
    found = Registry()
    for id_, schema in ((1, FIRST), (2, SECOND), (3, WRONG)):
        found.add(id_, schema)
    with schema_registry.serving(found):
        yield found


def written(id_: int, schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO(struct.pack(">BI", 0, id_))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def first(number: int) -> dict[str, Any]:
    departed = START + timedelta(minutes=number)
    return {"id": number, "carrier": "UA", "departed": departed, "notes": {"a": "b" * (number % 7)}}


def second(number: int) -> dict[str, Any]:
    return {
        "id": 2**40 + number,
        "carrier": "ÜA",
        "departed": START + timedelta(minutes=number) if number % 3 else None,
        "crew": [None, "x" * (number % 5)],
        "fare": {"sum": Decimal(number).scaleb(-2)} if number % 2 else None,
    }


def expected(value: dict[str, Any]) -> dict[str, Any]:
    """Return a row as pyarrow reads it."""
    departed = value["departed"]
    return {
        "id": value["id"],
        "carrier": value["carrier"],
        "departed": departed and departed.replace(tzinfo=None),
        "crew": value.get("crew"),
        "fare": value["fare"]["sum"] if value.get("fare") else None,
    }


def rows(folder: Path) -> list[dict[str, Any]]:
    paths = [path for path in folder.rglob("*.orc") if "_land" not in path.parts]
    found = [row for path in paths for row in orc.ORCFile(path).read().to_pylist()]
    return sorted(found, key=lambda row: (row["k_partition"], row["k_offset"]))


def command(broker: Broker, folder: Path, *tables: dict[str, Any]) -> list[str]:
    file = folder / "lake.yml"
    file.write_text(yaml.safe_dump({"land_tables": list(tables)}))
    (folder / "lake").mkdir(exist_ok=True)
    common = ["--bootstrap-servers", broker.plaintext, "--declarations", str(file)]
    return ["land", *common, "--location", (folder / "lake").as_uri()]


def flights(topic: str, served: Registry) -> dict[str, Any]:
    return {
        "table": "lake.flights",
        "topics": [topic],
        "format": "avro_registry",
        "registry": served.url,
        "columns": COLUMNS,
        "partition_by": [{"name": "day", "of": "departed", "every": "day"}],
    }


def test_versions_poison_and_unknown_ids(brokers: list[Broker], tmp_path: Path, served: Registry) -> None:
    topic = clients.create(brokers[0], clients.unique("flights"), 2)
    poison = {
        "schema 9: the registry has none of this id": struct.pack(">BI", 0, 9),
        "schema 3: id: double isn't bigint": written(3, WRONG, {"id": 0.5}),
        "it doesn't begin with 0 and a schema's id, as records with a registry do": b'{"id": 1}',
        "it ends too early": written(1, FIRST, first(1))[:-1],
        "there are bytes behind its end": written(2, SECOND, second(1)) + b"\0",
    }
    good, bad = [], []
    for partition in range(2):
        values: list[bytes] = []
        for number in range(3_000):
            value, id_, schema = (first(number), 1, FIRST) if number < 1_500 else (second(number), 2, SECOND)
            if number % 500 == 250:
                for reason, data in poison.items():
                    bad.append((partition, len(values), reason, data))
                    values.append(data)
            good.append({"k_partition": partition, "k_offset": len(values)} | expected(value))
            values.append(written(id_, schema, value))
        clients.produce(brokers[0], topic, values, partition)
    land = command(brokers[0], tmp_path, flights(topic, served))
    assert main([*land, "--until-caught-up"]) == 0
    names = list(good[0])
    assert [{name: row[name] for name in names} for row in rows(tmp_path / "lake/lake/flights")] == good
    found = rows(tmp_path / "lake/lake/flights_bad")
    assert [(row["k_partition"], row["k_offset"], row["error"], row["value"]) for row in found] == bad
    assert sorted(served.asked) == sorted([
        "/schemas/types",
        *("/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/3", "/schemas/ids/9"),
    ])  # fmt: skip
    assert main([*land[:1], "verify", *land[1:]]) == 0


def test_a_registry_that_is_away_is_nobodys_poison(
    brokers: list[Broker], tmp_path: Path, served: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table fails and the others land; when it is back, nothing is missing."""
    topic, other = (clients.create(brokers[0], clients.unique(name)) for name in ("flights", "plain"))
    clients.produce(brokers[0], topic, [written(1, FIRST, first(number)) for number in range(100)])
    clients.produce(brokers[0], other, ['{"id": 1}'])
    plain = {"table": "lake.plain", "topics": [other], "columns": COLUMNS[:1]}
    land = [*command(brokers[0], tmp_path, flights(topic, served), plain), "--until-caught-up"]
    for answers, asked in (([503] * 100, "/schemas/types"), ([200, *[503] * 100], "/schemas/ids/1")):
        served.status = answers
        assert main(land) == 1
        said = f"lake.flights: the schema registry {served.url} can't be used (it answers 503, asked for "
        assert f"{said}{asked})" in capsys.readouterr().err
        assert len(rows(tmp_path / "lake/lake/plain")) == 1
        assert not list((tmp_path / "lake/lake").rglob("flights*/_land/commits/*"))
    served.status = []
    assert main(land) == 0
    assert [row["id"] for row in rows(tmp_path / "lake/lake/flights")] == list(range(100))
    assert rows(tmp_path / "lake/lake/flights_bad") == []


def test_a_schema_that_is_declared(brokers: list[Broker], tmp_path: Path) -> None:
    topic = clients.create(brokers[0], clients.unique("flights"))
    values = [written(2, SECOND, second(number))[5:] for number in range(100)]
    clients.produce(brokers[0], topic, [*values, b"\1"])
    declared = {
        "table": "lake.flights",
        "topics": [topic],
        "format": "avro",
        "schema": SECOND,
        "columns": COLUMNS,
    }
    assert main([*command(brokers[0], tmp_path, declared), "--until-caught-up", "--fail-on-poison"]) == 3
    names = [column["name"] for column in COLUMNS]
    found = [{name: row[name] for name in names} for row in rows(tmp_path / "lake/lake/flights")]
    assert found == [expected(second(number)) for number in range(100)]
    assert [row["error"] for row in rows(tmp_path / "lake/lake/flights_bad")] == ["it ends too early"]
