"""A registry of schemas, by Confluent's REST API, which Karapace and Apicurio Registry have, too."""

import base64
import json
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

from aqueduct.connect.rest import tls_context
from aqueduct.errors import Failed
from aqueduct.land import avro_schema
from aqueduct.land.avro_schema import RecordType, Schema, WrongSchema
from aqueduct.land.declaration import SchemaRegistry

ASK_SECONDS = 60.0  # in which a question is repeated
REQUEST_SECONDS = 10.0
PAUSE_SECONDS = 1.0
ANSWER_BYTES = 16 << 20
AVRO = "AVRO"
PASSING = (408, 429)  # and 5xx


class RegistryAway(Failed):
    """A registry that doesn't answer, or not us: no record is wrong for that."""


@lru_cache(maxsize=10_000)
def schema(registry: SchemaRegistry, id_: int) -> RecordType:
    """Return a schema by its id, which never changes; a process asks once.

    WrongSchema if there is none that can be used; RegistryAway if nobody says.
    """
    answer = _object(_ask(registry, f"/schemas/ids/{id_}"), "the registry has none of this id")
    known: dict[str, Schema] = {}
    _add_references(registry, answer, known, set())
    return avro_schema.parse_with(_text(answer), known)


def check(registry: SchemaRegistry) -> None:
    """See that the registry answers; RegistryAway if not."""
    _ask(registry, "/schemas/types")


def _add_references(
    registry: SchemaRegistry, answer: Mapping[str, Any], known: dict[str, Schema], seen: set[str]
) -> None:
    """Add the types of the schemas that one refers to, and of those that they do."""
    for each in answer.get("references") or ():
        subject = str(each["subject"])
        path = f"/subjects/{quote(subject, safe='')}/versions/{each['version']}"
        if path in seen:
            continue
        seen.add(path)
        found = _object(_ask(registry, path), f"it refers to {subject}, which the registry has not")
        _add_references(registry, found, known, seen)
        avro_schema.add(_text(found), known)


def _object(answer: Any, otherwise: str) -> Mapping[str, Any]:
    if answer is None:
        raise WrongSchema(otherwise)
    if not isinstance(answer, dict):
        raise WrongSchema("the registry's answer is no object")
    return answer


def _text(answer: Mapping[str, Any]) -> str:
    if (kind := answer.get("schemaType", AVRO)) != AVRO:
        raise WrongSchema(f"it is one of {kind}, not of Avro")
    if not isinstance(text := answer.get("schema"), str):
        raise WrongSchema("the registry's answer has no schema")
    return text


def _ask(registry: SchemaRegistry, path: str) -> Any:
    """Return the answer, or None if there is no such thing."""
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        try:
            status, text = _exchange(registry, path)
            why = f"it answers {status}"
            if status == 200:
                return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            status, why = 0, str(error) or type(error).__name__
            if isinstance(error, ssl.SSLError):
                deadline = 0.0
        if status == 404:
            return None
        passing = status == 0 or status >= 500 or status in PASSING
        if not passing or time.monotonic() >= deadline:
            raise RegistryAway(
                f"the schema registry {registry.url} can't be used ({why}, asked for {path}), so nothing was "
                "committed: see that it runs, and that registry_config names who may read it."
            )
        time.sleep(PAUSE_SECONDS)


def _exchange(registry: SchemaRegistry, path: str) -> tuple[int, bytes]:
    parts = urlsplit(registry.url)
    connection = (
        HTTPSConnection(parts.netloc, timeout=REQUEST_SECONDS, context=tls_context(registry.config))
        if parts.scheme == "https"
        else HTTPConnection(parts.netloc, timeout=REQUEST_SECONDS)
    )
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if login := registry.config.login:
        told = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        headers["Authorization"] = f"Basic {told}"
    try:
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_BYTES)
    finally:
        connection.close()
