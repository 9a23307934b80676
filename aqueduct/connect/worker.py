"""A worker's properties and connectors' configurations, as the clients that Connect makes take them.

Only the worker's own clients and its connectors' admin clients take what stands without a prefix
(org.apache.kafka.connect.runtime.Worker): a producer or a consumer of a connector gets nothing but
`bootstrap.servers`, its block, and what the connector overrides (KIP-458). See KAFKA-4090.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aqueduct.errors import Refused
from aqueduct.kafka.client_config import parse_properties

Properties = Mapping[str, str]

CLIENTS = ("consumer", "producer", "admin")
BOOTSTRAP = "bootstrap.servers"
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference to a config provider: `${provider:path:key}`, or `${provider:key}` without a path."""

    provider: str
    path: str | None
    key: str
    begin: int  # in the value
    end: int


def references(value: str) -> Iterator[Reference]:
    """Yield the references in a value, as Kafka's ConfigTransformer finds them.

    Its pattern needs time that grows with the third power of a value that opens references and closes none.
    """
    begin = value.find("${")
    while begin >= 0 and (end := value.find("}", begin)) >= 0:
        provider, colon, rest = value[begin + 2 : end].partition(":")
        if colon:
            path, second_colon, key = rest.partition(":")
            yield Reference(
                provider=provider,
                path=path if second_colon else None,
                key=key if second_colon else rest,
                begin=begin,
                end=end + 1,
            )
        begin = value.find("${", end)


def has_reference(value: str) -> bool:
    return next(references(value), None) is not None


def is_reference(value: str) -> bool:
    """Tell whether a value is one reference, and nothing else."""
    return any((reference.begin, reference.end) == (0, len(value)) for reference in references(value))


@dataclass(frozen=True, kw_only=True)
class Store:
    """A key store or a trust store. `pem` instead of a location: it stands in the configuration (KIP-651)."""

    role: str  # "key" or "trust"
    type: str  # "PEM", "JKS", "PKCS12", ...
    location: str | None = None
    password: str | None = field(default=None, repr=False)  # of a PEM key store: of its key
    pem: str | None = field(default=None, repr=False)

    @property
    def known_password(self) -> bool:
        """Tell whether the password is known: none, or not a reference that could not be followed."""
        return not (self.password and has_reference(self.password))


@dataclass(frozen=True, kw_only=True)
class Block:
    """The settings that one kind of client is made with."""

    file: str
    name: str  # "worker", "producer", ...
    prefix: str  # what its own settings begin with: "", "producer.", "producer.override.", ...
    settings: Properties  # all that hold for it, without the prefix
    own: Properties  # those of them that its prefix set

    def __str__(self) -> str:
        return "the worker's own block" if not self.prefix else f"the block {self.prefix}"

    @property
    def servers(self) -> str:
        return self.settings.get(BOOTSTRAP, "")

    @property
    def protocol(self) -> str:
        return self.settings.get("security.protocol", "PLAINTEXT").upper()

    @property
    def tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def key_store(self) -> Store | None:
        return key_store(self.settings)

    @property
    def trust_store(self) -> Store | None:
        return trust_store(self.settings)


@dataclass(frozen=True, kw_only=True)
class ConnectorConfig:
    file: str  # or the URL that it was read from
    name: str
    config: Properties
    type: str = ""  # "sink" or "source", as REST reports it

    @property
    def is_sink(self) -> bool:
        """Tell whether it reads topics. A source may have `topics`, too: MirrorMaker's connectors do."""
        if not self.config.keys() & {"topics", "topics.regex"}:
            return False
        return self.type == "sink" if self.type else "Source" not in self.config.get("connector.class", "")

    @property
    def overrides(self) -> dict[str, Properties]:
        """Return the overrides, by kind of client."""
        settings_by_client = {client: _under(self.config, f"{client}.override.") for client in CLIENTS}
        return {client: settings for client, settings in settings_by_client.items() if settings}

    @property
    def dead_letters(self) -> str:
        """The name of the topic, "" if there is none."""
        return self.config.get("errors.deadletterqueue.topic.name", "")


