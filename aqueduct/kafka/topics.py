"""Topics: what the inventory declares against what the cluster has.

A topic is made, grows or gets other settings, and loses nothing: none is deleted, no partition taken away.
Settings are the topic's own (overrides of the broker's defaults) and are changed one by one (KIP-339). One
that the inventory does not name stays, because others set some too: a mirror, the throttle of a reassignment.
To take one back, declare it with the value null; then the broker's default holds again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.common.wording import count, some
from aqueduct.errors import Refused

Overrides = Mapping[str, str | None]  # None: no override


@dataclass(frozen=True, kw_only=True)
class DeclaredTopic:
    """A topic as the inventory wants it; replication factor None: the broker's default."""

    name: str
    partitions: int
    replication_factor: int | None = None
    config: Overrides = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ActualTopic:
    """A topic as the cluster has it; `config` holds at least the overrides that the inventory names."""

    partitions: int
    replication_factors: frozenset[int]  # of its partitions; more than one after a partial reassignment
    config: Mapping[str, str]
    without_leader: int = 0  # partitions


@dataclass(frozen=True, kw_only=True)
class TopicChanges:
    create: tuple[DeclaredTopic, ...]
    grow: Mapping[str, int]  # topic -> number of partitions that it shall have
    alter: Mapping[str, Overrides]
    unmet: tuple[str, ...]  # findings about what is declared and is not applied

    def touched(self) -> set[str]:
        return {topic.name for topic in self.create} | self.grow.keys() | self.alter.keys()


def parse(entries: Sequence[Mapping[str, Any]]) -> tuple[DeclaredTopic, ...]:
    """Return the inventory's `kafka_topics`; Refused with every mistake in it."""
    topics: dict[str, DeclaredTopic] = {}
    problems = []
    for entry in entries:
        name = str(entry["name"])
        factor = entry.get("replication_factor")
        if not LEGAL_NAME.fullmatch(name):
            problems.append(
                f"{name!r} is not a valid topic name; use at most 249 characters of a-z, A-Z, 0-9, '.', "
                "'_' and '-'"
            )
        if name in topics:
            problems.append(f"{name} is declared twice")
        if entry["partitions"] < 1:
            problems.append(f"{name} has partitions: {entry['partitions']}; use 1 or more")
        if factor is not None and factor < 1:
            problems.append(
                f"{name} has replication_factor: {factor}; use 1 or more, or omit replication_factor"
            )
        config = {}
        for key, value in (entry.get("config") or {}).items():
            if isinstance(value, Mapping | list):
                problems.append(f"{name} has {key}: {value}; write the value as a text or a number")
            config[str(key)] = _text(value)
        topics[name] = DeclaredTopic(
            name=name, partitions=entry["partitions"], replication_factor=factor, config=config
        )
    if problems:
        raise Refused("topic-declaration-invalid", f"The declared topics have faults: {'; '.join(problems)}.")
    return tuple(topics.values())


def plan(declared: Iterable[DeclaredTopic], actual: Mapping[str, ActualTopic]) -> TopicChanges:
    """Return the changes to make; Refused if a topic would have to shrink. `actual` is by topic name."""
    create = []
    grow = {}
    alter = {}
    shrink = []
    others = []
    for topic in declared:
        present = actual.get(topic.name)
        if present is None:
            create.append(topic)
            continue
        if topic.partitions < present.partitions:
            shrink.append(f"{topic.name} ({present.partitions}, declared {topic.partitions})")
        elif topic.partitions > present.partitions:
            grow[topic.name] = topic.partitions
        if changes := {k: v for k, v in topic.config.items() if not same(v, present.config.get(k))}:
            alter[topic.name] = changes
        if topic.replication_factor is not None and present.replication_factors != {topic.replication_factor}:
            has = "/".join(map(str, sorted(present.replication_factors)))
            others.append(f"{topic.name} ({has}, declared {topic.replication_factor})")
    if shrink:
        raise Refused(
            "topic-partitions-exceed-declaration",
            f"{count(len(shrink), 'topic')} with more partitions than declared: {some(shrink)}. Kafka "
            "cannot remove partitions, so declare the present number. Nothing was changed.",
        )
    unmet = [
        f"{count(len(others), 'topic')} with another replication factor than declared: {some(others)}. "
        "Change the replication factor with kafka-reassign-partitions.sh, or declare the present one."
    ]
    return TopicChanges(create=tuple(create), grow=grow, alter=alter, unmet=tuple(unmet if others else ()))


def diff(changes: TopicChanges, actual: Mapping[str, ActualTopic]) -> dict[str, dict[str, Any]]:
    """Return `{"before": {topic: what changes}, "after": ...}` for Ansible's diff mode."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for topic in changes.create:
        after[topic.name] = {
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor or "default",
            "config": dict(topic.config),
        }
    for name, partitions in changes.grow.items():
        before.setdefault(name, {})["partitions"] = actual[name].partitions
        after.setdefault(name, {})["partitions"] = partitions
    for name, config in changes.alter.items():
        before.setdefault(name, {})["config"] = {key: actual[name].config.get(key) for key in config}
        after.setdefault(name, {})["config"] = dict(config)
    return {"before": before, "after": after}


def _text(value: object) -> str | None:
    """Convert YAML's value to Kafka's text: true, 5 and 0.5 are written so."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def same(declared: str | None, actual: str | None) -> bool:
    """Return whether both are equal once Kafka has parsed them.

    It answers with its own spelling of a number, a boolean or a list.
    """
    if declared is None or actual is None:
        return declared is actual
    return _parsed(declared) == _parsed(actual)


def _parsed(value: str) -> list[Decimal | str]:
    return [_scalar(element.strip()) for element in value.split(",")]


def _scalar(text: str) -> Decimal | str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text.lower() if text.lower() in ("true", "false") else text
    return number if number.is_finite() else text  # NaN does not equal itself
