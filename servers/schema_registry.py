"""A real schema registry, Apicurio's, from AQUEDUCT_SCHEMA_REGISTRY: its schemas are in a broker's topic.

It has the settings, the topics and the rights of one in an estate, and is reached by mutual TLS alone.
"""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from aqueduct.estate import schema_registry
from aqueduct.estate.acls import schema_registry_acls
from servers.broker import Broker
from servers.process import QUICK, Process, binary, free_ports

COORDINATES = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
HOST = "127.0.0.1"
CONTENT = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry on a port of its own, which it keeps when it is started again."""

    port: int
    process: Process
    tls: ssl.SSLContext  # of a client that it lets in

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}{schema_registry.API}"

    def register(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None) -> int:
        """Register a version of a schema, by the API that producers use; its id."""
        body = json.dumps({"schema": json.dumps(schema), "references": references or []})
        status, answer = self.ask("POST", f"{schema_registry.API}/subjects/{subject}/versions", body)
        if status != 200:
            raise RuntimeError(f"the registry answered {status}: {answer}")
        return int(answer["id"])

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        """Ask as a client that it lets in; the answer's status and content."""
        return _ask(self.port, self.tls, method, path, body)


@contextmanager
def running(directory: Path, broker: Broker, site: str) -> Iterator[SchemaRegistry]:
    """Yield a site's registry that keeps schemas in a broker's topic, when it answers.

    Who has a certificate of the broker's authority may use it.
    """
    directory.mkdir()
    authority, [port] = broker.authority, free_ports(1)
    owner = f"schema-registry-{site}"
    _have_entities(broker, site, owner)
    properties = schema_registry.settings(
        site, broker.tls, HOST, port, key=str(authority.issue(owner)), ca=str(authority.certificate)
    )
    file = directory / "registry.properties"
    file.write_text(schema_registry.properties_file(properties))
    tls = ssl.create_default_context(cafile=str(authority.certificate))
    tls.load_cert_chain(authority.issue(f"client-of-{owner}"))

    def ready() -> bool:
        try:
            return _ask(port, tls, "GET", "/health/ready", None)[0] == 200
        except (OSError, HTTPException):
            return False

    [program] = Path(binary("AQUEDUCT_SCHEMA_REGISTRY")).glob("*-runner.jar")
    command = ["java", *QUICK, f"-Dquarkus.config.locations={file}", "-jar", str(program)]
    with Process(command, directory / "registry.log", ready).running() as process:
        yield SchemaRegistry(port, process, tls)


def _ask(port: int, tls: ssl.SSLContext, method: str, path: str, body: str | None) -> tuple[int, Any]:
    connection = HTTPSConnection(HOST, port, timeout=30, context=tls)
    try:
        connection.request(method, path, body, {"Content-Type": CONTENT})
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if answer.status == 200 else content
    finally:
        connection.close()


def _have_entities(broker: Broker, site: str, owner: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.plaintext})
    topics = [
        NewTopic(each["name"], each["partitions"], 1, config=each["config"])
        for each in schema_registry.topics(site)
    ]
    rights = [
        AclBinding(
            ResourceType[acl.resource.upper()],
            acl.name,
            ResourcePatternType[acl.pattern.upper()],
            f"User:CN={owner}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for acl in schema_registry_acls(site)
        for operation in acl.operations
    ]
    for done in (*admin.create_topics(topics).values(), *admin.create_acls(rights).values()):
        done.result(30)
