"""Schemas by their ids, from a registry that answers over HTTP what it is told."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from kit import clients, schema_registry
from kit.identifiers import raises
from kit.schema_registry import Registry

from aqueduct.kafka import client_config
from aqueduct.land import avro_schema, declaration, registry, registry_paths
from aqueduct.land.avro_schema import Unasked, WrongSchema
from aqueduct.land.avro_values import AvroReader
from aqueduct.land.declaration import SchemaRegistry
from aqueduct.land.registry import MOST_REQUESTS, MOST_UNKNOWN, RegistryAway, TaskSchemas

R = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}


class Clock:
    """A clock in place of the module time: only pauses make it go, however long requests take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "time", Clock())
    monkeypatch.setattr(registry, "ASK_SECONDS", 0.3)
    monkeypatch.setattr(registry, "PAUSE_SECONDS", 0.01)
    registry.cache.clear()


@pytest.fixture
def served() -> Iterator[Registry]:
    with schema_registry.serving(Registry()) as found:
        yield found


def by(served: Registry, config: Path | None = None) -> SchemaRegistry:
    return SchemaRegistry(served.url, client_config.load(config))


def test_a_schema_is_asked_for_once(served: Registry) -> None:
    served.add(7, R)
    for _ in range(3):
        assert str(avro_schema.at(registry.schema(by(served), 7), ("x",))) == "long"
    assert served.asked == ["/schemas/ids/7"]


def test_one_connection_is_kept_for_all_questions(served: Registry) -> None:
    for id_ in range(50):
        served.add(id_, R)
        registry.schema(by(served), id_)
    with pytest.raises(WrongSchema):
        registry.schema(by(served), 50)
    assert len(served.asked) == 51
    assert served.connections == 1


def test_connection_closed_by_server_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ASK_SECONDS", 0)  # so that nothing is asked a second time
    with schema_registry.serving(Registry(idle_seconds=0.05)) as idle:
        for id_ in range(3):
            idle.add(id_, R)
            assert registry.schema(by(idle), id_).name == "R"
            clients.wait_for("the server closes it", lambda: idle.closed == idle.connections)
        assert idle.connections == 3


def written(id_: int) -> bytes:
    """Return a record of R by the schema of that id."""
    return b"\0" + id_.to_bytes(4) + b"\2"


def reader(served: Registry) -> AvroReader:
    declared = {
        "table": "a.b",
        "topics": ["t"],
        "format": "avro_registry",
        "registry": served.url,
        "columns": [{"name": "x", "type": "bigint"}],
    }
    [table] = declaration.parse([declared], "lake.yml")
    return AvroReader(table.columns, find=TaskSchemas(by(served)))


def test_unknown_schema_ids_are_rejected_after_few_requests(served: Registry) -> None:
    """Those of most records come first, so one that exists is found among many that do not."""
    served.add(7, R)
    invented = [written(1_000 + number) for number in range(30_000)]
    values = invented[:9_000] + [written(7)] * 1_000 + invented[9_000:]
    read = reader(served).read(pa.array(values, pa.binary()))
    assert len(served.asked) == MOST_UNKNOWN + 1
    assert served.connections == 1
    assert read.table.num_rows == 1_000
    assert len(read.faults) == len(invented)
    reasons = {each.reason.partition(",")[0] for each in read.faults}
    assert "its schema was not requested" in reasons
    assert len(reasons) == MOST_UNKNOWN + 1


def test_known_schema_ids_are_read_despite_unknown_ones(served: Registry) -> None:
    """Another task of the process has read them; a new task asks anew for those that were unknown."""
    served.add(7, R)
    registry.schema(by(served), 7)
    values = [*map(written, range(1_000, 1_000 + 2 * MOST_UNKNOWN)), written(7)]
    for _ in range(2):
        read = reader(served).read(pa.array(values, pa.binary()))
        assert read.table.num_rows == 1
        assert len(read.faults) == 2 * MOST_UNKNOWN
    assert len(served.asked) == 1 + 2 * MOST_UNKNOWN


