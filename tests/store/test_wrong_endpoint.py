"""An S3 endpoint that is not an object store: the first answer decides, and no remedy deletes anything."""

import argparse
import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import made_store
import pytest
from kit.identifiers import assert_printed, printed, raises
from kit.key_pairs import Pair
from kit.quorum_metadata import topic_record
from small_servers import Answer, Greeter, OneAnswer, WithoutConditionalWrites, serving

from aqueduct.cli import build_parser, main
from aqueduct.common import timestamps
from aqueduct.errors import AqueductError, ExitCode, Refused
from aqueduct.recovery.quorum.records import batch_of
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.encryption import DataKind
from aqueduct.store.keyring import Keyring
from aqueduct.store.objects import EditableObjects
from servers import zookeeper
from servers.object_store import ACCESS_KEY, SECRET_KEY

PAGE = b'<!doctype html><html lang="en"><head><title>Console</title></head><body>Sign in</body></html>'
UNCLOSED = b'<!doctype html><html><head><meta charset="utf-8"></head><body><br></body></html>'
HTML = {"Content-Type": "text/html; charset=utf-8"}
OBJECT = {"ETag": '"0"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
NOT_A_STORE = {
    "a web console": Answer(200, HTML, PAGE),
    "a web page that is no XML": Answer(200, HTML, UNCLOSED),
    "a web page with an ETag": Answer(200, HTML | OBJECT, PAGE),
    "XML without a type": Answer(200, OBJECT, PAGE),
    "a JSON service": Answer(200, {"Content-Type": "application/json"}, b"{}"),
    "an empty answer": Answer(200, OBJECT),
    "301 without Location": Answer(301),
    "307 without Location": Answer(307),
    "a circle of redirects": Answer(302, {"Location": "/login"}),
    "501": Answer(501, {}, b"<Error><Code>NotImplemented</Code><Message>header</Message></Error>"),
    "501 without a body": Answer(501),
    "505": Answer(505),
    "TLS at a port without": Answer(400, {}, b"Client sent an HTTP request to an HTTPS server."),
    "a method that is not allowed": Answer(405),
    "a proxy that denies": Answer(403, HTML, PAGE),
}
ACTIONS: dict[str, Callable[[EditableObjects], object]] = {
    "read": lambda store: store.read("store.json"),
    "stream": lambda store: list(store.stream("a")),
    "head": lambda store: store.head("store.json"),
    "list": lambda store: list(store.list("snapshots")),
    "create": lambda store: store.create("a", b"mine"),
    "remove_many": lambda store: store.remove_many(["a", "b"]),
}
# These answers are those of an object store, as far as the client can tell. Such an endpoint lists no
# objects, and each verb lists some before it reports success. So no verb exits with 0.
BELIEVED = {
    ("a web page with an ETag", "create"),
    ("XML without a type", "create"),
    ("an empty answer", "create"),
    *(
        (answer, action)
        for answer in ("a JSON service", "XML without a type", "an empty answer")
        for action in ("read", "stream", "head")
    ),
}
CLUSTER = ("--bootstrap-server", "127.0.0.1:1")
STORE = ("--store", "s3://store/backup")
VERBS = {
    "land status": (*CLUSTER, "--declarations", "{tables}", "--location", "s3://store/lake"),
    "snapshots": STORE,
    "verify": STORE,
    "prune": (*STORE, "--keep-last", "1"),
    "export": (*STORE, "--to", "file://{tmp}/to", "--format", "avro"),
    "restore": (*CLUSTER, *STORE),
    "quorum snapshots": STORE,
    "zookeeper snapshots": STORE,
    "backup": (*CLUSTER, *STORE, "--topics", "t"),
    "drill": (*CLUSTER, *STORE),
    "import": (*STORE, "--from", "s3://store/other", "--format", "s3-binary"),
    "land verify": (*CLUSTER, "--declarations", "{tables}", "--location", "s3://store/lake"),
    "quorum plan": (*STORE, "--inspection", "{tmp}/look"),
    "reconcile": (
        *("--store", "s3://store/backup"),
        *("--target-bootstrap-server", "127.0.0.1:1"),
        *("--topics", "t"),
    ),
    "zookeeper restore": (*STORE, "--connect", "127.0.0.1:1"),
    "zookeeper diff": (*STORE, "--connect", "127.0.0.1:1"),
    "quorum backup": (*STORE, "--data-folder", "{node}"),
    "rewrap": (*STORE, "--private-key", "{key}", "--recipient", "{public}"),
    "zookeeper backup": (*STORE, "--connect", "{ensemble}"),
    "export --to": ("--store", "{made}", "--to", "s3://store/export", "--format", "avro"),
}
# They write: a store without conditional writes is refused.
WRITING = {
    "backup": "backup/store.json",
    "quorum backup": "backup/quorum.json",
    "zookeeper backup": "backup/zookeeper.json",
    "rewrap": "backup/keys/",
    "export --to": "export/_export/begun.json",
}
ENDPOINT_IDS = {
    *("store-endpoint-wrong", "store-write-unsupported"),
    *("store-access-refused", "store-request-failed"),
}
DELETING = re.compile(r"\b(delete|remove|overwrite it|clear)\b")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[OneAnswer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    server = OneAnswer(request.param)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server):
        yield server


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper.running(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started.connect


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return what verbs need beside a store: metadata of a controller, a key pair, and a store to export."""
    folder = tmp_path_factory.mktemp("kept")
    log = folder / "node/__cluster_metadata-0"
    log.mkdir(parents=True)
    (folder / "node/meta.properties").write_text(f"version=1\ncluster.id={'c' * 22}\nnode.id=101\n")
    (log / f"{0:020}.log").write_bytes(batch_of([topic_record("t", 1)], 0, 0, timestamps.now()))
    pair = Pair(folder, "reader")
    made_store.make((folder / "made").as_uri())
    return {"node": folder / "node", "key": pair.private, "public": pair.public, "made": folder / "made"}


@pytest.fixture
def command(
    kept: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[str], list[str]]:
    """Return what returns the command line of one of VERBS."""

    def arguments(verb: str) -> list[str]:
        tables = tmp_path / "tables.yml"
        tables.write_text("- {table: lake.t, topics: [t], columns: [{name: n, type: int}]}\n")
        options = VERBS[verb]
        values = {"tables": tables, "tmp": tmp_path, **kept, "made": kept["made"].as_uri()}
        if "{ensemble}" in options:
            values["ensemble"] = request.getfixturevalue("ensemble")
        return [*verb.partition(" --")[0].split(), *(option.format(**values) for option in options)]

    return arguments


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each command, with its options."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield name, {option for action in parser._actions for option in action.option_strings}
    for action in nested:
        for command, of_command in action.choices.items():
            yield from commands(of_command, f"{name} {command}".strip())


def test_all_verbs_with_a_store_are_tested() -> None:
    with_a_store = {name for name, options in commands(build_parser()) if options & {"--store", "--location"}}
    assert with_a_store - {"land"} - VERBS.keys() == set()  # whose status and verify are tested


@pytest.mark.parametrize("endpoint", [Answer(200, OBJECT)], indirect=True)
def test_writes_carry_a_checksum(endpoint: OneAnswer) -> None:
    """Amazon S3 refuses those without into a bucket that locks its objects."""
    open_editable("s3://store/backup").create("a", b"mine")
    [headers] = endpoint.headers
    assert base64.b64decode(headers["x-amz-checksum-sha256"]) == hashlib.sha256(b"mine").digest()


def is_asked_once(server: OneAnswer) -> bool:
    """Tell whether no request was repeated, but for redirects that the client follows."""
    paths = [each for each in server.requests if not each.endswith("/login")]
    return len(paths) == len({*paths})


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("name", "endpoint"), NOT_A_STORE.items(), indirect=["endpoint"], ids=NOT_A_STORE)
def test_first_answer_decides(name: str, endpoint: OneAnswer, action: str) -> None:
    store = open_editable("s3://store/backup")
    if (name, action) in BELIEVED:
        ACTIONS[action](store)
    else:
        with pytest.raises(AqueductError) as error:
            ACTIONS[action](store)
        assert "s3://store/backup" in str(error.value)
        assert error.value.id.startswith("store-")
        assert not DELETING.search(str(error.value))
    assert is_asked_once(endpoint)


@pytest.mark.parametrize(
    "endpoint", [Answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>"), Answer(501)], indirect=True
)
def test_missing_conditional_writes_are_reported(endpoint: OneAnswer) -> None:
    with raises(Refused, "store-write-unsupported", "s3://store", "If-None-Match"):
        open_editable("s3://store").create("a", b"mine")


def test_server_without_http_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    server = Greeter()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server), raises(Refused, "store-endpoint-wrong", "s3://store", "AWS_ENDPOINT_URL", "HTTP"):
        open_editable("s3://store").head("store.json")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("endpoint", NOT_A_STORE.values(), indirect=True, ids=NOT_A_STORE)
def test_verbs_fail_with_a_sentence(
    endpoint: OneAnswer,
    verb: str,
    command: Callable[[str], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(command(verb))
    said = capsys.readouterr()
    assert code in (ExitCode.FAILED, ExitCode.REFUSED), said
    [id_] = printed(said.err)
    assert id_ in ENDPOINT_IDS, said.err
    assert "s3://store" in said.err
    assert "damaged" not in said.err
    assert not DELETING.search(said.err), said.err
    assert endpoint.requests
    assert is_asked_once(endpoint)


@pytest.mark.parametrize("verb", WRITING)
def test_verbs_refuse_store_without_conditional_writes(
    verb: str,
    kept: dict[str, Path],
    command: Callable[[str], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It reads and lists, so the verb comes to its first write, which decides."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    reader = Pair(tmp_path, "former")
    Keyring(open_store(tmp_path.joinpath("store").as_uri())).create(DataKind.RECORDS, [reader.key.public])
    [key] = tmp_path.joinpath("store/keys").iterdir()
    objects = {f"backup/keys/{key.name}": key.read_bytes()} if verb == "rewrap" else {}
    server = WithoutConditionalWrites(objects)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    arguments = [str(reader.private) if each == str(kept["key"]) else each for each in command(verb)]
    with serving(server):
        assert main(arguments) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert_printed(said, "store-write-unsupported", "If-None-Match")
    assert not DELETING.search(said), said
    [path] = server.writes
    assert path.startswith(f"/store/{WRITING[verb]}")
