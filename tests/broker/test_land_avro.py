"""Topics of Avro land by a registry of schemas; fastavro writes them, pyarrow reads what landed."""

import io
import json
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from kit import clients
from kit.identifiers import printed
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.estate.schema_registry import API
from aqueduct.land import declaration, registry
from servers import schema_registry
from servers.broker import Broker
from servers.pki import Authority
from servers.schema_registry import SchemaRegistry

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


@pytest.fixture(scope="module")
def running(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    folder = tmp_path_factory.mktemp("registry") / "files"
    with schema_registry.running(folder, brokers[0], "lake") as found:
        yield found


@pytest.fixture
def served(running: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> SchemaRegistry:
    monkeypatch.setattr(registry, "PAUSE_SECONDS", 0.05)
    registry.cache.clear()
    return running


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
    common = ["--bootstrap-server", broker.plaintext, "--declarations", str(file)]
    return ["land", *common, "--location", (folder / "lake").as_uri()]


def flights(broker: Broker, topic: str, served: SchemaRegistry) -> dict[str, Any]:
    return {
        "table": "lake.flights",
        "topics": [topic],
        "format": "avro_registry",
        "registry": served.url,
        "registry_config": str(broker.authority.client_config("lander")),
        "columns": COLUMNS,
        "partition_by": [{"name": "day", "of": "departed", "every": "day"}],
    }


def test_versions_poison_and_unknown_ids(
    brokers: list[Broker], tmp_path: Path, served: SchemaRegistry
) -> None:
    topic = clients.create(brokers[0], clients.unique("flights"), 2)
    one, two, wrong = (served.register(f"{topic}-value", schema) for schema in (FIRST, SECOND, WRONG))
    none = 2**31 - 1
    poison = {
        f"schema {none}: the registry has no schema with this id": struct.pack(">BI", 0, none),
        f"schema {wrong}: id: double does not fit the column type bigint": written(wrong, WRONG, {"id": 0.5}),
        (
            "it does not begin with the byte 0 and a schema id, as records with a schema registry do"
        ): b'{"id": 1}',
        "it ends too early": written(one, FIRST, first(1))[:-1],
        "more bytes follow after the end of the record": written(two, SECOND, second(1)) + b"\0",
    }
    good, bad = [], []
    for partition in range(2):
        values: list[bytes] = []
        for number in range(3_000):
            newer = number >= 1_500
            value, id_, schema = (second(number), two, SECOND) if newer else (first(number), one, FIRST)
            if number % 500 == 250:
                for reason, data in poison.items():
                    bad.append((partition, len(values), reason, data))
                    values.append(data)
            good.append({"k_partition": partition, "k_offset": len(values)} | expected(value))
            values.append(written(id_, schema, value))
        clients.produce(brokers[0], topic, values, partition)
    land = command(brokers[0], tmp_path, flights(brokers[0], topic, served))
    assert main([*land, "--until-caught-up"]) == 0
    names = list(good[0])
    assert [{name: row[name] for name in names} for row in rows(tmp_path / "lake/lake/flights")] == good
    found = rows(tmp_path / "lake/lake/flights_bad")
    assert [(row["k_partition"], row["k_offset"], row["error"], row["value"]) for row in found] == bad
    assert main([*land[:1], "verify", *land[1:]]) == 0


def test_a_schema_that_refers_to_another(
    brokers: list[Broker], tmp_path: Path, served: SchemaRegistry
) -> None:
    topic = clients.create(brokers[0], clients.unique("flights"))
    carrier = {"type": "enum", "name": "air.Carrier", "symbols": ["AA", "UA"]}
    fields = [{"name": "id", "type": "int"}, {"name": "carrier", "type": "air.Carrier"}]
    flight = {"type": "record", "name": "air.Flight", "fields": fields}
    served.register(f"{topic}%2FCarrier", carrier)
    refers = {"name": "air.Carrier", "subject": f"{topic}/Carrier", "version": 1}
    id_ = served.register(f"{topic}-value", flight, [refers])
    whole = {**flight, "fields": [fields[0], {"name": "carrier", "type": carrier}]}
    values = [written(id_, whole, {"id": number, "carrier": "UA"}) for number in range(10)]
    clients.produce(brokers[0], topic, values)
    land = command(brokers[0], tmp_path, flights(brokers[0], topic, served))
    assert main([*land, "--until-caught-up", "--fail-on-poison"]) == 0
    found = [(row["id"], row["carrier"]) for row in rows(tmp_path / "lake/lake/flights")]
    assert found == [(number, "UA") for number in range(10)]


def test_a_registry_that_is_away_is_nobodys_poison(
    brokers: list[Broker],
    tmp_path: Path,
    served: SchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed, its table fails and the others land; when it is back, nothing is missing there and here."""
    topic, other = (clients.create(brokers[0], clients.unique(name)) for name in ("flights", "plain"))
    one, two = (served.register(f"{topic}-value", schema) for schema in (FIRST, SECOND))
    plain = {"table": "lake.plain", "topics": [other], "columns": COLUMNS[:1]}
    land = [*command(brokers[0], tmp_path, flights(brokers[0], topic, served), plain), "--until-caught-up"]
    clients.produce(brokers[0], topic, [written(one, FIRST, first(number)) for number in range(100)])
    assert main(land) == 0
    served.process.kill()
    clients.produce(brokers[0], topic, [written(two, SECOND, second(number)) for number in range(100)])
    clients.produce(brokers[0], other, ['{"id": 1}'])
    registry.cache.clear()  # as another process has asked for none
    with monkeypatch.context() as patch:
        patch.setattr(registry, "ASK_SECONDS", 0.5)
        assert main(land) == 1
    said = capsys.readouterr().err
    assert printed(said) == ["schema-registry-unreachable"]
    assert [fact for fact in ("lake.flights: ", served.url, "[Errno 111]") if fact not in said] == []
    assert len(rows(tmp_path / "lake/lake/plain")) == 1
    assert len(rows(tmp_path / "lake/lake/flights")) == 100
    assert len(list((tmp_path / "lake/lake/flights/_land/commits").iterdir())) == 1
    served.process.start()
    assert main(land) == 0
    ids = [*range(100), *(2**40 + number for number in range(100))]
    assert [row["id"] for row in rows(tmp_path / "lake/lake/flights")] == ids
    assert rows(tmp_path / "lake/lake/flights_bad") == []
    subject = f"{topic}-value"
    assert [served.register(subject, schema) for schema in (FIRST, SECOND)] == [one, two]
    assert served.register(subject, WRONG) > two


def test_landing_waits_for_killed_schema_registry(
    brokers: list[Broker], tmp_path: Path, served: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = clients.create(brokers[0], clients.unique("flights"))
    id_ = served.register(f"{topic}-value", SECOND)
    clients.produce(brokers[0], topic, [written(id_, SECOND, second(number)) for number in range(100)])
    monkeypatch.setattr(registry, "ASK_SECONDS", 1000)  # which includes the registry's start
    exchange, sleep, happened = registry._exchange, time.sleep, []

    def killed_first(of: declaration.SchemaRegistry, path: str) -> tuple[int, bytes]:
        if path.startswith("/schemas/ids/") and not happened:
            happened.append("killed")
            served.process.kill()
        return exchange(of, path)

    def back(seconds: float) -> None:
        if happened == ["killed"]:
            happened.append("back")
            served.process.start()
        else:
            sleep(seconds)

    monkeypatch.setattr(registry, "_exchange", killed_first)
    monkeypatch.setattr(registry.time, "sleep", back)
    land = command(brokers[0], tmp_path, flights(brokers[0], topic, served))
    assert main([*land, "--until-caught-up", "--fail-on-poison"]) == 0
    assert happened == ["killed", "back"]
    found = [row["id"] for row in rows(tmp_path / "lake/lake/flights")]
    assert found == [2**40 + number for number in range(100)]


def test_both_ends_show_certificates_of_the_authority(
    brokers: list[Broker],
    tmp_path: Path,
    served: SchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(registry, "ASK_SECONDS", 0.5)
    topic = clients.create(brokers[0], clients.unique("flights"))
    id_ = served.register(f"{topic}-value", SECOND)
    clients.produce(brokers[0], topic, [written(id_, SECOND, second(1))])
    ours, strangers = brokers[0].authority, Authority(tmp_path / "strangers")
    nameless = tmp_path / "nameless.properties"
    nameless.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={ours.certificate}\n"
    )
    wrong = (nameless, strangers.client_config("lander", trust=ours), strangers.client_config("doubter"))
    for config in wrong:
        declared = flights(brokers[0], topic, served) | {"registry_config": str(config)}
        assert main([*command(brokers[0], tmp_path, declared), "--until-caught-up"]) == 1
        said = capsys.readouterr().err
        assert printed(said) == ["schema-registry-unreachable"]
        assert served.url in said
        assert "Traceback" not in said
        assert rows(tmp_path / "lake/lake/flights") == []


def test_schema_writer_cannot_change_registry_configuration(served: SchemaRegistry) -> None:
    subject = clients.unique("kept")
    id_ = served.register(subject, SECOND)
    denied = 401, 403, 404
    for at in (
        "/apis/registry",
        "/apis/registry;x",
        "/apis;x/registry",
        "/;/apis/registry",
        "//apis/registry",
        "/%61pis/registry",
        "/apis/%72egistry",
        f"{API}/../../registry",
        f"{API}/..;/..;/registry",
        f"{API}/%2e%2e/%2e%2e/registry",
        f"{API}/..%2f..%2fregistry",
        "/health/../apis/registry",
        f"{API};x/../../registry",
    ):
        for path in ("v2/admin/rules", "v3/admin/rules", "v3/admin/config/properties", "v3/groups"):
            assert served.ask("GET", f"{at}/{path}")[0] in denied
            rule = json.dumps({"ruleType": "VALIDITY", "config": "FULL"})
            assert served.ask("POST", f"{at}/{path}", rule)[0] in denied
    for path in (
        "/",
        "/ui/config.js",
        "/metrics",
        "/apis/ccompat/v6/subjects",
        f"{API};x/subjects",
        f"{API}/subjects;x/{subject}/versions",
        f"{API}/schemas/ids/{id_};x",
    ):
        assert served.ask("GET", path)[0] in denied
    for method, path in (
        ("DELETE", f"/subjects/{subject}"),
        ("DELETE", f"/subjects/{subject}?permanent=true"),
        ("PUT", "/config"),
    ):
        body = json.dumps({"compatibility": "NONE"}) if method == "PUT" else None
        assert served.ask(method, f"{API}{path}", body)[0] in (401, 403)
    assert served.ask("GET", f"{API}/schemas/ids/{id_}")[0] == 200


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