def test_requests_for_valid_schema_ids_are_limited(served: Registry) -> None:
    """A producer that may register schemas has valid ids without limit; a next task reads more of them."""
    ids = range(1_000, 1_000 + 2 * MOST_REQUESTS + 50)
    for id_ in ids:
        served.add(id_, R)
    for task in (1, 2):
        read = reader(served).read(pa.array([*map(written, ids)], pa.binary()))
        assert len(served.asked) == task * MOST_REQUESTS
        assert read.table.num_rows == task * MOST_REQUESTS
        assert {fault.reason.partition(",")[0] for fault in read.faults} == {"its schema was not requested"}


def test_references_of_schemas_count_as_requests(served: Registry) -> None:
    """A hundred unknown ids of which each refers to a thousand schemas would be 100,000 requests."""
    for id_ in range(1_000, 1_010):
        names = [f"s{id_}x{number}" for number in range(900)]
        for name in names:
            enum = {"type": "enum", "name": name, "symbols": ["X"]}
            served.subjects[f"/subjects/{name}/versions/1"] = {"schema": json.dumps(enum)}
        served.add(id_, R, references=[{"name": name, "subject": name, "version": 1} for name in names])
    read = reader(served).read(pa.array([written(id_) for id_ in range(1_000, 1_010)], pa.binary()))
    assert len(served.asked) == MOST_REQUESTS
    assert read.table.num_rows == 2
    assert len(read.faults) == 8
    assert {fault.reason.partition(",")[0] for fault in read.faults} == {"its schema was not requested"}


def large(id_: int) -> dict[str, Any]:
    """Return a schema of 1,000 characters or somewhat more."""
    return {**R, "doc": f"{id_:1000}"}


