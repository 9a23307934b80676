"""A site's schema registry, Apicurio's: where it is, its topics, and the settings it runs with.

It keeps schemas in a journal, a topic of the site's own Kafka, which each start reads anew into memory. Names
of settings are those of Apicurio Registry 3.0.9, of its Quarkus 3.15, and of Kafka's clients.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from aqueduct.estate.model import Groups, HostVars, members
from aqueduct.land import registry_paths
from aqueduct.land.declaration import Format

API, DENIED_PATHS = registry_paths.API, registry_paths.DENIED_PATHS
# To ask for clients' certificates was decided when Apicurio built it, and such a decision stands above all
# files. A file of the same rank that says it for the profile prod, in which it runs, is asked first.
RANK = 2**31 - 1
KINDS = ("journal", "snapshots", "events")


def own_prefix(site: str) -> str:
    """Return what the names of its topics and groups begin with."""
    return f"aqueduct-schema-registry-{site}-"


def topics(site: str) -> list[dict[str, Any]]:
    """Return its topics, as entries of `kafka_topics`: what the journal loses, is lost."""
    forever = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    kept = {"journal": forever, "snapshots": forever, "events": {"cleanup.policy": "delete"}}
    return [{"name": own_prefix(site) + kind, "partitions": 1, "config": kept[kind]} for kind in KINDS]


def url(groups: Groups, hostvars: HostVars, site: str, default_port: int) -> str:
    """Return the URL of a site's registry, as landings take it; empty where it has none."""
    return next(
        (
            f"https://{hostvars[host].get('schema_registry_host', host)}"
            f":{hostvars[host].get('schema_registry_port', default_port)}{API}"
            for host in members(groups, site, "schema_registry")
        ),
        "",
    )


def with_registry(tables: Iterable[Mapping[str, Any]], url: str, config: str) -> list[dict[str, Any]]:
    """Return declared tables, each that wants a registry and names none with this one and its client file."""
    theirs = {"registry": url, "registry_config": config}
    return [{**(theirs if wants(table) and url else {}), **table} for table in tables]


def wants(table: Mapping[str, Any]) -> bool:
    """Tell a declared table whose schemas are in a registry that it doesn't name."""
    return table.get("format") == Format.AVRO_REGISTRY and not table.get("registry")


def settings(site: str, bootstrap_servers: str, host: str, port: int, key: str, ca: str) -> dict[str, str]:
    """Return the settings of one that listens at this host and port, to who has a certificate of the CA.

    `key`: a PEM file with its key and certificate, by which it is known to clients and to brokers.
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
        # A snapshot is a file of this host, and the next start would miss it on another one.
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
        # Who may register schemas may not change how it works, nor take the schemas of others away.
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
        # Each minute it would write to the journal, which each start reads whole.
        "apicurio.downloads.reaper.every": "off",
        # The memory's tables have one reader at a time, or few; 20 connections at once are the default.
        "apicurio.datasource.jdbc.initial-size": "1",
        "apicurio.datasource.jdbc.min-size": "1",
        "quarkus.banner.enabled": "false",
        "quarkus.http.access-log.enabled": "false",
        'quarkus.log.category."io.apicurio".level': "INFO",
        "quarkus.log.console.format": "%p [%c{1}] %m%n",
    }


def properties_file(properties: Mapping[str, object]) -> str:
    """Return the text of a properties file of Java's, one line an entry whatever is in it."""
    return "".join(
        f"{_escaped(str(name), ' :=#!')}={_escaped(str(value))}\n"
        for name, value in sorted(properties.items())
    )


def _escaped(text: str, further: str = "") -> str:
    """Escape backslashes, controls and these characters; blanks at the begin, which would be skipped."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    escapes |= {character: f"\\{character}" for character in further}
    escaped = "".join(escapes.get(character, character) for character in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
