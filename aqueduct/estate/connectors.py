"""The connectors of a site, declared in `connect_connectors` of the hosts that run them.

Configurations, topics and names for ACLs are derived only from the inventory. Names and defaults are those of
connect-runtime of Kafka 4.3.1 (ConnectorConfig, SinkConnectorConfig, DistributedConfig).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct.connect import replay_ledger
from aqueduct.connect.connectors import text
from aqueduct.estate.model import Groups, HostVars, members, texts

DEAD_LETTERS = "errors.deadletterqueue.topic.name"
# A dead-letter record also has headers with the error and its stack trace.
LARGEST_LETTER_BYTES = 10 << 20


@dataclass(frozen=True, kw_only=True)
class DeclaredConnector:
    """An item of `connect_connectors`."""

    name: str
    config: Mapping[str, str]  # as declared, without keys whose value is null
    writes: tuple[str, ...] = ()  # topics of a source: Java's regular expressions for whole names
    state: str = "running"  # or paused, stopped, absent
    left_out: frozenset[str] = frozenset()  # keys whose value is null: Aqueduct's default is not used either

    @property
    def is_sink(self) -> bool:
        """Whether it is a sink: it has topics and no `writes`. A source may have `topics`, too."""
        return not self.writes and ("topics" in self.config or "topics.regex" in self.config)

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics of a sink, as patterns."""
        if not self.is_sink:
            return ()
        named = (topic.strip() for topic in self.config.get("topics", "").split(","))
        return (*filter(None, named), *filter(None, [self.config.get("topics.regex", "")]))

    @property
    def group(self) -> str:
        """Return the consumer group of a sink."""
        return self.config.get("consumer.override.group.id", f"connect-{self.name}")

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic of a sink; empty if it has none."""
        unwanted = self.left_out & {"errors.tolerance", DEAD_LETTERS}
        if not self.is_sink or unwanted or self.config.get("errors.tolerance") == "none":
            return ""
        return self.config.get(DEAD_LETTERS, f"{self.name}-dlq")

    def full_config(self, replication_factor: int) -> dict[str, str]:
        """Return the configuration for Connect, with defaults for a dead-letter topic."""
        defaults = {}
        if self.dead_letters:
            defaults = {
                "errors.tolerance": "all",
                "errors.log.enable": "true",
                DEAD_LETTERS: self.dead_letters,
                "errors.deadletterqueue.context.headers.enable": "true",
                "errors.deadletterqueue.topic.replication.factor": str(replication_factor),
            }
        return {key: value for key, value in defaults.items() if key not in self.left_out} | dict(self.config)

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> "DeclaredConnector":
        config = declared.get("config") or {}
        return cls(
            name=str(declared["name"]),
            config={str(key): text(value) for key, value in config.items() if value is not None},
            writes=texts(declared.get("writes", ())),
            state=declared.get("state", "running"),
            left_out=frozenset(str(key) for key, value in config.items() if value is None),
        )


def read_connectors(groups: Groups, hostvars: HostVars, site: str) -> tuple[DeclaredConnector, ...]:
    """Read a site's connectors, which are the same on all its connect hosts."""
    for host in members(groups, site, "connect")[:1]:
        return tuple(
            DeclaredConnector.of(declaration)
            for declaration in hostvars[host].get("connect_connectors") or ()
        )
    return ()


def worker_group(site: str) -> str:
    """Return the group of the workers. Groups of sinks begin with `connect-`, so names cannot collide."""
    return f"aqueduct-connect-{site}"


def internal_topics(site: str) -> dict[str, str]:
    """Return the names of Connect's internal topics by the worker property that sets each name."""
    kinds = {"config": "configs", "offset": "offsets", "status": "status"}
    return {f"{kind}.storage.topic": f"{worker_group(site)}-{name}" for kind, name in kinds.items()}


def topics(
    site: str, connectors: Iterable[DeclaredConnector], *, letters_mebibytes: int, declared: Iterable[str]
) -> list[dict[str, Any]]:
    """Return Connect's internal topics and the dead-letter topics, as entries of `kafka_topics`.

    `letters_mebibytes`: retention of a dead-letter topic. `declared`: topics that the site declares itself;
    they are not returned.
    """
    partitions = {"config.storage.topic": 1, "offset.storage.topic": 25, "status.storage.topic": 5}
    own = [
        {"name": name, "partitions": partitions[key], "config": {"cleanup.policy": "compact"}}
        for key, name in internal_topics(site).items()
    ]
    connectors, declared = tuple(connectors), frozenset(declared)
    letters = {connector.dead_letters for connector in connectors} - {"", *declared}
    # Retention by size only: a dead-letter record has the timestamp of its original record, so retention by
    # time could delete it at once.
    config = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": str(letters_mebibytes << 20),
        "max.message.bytes": str(LARGEST_LETTER_BYTES),
    }
    own += [{"name": name, "partitions": 1, "config": config} for name in sorted(letters)]
    # The ledger of replayed records. The principal of the replay has no right to create topics.
    if any(connector.dead_letters for connector in connectors) and replay_ledger.TOPIC not in declared:
        own.append({"name": replay_ledger.TOPIC, "partitions": 1, "config": dict(replay_ledger.CONFIG)})
    return own


_REFERENCE = re.compile(r"\$\{(\w+):(?:([^}:]*):)?([^}]*)\}")


def references(value: str, file: str) -> list[str]:
    """Return the keys of a properties file to which a setting refers (Kafka's FileConfigProvider)."""
    return [key for provider, path, key in _REFERENCE.findall(value) if (provider, path) == ("file", file)]