@dataclass(frozen=True)
class Worker:
    file: str
    properties: Properties

    def blocks(self) -> list[Block]:
        """Return the worker's own block, then those of its connectors' clients."""
        own = self._unprefixed()
        return [
            Block(file=self.file, name="worker", prefix="", settings=own, own=own),
            *map(self._block, CLIENTS),
        ]

    def overridden(self, connector: ConnectorConfig) -> list[Block]:
        """Return the blocks of the clients that the connector has settings of its own for."""
        blocks = []
        for client, settings in connector.overrides.items():
            base = self._block(client).settings
            prefix = f"{client}.override."
            blocks.append(
                Block(
                    file=connector.file,
                    name=client,
                    prefix=prefix,
                    settings={**base, **settings},
                    own=settings,
                )
            )
        return blocks

    def _block(self, client: str) -> Block:
        own = _under(self.properties, f"{client}.")
        inherited = self._unprefixed()
        if client != "admin":  # which takes the worker's, as it did before it had a block
            inherited = {BOOTSTRAP: inherited.get(BOOTSTRAP, "")}
        return Block(file=self.file, name=client, prefix=f"{client}.", settings={**inherited, **own}, own=own)

    def _unprefixed(self) -> dict[str, str]:
        prefixes = tuple(f"{client}." for client in CLIENTS)
        return {key: value for key, value in self.properties.items() if not key.startswith(prefixes)}

    def rest_tls(self) -> Properties:
        """Return the HTTPS listener's settings: those under `listeners.https.`, else all the rest."""
        return _under(self.properties, "listeners.https.") or self.properties

    def plugin_path(self) -> list[str]:
        return [
            folder.strip() for folder in self.properties.get("plugin.path", "").split(",") if folder.strip()
        ]


def key_store(settings: Properties) -> Store | None:
    pem = "\n".join(
        settings[name] for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain") if name in settings
    )
    return _store("key", settings, pem, settings.get("ssl.key.password"))


def trust_store(settings: Properties) -> Store | None:
    return _store("trust", settings, settings.get("ssl.truststore.certificates", ""), None)


def _store(role: str, settings: Properties, pem: str, pem_password: str | None) -> Store | None:
    kind = settings.get(f"ssl.{role}store.type", "JKS").upper()  # JKS is Kafka's default
    location = settings.get(f"ssl.{role}store.location") or None
    if location is None and not pem:
        return None
    password = pem_password if kind == "PEM" else settings.get(f"ssl.{role}store.password")
    return Store(role=role, type=kind, location=location, password=password, pem=None if location else pem)


def parse_worker(text: str, file: str, read: Callable[[str], str | None]) -> Worker:
    """Parse a worker's properties.

    `read` gives the text of a file that a FileConfigProvider would read, None where it can't.
    """
    properties = parse_properties(text)
    if not properties.keys() & {BOOTSTRAP, "group.id"}:
        raise Refused(
            "connect-worker-invalid",
            f"{file} is not the configuration of a worker: it has neither {BOOTSTRAP} nor group.id. Pass "
            "the properties file with which connect-distributed is started.",
        )
    return Worker(file, resolved(properties, read))


def resolved(properties: Properties, read: Callable[[str], str | None]) -> Properties:
    """Follow references to files (`${file:/path:key}`), where these can be read."""
    providers = {
        name.strip()
        for name in properties.get("config.providers", "").split(",")
        if properties.get(f"config.providers.{name.strip()}.class") == FILE_PROVIDER
    }

    def follow(value: str) -> str:
        parts, end = [], 0
        for reference in references(value):
            written = value[reference.begin : reference.end]
            path = reference.path
            text = read(path) if reference.provider in providers and path else None
            known = {} if text is None else parse_properties(text)
            parts += [value[end : reference.begin], known.get(reference.key, written)]
            end = reference.end
        return "".join([*parts, value[end:]])

    return {key: follow(value) for key, value in properties.items()}


def parse_connector(text: str, file: str) -> ConnectorConfig:
    """Parse a connector's properties, or JSON: its configuration, or that under "config" beside "name"."""
    if not file.endswith(".json"):
        config = parse_properties(text)
        return ConnectorConfig(file=file, name=config.get("name", file), config=config)
    try:
        content = json.loads(text)
        config = content.get("config", content)
        entries: dict[str, Any] = dict(config.items())
    except (ValueError, AttributeError) as error:
        raise Refused(
            "connector-config-invalid",
            f"{file} is not the configuration of a connector: {error}. Write a JSON object.",
        ) from None
    name = str(content.get("name", entries.get("name", file)))
    return ConnectorConfig(
        file=file,
        name=name,
        config={key: _text(value) for key, value in entries.items() if value is not None},
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _under(properties: Properties, prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
