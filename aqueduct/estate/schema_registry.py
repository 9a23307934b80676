"""A site's schema registry (Apicurio Registry): its URL, topics and settings.

It stores schemas in a journal, which is a topic of the site's Kafka. Each start reads the whole journal into
memory. Names of settings are those of Apicurio Registry 3.0.9, of Quarkus 3.15, and of Kafka's clients.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from aqueduct.estate.model import Groups, HostVars, members
from aqueduct.land import registry_paths
from aqueduct.land.declaration import Format

API, DENIED_PATHS = registry_paths.API, registry_paths.DENIED_PATHS
# Apicurio's build fixes whether client certificates are required, with a higher ordinal than any file. A file
# with the same ordinal takes precedence if it sets the property for the profile prod, in which Apicurio runs.
RANK = 2**31 - 1
KINDS = ("journal", "snapshots", "events")


def own_prefix(site: str) -> str:
    """Return the prefix of the names of its topics and groups."""
    return f"aqueduct-schema-registry-{site}-"


def topics(site: str) -> list[dict[str, Any]]:
    """Return its topics as entries of `kafka_topics`. The journal is the only copy of the schemas."""
    forever = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    kept = {"journal": forever, "snapshots": forever, "events": {"cleanup.policy": "delete"}}
    return [{"name": own_prefix(site) + kind, "partitions": 1, "config": kept[kind]} for kind in KINDS]


def url(groups: Groups, hostvars: HostVars, site: str, default_port: int) -> str:
    """Return the URL of a site's registry for landings; empty if the site has none."""
    return next(
        (
            f"https://{hostvars[host].get('schema_registry_host', host)}"
            f":{hostvars[host].get('schema_registry_port', default_port)}{API}"
            for host in members(groups, site, "schema_registry")
        ),
        "",
    )


def with_registry(tables: Iterable[Mapping[str, Any]], url: str, config: str) -> list[dict[str, Any]]:
    """Return declared tables, with this registry and client file for each that needs and sets none."""
    theirs = {"registry": url, "registry_config": config}
    return [{**(theirs if wants(table) and url else {}), **table} for table in tables]


def wants(table: Mapping[str, Any]) -> bool:
    """Return whether a declared table needs a schema registry and does not set one."""
    return table.get("format") == Format.AVRO_REGISTRY and not table.get("registry")


def settings(site: str, bootstrap_servers: str, host: str, port: int, key: str, ca: str) -> dict[str, str]:
    """Return the settings of a registry that listens on this host and port.

    `ca`: a PEM file; clients need a certificate of this CA. `key`: a PEM file with the key and certificate of
    the registry, for its clients and for brokers.
    """
    own = own_prefix(site)
    return {
        "config_ordinal": str(RANK),
        "%prod.quarkus.http.ssl.client-auth": "required",
        "quarkus.http.insecure-requests": "disabled",
        "quarkus.http.host": host,
        "quarkus.http.ssl-port": str(port),
        "quarkus.tls.key-store.pem.0.cert": key,
        "quarkus.tls.key-store.pem.0.key": key,
        "quarkus.tls.trust-store.pem.certs": ca,
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": bootstrap_servers,
        "apicurio.kafkasql.topic": f"{own}journal",
        "apicurio.kafkasql.snapshots.topic": f"{own}snapshots",
        "apicurio.events.kafka.topic": f"{own}events",
        "apicurio.kafkasql.topic.auto-create": "false",
        "apicurio.kafkasql.consumer.group-prefix": own,
        # A snapshot is a file of this host, so a start on another host would not find it.
        "apicurio.kafkasql.snapshot.every.seconds": "off",
        **{
            f"apicurio.kafka.common.{name}": value
            for name, value in {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": key,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": ca,
                "ssl.endpoint.identification.algorithm": "https",
            }.items()
        },
        # A client that may register schemas may neither change settings nor delete schemas.
        "apicurio.config.dynamic.allow-all": "false",
        "quarkus.http.auth.permission.all.paths": "/*",
        "quarkus.http.auth.permission.all.policy": "deny",
        "quarkus.http.auth.permission.schemas.paths": f"{API}/*",
        "quarkus.http.auth.permission.schemas.methods": "GET,HEAD,POST",
        "quarkus.http.auth.permission.schemas.policy": "permit",
        "quarkus.http.auth.permission.health.paths": "/health/*",
        "quarkus.http.auth.permission.health.methods": "GET,HEAD",
        "quarkus.http.auth.permission.health.policy": "permit",
        "apicurio.disable.apis": ",".join(DENIED_PATHS),
        # The reaper would write to the journal each minute, and each start reads the whole journal.
        "apicurio.downloads.reaper.every": "off",
        # The tables in memory have few readers at a time; the default is 20 connections.
        "apicurio.datasource.jdbc.initial-size": "1",
        "apicurio.datasource.jdbc.min-size": "1",
        "quarkus.banner.enabled": "false",
        "quarkus.http.access-log.enabled": "false",
        'quarkus.log.category."io.apicurio".level': "INFO",
        "quarkus.log.console.format": "%p [%c{1}] %m%n",
    }


def properties_file(properties: Mapping[str, object]) -> str:
    """Return the text of a Java properties file, with one line for each entry."""
    return "".join(
        f"{_escaped(str(name), ' :=#!')}={_escaped(str(value))}\n"
        for name, value in sorted(properties.items())
    )


def _escaped(text: str, further: str = "") -> str:
    """Escape backslashes, control characters, the `further` characters, and a leading space."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    escapes |= {character: f"\\{character}" for character in further}
    escaped = "".join(escapes.get(character, character) for character in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
