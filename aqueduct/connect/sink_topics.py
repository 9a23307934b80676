"""The topics that sinks read, compared with those of the cluster. A pure core.

A sink with a misspelt topic runs and delivers nothing: Connect subscribes to topics that do not exist.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from aqueduct.common.topic_names import unmatched_parts
from aqueduct.connect.findings import WorkerFinding
from aqueduct.connect.worker import BOOTSTRAP, ConnectorConfig
from aqueduct.errors import Skipped

OTHER_CLUSTER = f"consumer.override.{BOOTSTRAP}"


@dataclass(frozen=True, kw_only=True)
class SinkTopics:
    """What a comparison found out about the sinks; `unmatched` has only those that were compared."""

    unmatched: Mapping[str, tuple[str, ...]]  # the topics and patterns without a topic, by connector
    findings: tuple[WorkerFinding, ...] = ()
    unknown: tuple[Skipped, ...] = ()


def sinks(connectors: Iterable[ConnectorConfig]) -> list[ConnectorConfig]:
    return sorted((connector for connector in connectors if connector.is_sink), key=lambda sink: sink.name)


def compare(connectors: Iterable[ConnectorConfig], topics: Collection[str]) -> SinkTopics:
    """Compare sinks with the topics of the cluster whose worker runs them."""
    unmatched: dict[str, tuple[str, ...]] = {}
    findings: list[WorkerFinding] = []
    unknown: list[Skipped] = []
    for connector in sinks(connectors):
        if OTHER_CLUSTER in connector.config:
            reason = (
                f"{OTHER_CLUSTER} is set, so the connector reads from another cluster, which was not checked"
            )
            unknown.append(_unknown(connector, reason))
            continue
        named = [topic.strip() for topic in connector.config.get("topics", "").split(",")]
        lacking = [topic for topic in named if topic and topic not in topics]
        expression = connector.config.get("topics.regex", "")
        try:
            parts = unmatched_parts(expression, topics)
        except re.error as error:  # such as syntax that only Java has
            reason = f"topics.regex {expression} cannot be evaluated: {error}"
            unknown.append(_unknown(connector, reason))
            continue
        unmatched[connector.name] = (*lacking, *parts)
        findings += [_finding(connector, "topics", "topic-unknown", topic) for topic in lacking]
        findings += [_finding(connector, "topics.regex", "pattern-matches-nothing", part) for part in parts]
    return SinkTopics(unmatched=unmatched, findings=tuple(findings), unknown=tuple(unknown))


def not_compared(connectors: Iterable[ConnectorConfig], error: Exception) -> SinkTopics:
    """Return that the cluster did not list its topics."""
    skipped = (Skipped.because_of(_subject(connector), error) for connector in sinks(connectors))
    return SinkTopics(unmatched={}, unknown=tuple(skipped))


def _subject(connector: ConnectorConfig) -> str:
    return f"the topics of connector {connector.name}"


def _unknown(connector: ConnectorConfig, reason: str) -> Skipped:
    return Skipped(_subject(connector), reason, "connect-topics-unknown")


def _finding(connector: ConnectorConfig, setting: str, id_: str, part: str) -> WorkerFinding:
    sentence = (
        f"{connector.file}: connector {connector.name} reads no records of {part} ({setting}), because the "
        f"cluster has no matching topic that the client may describe. Correct {setting}, or create the "
        "topic."
    )
    return WorkerFinding("fault", id_, sentence)
