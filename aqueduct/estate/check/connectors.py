"""Checks of a site's Kafka Connect: its hosts, and the topics, secrets and plugins of connectors."""

import re
from collections.abc import Iterator

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.connect import confinement
from aqueduct.connect.connectors import plain_secrets
from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, did_you_mean, some
from aqueduct.estate.check.valid_inventory import Item, Sound
from aqueduct.estate.connectors import DeclaredConnector, references
from aqueduct.estate.patterns import PatternError, language

VARIABLE = "connect_connectors"
SECRETS = "/etc/aqueduct/connect/secrets.properties"  # roles/connect writes it
LONGEST_NAME = 200  # shorter than 249, because names of topics and groups contain it
DIGEST = re.compile(r"[0-9a-f]{64}")
COORDINATES = re.compile(r"[^:]+:[^:]+:[^:]+(:[^:]+){0,2}")


def check_connect(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "connect")
    items = list(sound.items(site, VARIABLE))
    if items and not hosts and VARIABLE not in inventory.extra_variables:
        sentence = f"site {site} has no host for its connectors; put one into the group connect."
        yield inventory.finding(items[0].host, VARIABLE, Labelled("service-without-host", sentence))
    if hosts and not inventory.members(site, "kafka"):
        sentence = (
            f"site {site} has no Kafka for its connectors; remove {some(hosts)} from the group connect."
        )
        yield Finding(
            where=inventory.declared(hosts[0]),
            what="connect",
            fault=Labelled("service-without-kafka", sentence),
        )
    seen: set[str] = set()
    secrets = (sound.value(hosts[0], "connect_secrets") or {}) if hosts else {}
    folders = (sound.value(hosts[0], "connect_file_directories") or []) if hosts else []
    for declaration in items:
        connector = DeclaredConnector.of(declaration.value)
        for path, fault in _faults(connector, seen, secrets):
            yield declaration.finding(fault, path)
        if connector.state != "absent":
            for key, sentence in confinement.faults(connector.config, folders, SECRETS):
                yield declaration.finding(Labelled("connector-file-forbidden", sentence), ("config", key))
        seen.add(connector.name)
    for declaration in sound.items(site, "connect_plugins"):
        for path, fault in _faults_of_plugin(declaration):
            yield declaration.finding(fault, path)


def _faults(
    connector: DeclaredConnector, seen: set[str], secrets: dict[str, str]
) -> Iterator[tuple[tuple[str, ...], Labelled]]:
    name = connector.name
    if not LEGAL_NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        sentence = (
            f'"{name}" becomes part of names in Kafka; '
            f"use up to {LONGEST_NAME} letters, digits, dots, - and _."
        )
        yield ("name",), Labelled("name-illegal", sentence)
    if name in seen:
        sentence = f"connector {name} is declared twice; remove one of the declarations."
        yield ("name",), Labelled("declaration-repeated", sentence)
    if connector.state == "absent":
        return
    if "connector.class" not in connector.config:
        sentence = f"connector {name} has no connector.class; set it."
        yield ("config",), Labelled("key-missing", sentence)
    if not connector.is_sink and not connector.writes:
        sentence = (
            f"connector {name} has no right to read or write a topic; list the topics that a sink "
            "reads in topics of its config, and the topics that a source writes in writes."
        )
        yield (), Labelled("connector-without-topics", sentence)
    if "name" in connector.config:
        sentence = "the name of a connector is not part of its config; remove it here."
        yield ("config", "name"), Labelled("key-misplaced", sentence)
    yield from _faults_of_patterns(connector)
    yield from _faults_of_secrets(connector, secrets)


def _faults_of_patterns(connector: DeclaredConnector) -> Iterator[tuple[tuple[str, ...], Labelled]]:
    key = "topics.regex" if "topics.regex" in connector.config else "topics"
    for pattern in (*connector.reads, *connector.writes):
        try:
            names = language(pattern)
        except PatternError as error:
            yield (), Labelled("pattern-invalid", f"{pattern} does not compile: {error}; correct it.")
            continue
        letters = connector.dead_letters
        if letters and (letters == pattern or (names is not None and letters in names)):
            sentence = (
                f"connector {connector.name} would read {letters}, its own dead-letter records, in "
                "an endless loop; exclude that topic."
            )
            yield ("config", key), Labelled("connector-reads-dead-letters", sentence)


def _faults_of_secrets(
    connector: DeclaredConnector, secrets: dict[str, str]
) -> Iterator[tuple[tuple[str, ...], Labelled]]:
    for key in plain_secrets(connector.config):
        remedy = f"put it into connect_secrets and write ${{file:{SECRETS}:<key>}}."
        sentence = f"the REST interface would show it to every client; {remedy}"
        yield ("config", key), Labelled("connector-secret-plain", sentence)
    for key, value in connector.config.items():
        for secret in references(value, SECRETS):
            if secret not in secrets:
                remedy = did_you_mean(secret, secrets, "set it there.")
                sentence = f"connect_secrets has no {secret}; {remedy}"
                yield ("config", key), Labelled("connector-secret-unknown", sentence)


def _faults_of_plugin(declaration: Item) -> Iterator[tuple[tuple[str, ...], Labelled]]:
    plugin = declaration.value
    if ("maven" in plugin) == ("url" in plugin):
        sentence = "a plugin has either maven or url; set exactly one of them."
        yield (), Labelled("values-conflict", sentence)
    elif "maven" in plugin and not COORDINATES.fullmatch(str(plugin["maven"])):
        sentence = (
            f"{plugin['maven']} are not Maven coordinates; write group:artifact:version[:type[:classifier]]."
        )
        yield ("maven",), Labelled("value-form-wrong", sentence)
    elif "url" in plugin and "sha256" not in plugin:
        sentence = f"the download from {plugin['url']} cannot be verified; set its sha256."
        yield (), Labelled("key-missing", sentence)
    if "sha256" in plugin and not DIGEST.fullmatch(str(plugin["sha256"])):
        sentence = "a SHA-256 digest has 64 digits of 0-9 and a-f; correct it."
        yield ("sha256",), Labelled("value-form-wrong", sentence)
