"""A registry of schemas, by Confluent's REST API, which Karapace and Apicurio Registry have, too."""

import base64
import json
import os
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

from aqueduct.common.deadlines import within
from aqueduct.errors import Failed
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.tls import tls_context
from aqueduct.land import avro_schema, registry_paths
from aqueduct.land.avro_schema import RecordType, Schema, Unasked, WrongSchema
from aqueduct.land.declaration import SchemaRegistry

ASK_SECONDS = 60.0  # in which a question is repeated
REQUEST_SECONDS = 10.0
PAUSE_SECONDS = 1.0
ANSWER_BYTES = 8 << 20  # a schema's text may have six bytes for a character there
AVRO = "AVRO"
PASSING = (408, 429)  # and 5xx
UNKNOWN = (40401, 40402, 40403)  # errors of a registry: it has no such subject, version, schema
PATH_TOO_LONG = 414  # so no registry has a subject of this name
NO_SUCH_PATH = 404  # ... of one before there were types of schemas
MOST_UNKNOWN = 100  # ids of one task that the registry is asked for in vain
MOST_REQUESTS = 2_000  # of one task, also for references and repeated ones
MOST_TEXT = 32 << 20  # characters of all schemas that are asked for by one task
CACHED = 10_000  # schemas that a process keeps
CACHED_TEXT = 16 << 20  # characters that they have together; a parsed one takes about ten bytes for each
MOST_ID = 2**31 - 1  # the ids of a registry are int32
REFERENCES = 1_000  # of a schema, at most
APICURIO = "/apis/ccompat/"  # in the URL of one of Apicurio's
READY = "/health/ready"


_found: set[tuple[SchemaRegistry, int]] = set()  # ids that this process has a schema of


class _Kept(threading.local):
    """The connections of a thread that may be used again, by their server and how it is asked.

    Also by the process: one that was forked shares its parent's sockets.
    """

    def __init__(self) -> None:
        self.connections: dict[tuple[int, str, str, ClientConfig], HTTPConnection] = {}


_kept = _Kept()


@dataclass
class Requests:
    """The requests that a task may still make; below 0 after a question that was repeated."""

    left: int = MOST_REQUESTS
    text: int = MOST_TEXT  # characters


_requests: ContextVar[Requests | None] = ContextVar("requests", default=None)  # of the task; None: no limit


class RegistryAway(Failed):
    """A registry that doesn't answer, or not us: no record is wrong for that."""

    id = "schema-registry-unreachable"