def test_cached_schemas_are_limited_by_their_text(served: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CACHED_TEXT", 10_000)
    for id_ in range(50):
        served.add(id_, large(id_))
        registry.schema(by(served), id_)
        registry.schema(by(served), 0)  # which is used again and again
        assert registry.cache.text <= 10_000
    assert 5 < len(registry.cache) < 10
    assert len(served.asked) == 50
    registry.schema(by(served), 49)
    assert len(served.asked) == 50
    registry.schema(by(served), 1)
    assert len(served.asked) == 51


def test_number_of_cached_schemas_is_limited(served: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CACHED", 3)
    for id_ in range(9):
        served.add(id_, R)
        registry.schema(by(served), id_)
    assert len(registry.cache) == 3


def _is_asked(find: TaskSchemas, id_: int) -> bool:
    try:
        return find(id_).name == "R"
    except Unasked:
        return False


def test_text_of_a_task_s_schemas_is_limited(served: Registry) -> None:
    for id_ in range(50):
        served.add(id_, large(id_))
    find = TaskSchemas(by(served), requests=registry.Requests(text=10_000))
    found = list(itertools.takewhile(lambda id_: _is_asked(find, id_), range(50)))
    assert 5 < len(found) <= 10
    assert find(0).name == "R"  # this process has it
    assert TaskSchemas(by(served))(49).name == "R"


def test_long_schema_with_references_makes_bad_record(
    served: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_schema, "MOST_TEXT", 5_000)
    references = []
    for number in range(9):
        enum = {"type": "enum", "name": f"E{number}", "symbols": ["X"], "doc": "x" * 1_000}
        served.subjects[f"/subjects/e{number}/versions/1"] = {"schema": json.dumps(enum)}
        references.append({"name": f"E{number}", "subject": f"e{number}", "version": 1})
    served.add(7, R, references=references)
    served.add(8, R, references=references[:3])
    with pytest.raises(WrongSchema, match="5,000"):
        registry.schema(by(served), 7)
    assert len(served.asked) < 7
    assert registry.schema(by(served), 8).name == "R"


def test_answer_of_any_size_makes_bad_record(served: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ANSWER_BYTES", 5_000)
    served.add(7, R, metadata="x" * 5_000)
    with pytest.raises(WrongSchema, match="5,000"):
        registry.schema(by(served), 7)
    served.types = ["AVRO"] * 5_000
    with pytest.raises(RegistryAway):
        registry.check(by(served))


def test_unavailable_registry_rejects_no_record_at_limit(served: Registry) -> None:
    """Repeated requests count, but the question that they belong to is answered, or fails the task."""
    schemas = TaskSchemas(by(served))
    schemas.requests.left = 2
    served.status = [500] * 1_000
    with pytest.raises(RegistryAway):
        schemas(7)
    assert schemas.requests.left <= 0
    served.status = []
    with pytest.raises(Unasked):
        schemas(7)


def test_impossible_schema_id_is_not_requested(served: Registry) -> None:
    """A registry whose ids are of 31 bits answers 404 without its own code, as a proxy does."""
    served.status = [404] * 1_000
    read = reader(served).read(pa.array([written(2**31), written(2**32 - 1)], pa.binary()))
    assert served.asked == []
    assert len(read.faults) == 2


def test_proxies_of_the_environment_are_not_asked(served: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    served.add(7, R)
    assert registry.schema(by(served), 7).name == "R"


def test_what_passes_is_borne_with(served: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ASK_SECONDS", 60)
    served.add(7, R)
    served.status = [500, 503, 429]
    assert registry.schema(by(served), 7).name == "R"
    assert len(served.asked) == 4


@pytest.mark.parametrize(("status", "least"), [([500] * 1000, 2), ([403], 1)])
def test_no_answer_is_no_wrong_record(served: Registry, status: list[int], least: int) -> None:
    served.add(7, R)
    served.status = [*status]
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.schema(by(served), 7)
    assert str(status[0]) in str(away.value)
    assert "/schemas/ids/7" in str(away.value)
    assert len(served.asked) >= least
    served.status = []
    assert registry.schema(by(served), 7).name == "R"


def test_nobody_is_there() -> None:
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.check(SchemaRegistry("http://127.0.0.1:1", client_config.load(None)))
    assert "http://127.0.0.1:1" in str(away.value)


WRONG: dict[str, tuple[dict[str, Any] | None, str]] = {
    "unknown": (None, r"\bregistry\b.* id\b"),
    "of another kind": ({"schema": "", "schemaType": "PROTOBUF"}, "PROTOBUF.* Avro"),
    "no schema": ({"other": 1}, r"\bregistry.* schema\b"),
    "no JSON": ({"schema": "{"}, r"\bJSON\b"),
    "no record": ({"schema": '"long"'}, r"\blong\b"),
    "without end": ({"schema": '{"type":' * 100_000}, avro_schema.DEEP),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_schema_is_its_records_fault(served: Registry, what: str) -> None:
    answer, said = WRONG[what]
    if answer:
        served.schemas[7] = answer
    with pytest.raises(WrongSchema, match=said):
        registry.schema(by(served), 7)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"references": 5}, r"\breferences\b"),
        ({"references": [{"subject": "s"}]}, r"\bsubject\b.*\bversion\b"),
        ({"schema": '{"type": "fixed", "name": "F", "size": 1' + "0" * 30 + "}"}, r"\bF\b"),
        ({"schema": '{"type": "fixed", "name": "F", "size": ' + "1" * 5_000 + "}"}, r"\bJSON\b"),
        ({"schema": '"\\ud800"'}, r"\btype \?"),
    ],
)
def test_a_strange_schema_is_its_records_fault(served: Registry, answer: dict[str, Any], said: str) -> None:
    served.add(7, R)
    served.schemas[7] |= answer
    with pytest.raises(WrongSchema, match=said) as error:
        registry.schema(by(served), 7)
    str(error.value).encode()


def test_404_without_error_code_means_unreachable_registry(
    served: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy, or a wrong path: for that no record is bad."""
    served.add(7, R)
    served.status = [404]
    with monkeypatch.context() as patched:
        patched.setattr(registry, "ASK_SECONDS", 60)
        assert registry.schema(by(served), 7).name == "R"
    served.status = [404] * 1000
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.schema(by(served), 8)
    assert "404" in str(away.value)
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.check(by(served))
    assert "404" in str(away.value)
    served.status, served.types = [], {"hello": "world"}
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.check(by(served))
    assert "/schemas/types" in str(away.value)


def test_references_are_followed(served: Registry) -> None:
    inner = {"type": "enum", "name": "a.E", "symbols": ["X"]}
    middle = {"type": "record", "name": "a.M", "fields": [{"name": "e", "type": "a.E"}]}
    outer = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "m", "type": "a.M"}, {"name": "e", "type": "a.E"}],
    }
    to_inner = {"name": "a.E", "subject": "inner/x", "version": 2}
    to_middle = {"name": "a.M", "subject": "middle", "version": 1}
    served.add(7, outer, references=[to_middle, to_inner])
    with schema_registry.serving(Registry()) as whole:
        whole.add(1, inner)
        whole.add(2, middle, references=[to_inner])
        served.subjects = {
            "/subjects/inner%2Fx/versions/2": whole.schemas[1],
            "/subjects/middle/versions/1": whole.schemas[2],
        }
    assert str(avro_schema.at(registry.schema(by(served), 7), ("m", "e"))) == "enum"
    served.add(8, outer, references=[{"name": "a.M", "subject": "gone", "version": 1}])
    with pytest.raises(WrongSchema, match=r"\bgone\b"):
        registry.schema(by(served), 8)


@pytest.mark.parametrize("subject", ["a;b", "50%", ".", "..", "a//b", "a/../b", "", "a\nb", "a\\b"])
def test_subject_denied_by_estate_registry_makes_bad_record(served: Registry, subject: str) -> None:
    """Anybody who registers a schema chooses the subjects that it refers to; their 404 has no code."""
    apicurio = SchemaRegistry(f"{served.url}/apis/ccompat/v7", client_config.load(None))
    path = f"/subjects/{quote(subject, safe='')}/versions/1"
    assert registry_paths.is_denied(f"{registry_paths.API}{path}")
    served.denied = {path}
    served.add(7, R, references=[{"name": "a.M", "subject": subject, "version": 1}])
    with pytest.raises(WrongSchema):
        registry.schema(apicurio, 7)
    served.ready = [503] * 1000
    with raises(RegistryAway, "schema-registry-unreachable"):
        registry.schema(apicurio, 7)
    # Another registry may have it: its 404 without a code is of a proxy.
    with raises(RegistryAway, "schema-registry-unreachable"):
        registry.schema(by(served), 7)


def test_subject_unfit_for_url_path_makes_bad_record(served: Registry) -> None:
    served.add(7, R, references=[{"name": "a.M", "subject": "\ud800", "version": 1}])
    served.add(8, R, references=[{"name": "a.M", "subject": "x" * 5_000, "version": 1}])
    served.status = [200, 200, 414]
    for id_ in (7, 8):
        with pytest.raises(WrongSchema):
            registry.schema(by(served), id_)


def test_answer_byte_by_byte_means_unreachable_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read of the socket lacks an answer."""
    monkeypatch.setattr(registry, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(registry, "ASK_SECONDS", 0)
    content = json.dumps({"schema": json.dumps(R)}).encode()

    def serve() -> None:
        client, _ = listener.accept()
        with client, suppress(OSError):
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content))
            for byte in content:
                time.sleep(0.05)
                client.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, daemon=True).start()
        slow = SchemaRegistry(f"http://127.0.0.1:{listener.getsockname()[1]}", client_config.load(None))
        with raises(RegistryAway, "schema-registry-unreachable"):
            registry.schema(slow, 7)


def test_a_user_is_told_by_a_file(served: Registry, tmp_path: Path) -> None:
    served.user = "lake:s3:cret"
    config = tmp_path / "registry.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=lake\nsasl.password=s3:cret\n"
    )
    registry.check(by(served, config))
    with raises(RegistryAway, "schema-registry-unreachable") as error:
        registry.check(by(served))
    assert "401" in str(error.value)
    assert "cret" not in str(error.value)


def test_apicurio_is_unavailable_while_reading_its_journal(
    served: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says of each schema that there is none, until it is ready."""
    apicurio = SchemaRegistry(f"{served.url}/apis/ccompat/v7", client_config.load(None))
    served.unread = {7: {"schema": json.dumps(R)}}
    served.ready = [503, 503]
    with monkeypatch.context() as patched:
        patched.setattr(registry, "ASK_SECONDS", 60)
        assert registry.schema(apicurio, 7).name == "R"
    assert served.asked.count("/health/ready") == 3
    with pytest.raises(WrongSchema, match=r"\bregistry\b.* id\b"):
        registry.schema(apicurio, 8)
    served.ready = [503] * 1000
    with raises(RegistryAway, "schema-registry-unreachable") as away:
        registry.schema(apicurio, 8)
    assert "/health/ready answers with status 503" in str(away.value)