class SchemaCache:
    """The newest used schemas by their registries and ids, limited by the text that they were parsed from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[SchemaRegistry, int], tuple[RecordType, int]] = OrderedDict()
        self.text = 0  # characters

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self.text = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, registry: SchemaRegistry, id_: int) -> RecordType | None:
        with self._lock:
            if (kept := self._kept.get((registry, id_))) is None:
                return None
            self._kept.move_to_end((registry, id_))
            return kept[0]

    def put(self, registry: SchemaRegistry, id_: int, record_type: RecordType, text: int) -> None:
        """Keep a schema of so many characters, and forget those that were not used for longest."""
        with self._lock:
            _, replaced = self._kept.pop((registry, id_), (None, 0))
            self._kept[registry, id_] = record_type, text
            self.text += text - replaced
            while self._kept and (len(self._kept) > CACHED or self.text > CACHED_TEXT):
                _, (_, forgotten) = self._kept.popitem(last=False)
                self.text -= forgotten


cache = SchemaCache()


def schema(registry: SchemaRegistry, id_: int) -> RecordType:
    """Return a schema by its id, which never changes; a process asks once, as long as it keeps it.

    WrongSchema if there is none that can be used; RegistryAway if nobody says.
    """
    if kept := cache.get(registry, id_):
        return kept
    answer = _object(_ask(registry, f"/schemas/ids/{id_}"), "the registry has no schema with this id")
    schema_by_name: dict[str, Schema] = {}
    texts = _Texts()
    text = texts.of(answer)
    try:
        _add_references(registry, answer, schema_by_name, set(), texts)
    except RecursionError:
        raise WrongSchema(avro_schema.DEEP) from None
    record_type = avro_schema.parse_with(text, schema_by_name)
    _found.add((registry, id_))
    cache.put(registry, id_, record_type, texts.characters)
    return record_type


@dataclass
class TaskSchemas:
    """The schemas of a registry, as one task asks for them.

    Anybody who may write a record can invent an id, and each unknown one costs a request. After so many that
    have no schema that can be used, only ids that this process knows are read; the others are Unasked. So are
    they after so many requests, because a producer can also register schemas, and schemas refer to others.
    """

    registry: SchemaRegistry
    unknown: int = 0  # ids
    requests: Requests = field(default_factory=Requests)

    def __call__(self, id_: int) -> RecordType:
        if id_ > MOST_ID:
            raise WrongSchema(f"a schema id cannot be larger than {MOST_ID:,}")
        if self.unknown >= MOST_UNKNOWN and (self.registry, id_) not in _found:
            raise Unasked(
                f"its schema was not requested, because {MOST_UNKNOWN} other schema ids in the same task "
                "have no usable schema; register the schema, and run aqueduct land replay --bad"
            )
        token = _requests.set(self.requests)
        try:
            return schema(self.registry, id_)
        except WrongSchema:
            self.unknown += 1
            raise
        finally:
            _requests.reset(token)


def check(registry: SchemaRegistry) -> None:
    """See that a registry answers; RegistryAway if not."""
    try:
        schema_types = _ask(registry, "/schemas/types", (*UNKNOWN, NO_SUCH_PATH))
    except WrongSchema:  # too long
        schema_types = ()
    if schema_types is not None and not (isinstance(schema_types, list) and AVRO in schema_types):
        raise RegistryAway(
            f"{registry.url} is not a registry of Avro schemas: its answer to /schemas/types is wrong. Set "
            "the base URL of the registry. The base URL of some registries ends with a path."
        )


def _add_references(
    registry: SchemaRegistry,
    answer: Mapping[str, Any],
    schema_by_name: dict[str, Schema],
    seen: set[str],
    texts: "_Texts",
) -> None:
    """Add the types of the schemas that one refers to, and of those that they do."""
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise WrongSchema("its references are not a list")
    for reference in references:
        if not isinstance(reference, dict) or not {"subject", "version"} <= reference.keys():
            raise WrongSchema("one of its references has no subject or no version")
        subject = str(reference["subject"])
        try:
            path = f"/subjects/{quote(subject, safe='')}/versions/{quote(str(reference['version']), safe='')}"
        except UnicodeEncodeError:
            raise WrongSchema("one of its references has a subject that is not valid text") from None
        if path in seen:
            continue
        seen.add(path)
        if len(seen) > REFERENCES:
            raise WrongSchema(f"it refers to more than {REFERENCES:,} schemas")
        referenced = _object(
            _ask(registry, path), f"it refers to {subject}, which the registry does not have"
        )
        text = texts.of(referenced)
        _add_references(registry, referenced, schema_by_name, seen, texts)
        avro_schema.add(text, schema_by_name)


@dataclass
class _Texts:
    """The texts of a schema and of those that it refers to, which have a limit together."""

    characters: int = 0

    def of(self, answer: Mapping[str, Any]) -> str:
        text = _text(answer)
        self.characters += len(text)
        if requests := _requests.get():
            requests.text -= len(text)
        if self.characters > avro_schema.MOST_TEXT:
            raise WrongSchema(
                f"it has more than {avro_schema.MOST_TEXT:,} characters, together with the schemas to which "
                "it refers"
            )
        return text


def _object(answer: Any, otherwise: str) -> Mapping[str, Any]:
    if answer is None:
        raise WrongSchema(otherwise)
    if not isinstance(answer, dict):
        raise WrongSchema("the answer of the registry is not a JSON object")
    return answer


def _text(answer: Mapping[str, Any]) -> str:
    if (kind := answer.get("schemaType", AVRO)) != AVRO:
        raise WrongSchema(f"its schema type is {kind}, not Avro")
    if not isinstance(text := answer.get("schema"), str):
        raise WrongSchema("the answer of the registry contains no schema")
    return text


def _ask(registry: SchemaRegistry, path: str, unknown: Collection[int] = UNKNOWN) -> Any:
    """Return the answer; None if the registry itself reports that it does not have it.

    Unasked if the task has no request left, or has read as much as it may. A question that has begun is
    repeated all the same: a registry that is away makes no record wrong. WrongSchema if the answer is too
    long.
    """
    _check_limits()
    deadline, ready = time.monotonic() + ASK_SECONDS, APICURIO not in registry.url
    while True:
        try:
            status, text = _exchange(registry, path)
            why = f"the registry answers with status {status}"
            if status == 200:
                return _loads(text)
            if (status == 404 and (_error_code(text) in unknown or _is_denied(registry, path))) or (
                status == PATH_TOO_LONG
            ):
                if ready:
                    return None
                # It answers before it has read its journal, and then knows no schema.
                status, _ = _exchange(replace(registry, url=registry.url.partition(APICURIO)[0]), READY)
                if status < 500:
                    ready = True
                    continue
                why = f"the registry is not ready: {READY} answers with status {status}"
        except WrongSchema:
            raise
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            status, why = 0, str(error) or type(error).__name__
            if isinstance(error, ssl.SSLError):
                deadline = 0.0
        # A 404 without a registry's own code is of a proxy, or of another server.
        passing = status in (0, 404) or status >= 500 or status in PASSING
        if not passing or time.monotonic() >= deadline:
            raise RegistryAway(
                f"the schema registry {registry.url} cannot be used ({why}; request: {path}), so nothing "
                "was committed. Check that the registry runs, and that the user in registry_config may read "
                "schemas."
            )
        time.sleep(PAUSE_SECONDS)


def _loads(text: bytes) -> Any:
    if len(text) >= ANSWER_BYTES:
        raise WrongSchema(f"the answer of the registry has {ANSWER_BYTES:,} bytes or more")
    return json.loads(text)


def _check_limits() -> None:
    """Raise Unasked if the task has no request left, or has read as much as it may."""
    requests = _requests.get()
    if requests and requests.left <= 0:
        raise Unasked(
            f"its schema was not requested, because its task had sent {MOST_REQUESTS:,} requests to the "
            "registry; run aqueduct land replay --bad"
        )
    if requests and requests.text <= 0:
        raise Unasked(
            f"its schema was not requested, because its task had read schemas of {MOST_TEXT:,} characters; "
            "run aqueduct land replay --bad"
        )


def _is_denied(registry: SchemaRegistry, path: str) -> bool:
    """Return whether the 404 of a path has no code because a registry of an estate serves no such path.

    Who registers a schema chooses the subjects that it refers to.
    """
    return registry_paths.is_denied(urlsplit(registry.url).path.rstrip("/") + path)


def _error_code(text: bytes) -> int:
    try:
        return int(json.loads(text)["error_code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def _exchange(registry: SchemaRegistry, path: str) -> tuple[int, bytes]:
    """Ask by the connection that this thread has kept, or else by a new one, which it keeps."""
    if requests := _requests.get():
        requests.left -= 1
    parts = urlsplit(registry.url)
    kept = _kept.connections.pop((os.getpid(), parts.scheme, parts.netloc, registry.config), None)
    if kept:
        with suppress(OSError, HTTPException):  # a server closes one that was idle; else a new one tells why
            return _answer(registry, path, kept)
    if parts.scheme == "https":
        context = tls_context(registry.config)
        return _answer(
            registry, path, HTTPSConnection(parts.netloc, timeout=REQUEST_SECONDS, context=context)
        )
    return _answer(registry, path, HTTPConnection(parts.netloc, timeout=REQUEST_SECONDS))


def _answer(registry: SchemaRegistry, path: str, connection: HTTPConnection) -> tuple[int, bytes]:
    """Return the answer to a question; the connection is kept if all of the answer was read."""
    parts = urlsplit(registry.url)
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if login := registry.config.login:
        credentials = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    whole = False
    sockets: list[socket.socket] = []

    def exchange() -> tuple[int, bytes, bool]:
        if connection.sock is None:
            connection.connect()
        sockets.append(connection.sock)
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
        content = response.read(ANSWER_BYTES)
        return response.status, content, response.isclosed() and connection.sock is not None

    try:
        status, text, whole = within(REQUEST_SECONDS, exchange)
    except TimeoutError:
        for sock in sockets:  # what still reads from it ends
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        raise
    finally:
        if whole:
            _kept.connections[os.getpid(), parts.scheme, parts.netloc, registry.config] = connection
        else:
            connection.close()
    return status, text
