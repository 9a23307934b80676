"""Checks of Kafka settings in an inventory against Kafka's own definitions: names and values.

Kafka rejects invalid topic settings, and a broker with an invalid value does not start. Unknown broker
settings are ignored silently: `log.retention.hour` would change nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, did_you_mean
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.check.variables import distinct, shown

# Prefixes of settings that plugins read, with their own names after the prefix.
PASSED_ON = ("authorizer.zookeeper.", "config.providers.", "rlmm.config.", "rsm.config.")
LISTENER = re.compile(r"listener\.name\.[^.]+\.")

_BITS = {"short": 16, "int": 32, "long": 64}
# The unit of a value by the last part of the setting's name, and the factors of units that users write.
_UNITS = {
    "ms": "milliseconds",
    "bytes": "bytes",
    "seconds": "seconds",
    "minutes": "minutes",
    "hours": "hours",
}
_FACTORS = {
    "ms": {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000},
    "bytes": {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40},
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting as Kafka's ConfigDef defines it."""

    type: str
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()  # the valid values; for a list, the valid elements
    any_case: bool = False

    def fault(self, name: str, value: Any) -> Labelled | None:
        """Return the fault of a value; None if it is valid."""
        text = str(value).strip()
        if "${" in text:  # a config provider of Kafka returns the value
            return None
        if self.type == "boolean" and text.lower() not in ("true", "false"):
            return Labelled("setting-value-wrong", f"it must be true or false, not {shown(value)}.")
        if self.type in _BITS or self.type == "double":
            return self._fault_of_number(name, text, value)
        given = [text]
        if self.type == "list":
            given = [part.strip() for part in text.split(",")] if text else []
        for word in given if self.words else ():
            if (word.upper() if self.any_case else word) not in self.words:
                choices = ", ".join(self.words)
                return Labelled(
                    "setting-value-wrong",
                    f"{word} is not one of {choices}; {did_you_mean(word, self.words, 'choose one.')}",
                )
        return None

    def _fault_of_number(self, name: str, text: str, value: Any) -> Labelled | None:
        bits = _BITS.get(self.type)
        if not re.fullmatch(
            r"[+-]?\d+" if bits else r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII
        ):
            end = name.rpartition(".")[2]
            unit = f" of {_UNITS[end]}" if end in _UNITS else ""
            given = re.fullmatch(r"(\d+) ?(ms|[a-z])(i?b)?", text.lower(), re.ASCII)
            factor = _FACTORS.get(end, {}).get(given[2]) if given else None
            remedy = f"; write {int(given[1]) * factor}" if given and factor else ""
            return Labelled(
                "setting-value-wrong",
                f"it must be a{' whole' if bits else ''} number{unit}, not {shown(value)}{remedy}.",
            )
        number = int(text) if bits else float(text)
        limit = 1 << (bits - 1) if bits else None
        least = self.least if self.least is not None else -limit if limit else number
        most = self.most if self.most is not None else limit - 1 if limit else number
        if least <= number <= most:
            return None
        allowed = f"{least} or more" if number < least and self.most is None else f"from {least} to {most}"
        return Labelled("setting-value-wrong", f"it must be {allowed}, not {text}.")


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """The settings of one version of Kafka."""

    version: str
    topic: Mapping[str, Setting]
    broker: Mapping[str, Setting]
    dynamic: Mapping[str, Setting]  # of a broker, only at runtime and not in its file

    @classmethod
    def parse(cls, text: str) -> "Definitions":
        """Parse a file that script/kafka-configs wrote."""
        content = json.loads(text)
        return cls(
            version=content["version"],
            topic=_settings(content["topic"]),
            broker=_settings(content["broker"]),
            dynamic=_settings(content["dynamic"]),
        )


def _settings(facts_by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Setting]:
    return {
        name: Setting(**{**facts, "words": tuple(facts.get("words", ()))})
        for name, facts in facts_by_name.items()
    }


def check_topics(
    inventory: Inventory, sound: Sound, site: str, definitions: Mapping[str, Definitions]
) -> Iterator[Finding]:
    """Check the settings of a site's topics. A null removes an override."""
    for topic in sound.items(site, "kafka_topics"):
        release = definitions.get(str(sound.set_or_default(topic.host, "kafka_version")))
        if release is None:
            continue
        for name, value in topic.value.get("config", {}).items():
            if name not in release.topic:
                remedy = did_you_mean(name.removeprefix("log."), release.topic, "remove it.")
                fault: Labelled | None = Labelled(
                    "setting-unknown", f"Kafka {release.version} has no such topic setting; {remedy}"
                )
            else:
                fault = None if value is None else release.topic[name].fault(name, value)
            if fault:
                yield topic.finding(fault, ("config", name))


def check_brokers(
    inventory: Inventory, sound: Sound, definitions: Mapping[str, Definitions]
) -> Iterator[Finding]:
    """Check the settings of brokers and controllers."""
    for host, variable, _ in distinct(inventory):
        release = definitions.get(str(sound.set_or_default(host, "kafka_version")))
        if variable != "kafka_settings" or release is None:
            continue
        settings = sound.value(host, variable) or {}
        is_archive = inventory.hosts[host].get("artifact_kafka_source") == "archive"
        readers = is_archive or any(_names_a_plugin(name, value) for name, value in settings.items())
        for name, value in settings.items():
            fault = _fault(release, name, value, readers)
            if fault:
                yield inventory.finding(host, variable, fault[0], (name,), fault[1])


def _fault(release: Definitions, name: str, value: Any, has_readers: bool) -> tuple[Labelled, bool] | None:
    """Return the fault of a broker's setting, and whether it is only a warning. None without a fault.

    `has_readers`: plugins may read settings that Kafka does not define.
    """
    own = _own_name(release, name)
    if own in release.broker:
        fault = release.broker[own].fault(own, value)
        return (fault, False) if fault else None
    if own in release.dynamic:
        return Labelled(
            "setting-dynamic-only",
            "Kafka accepts this setting only at runtime (kafka-configs.sh), not from its "
            "configuration file; remove it.",
        ), False
    if own.startswith(PASSED_ON):
        return None
    remedy = did_you_mean(own, release.broker, "")
    if has_readers:  # a plugin may read it
        return (
            (
                Labelled(
                    "setting-unknown",
                    f"Kafka {release.version} itself does not define this setting; {remedy}",
                ),
                True,
            )
            if remedy
            else None
        )
    return (
        Labelled(
            "setting-unknown",
            f"Kafka {release.version} does not define this setting and would ignore it; "
            f"{remedy or 'remove it.'}",
        ),
        False,
    )


def _own_name(release: Definitions, name: str) -> str:
    """Return the name without the prefix of a listener, and without a SASL mechanism after this prefix."""
    listener = LISTENER.match(name)
    if not listener:
        return name
    rest = name[listener.end() :]
    mechanism, _, behind = rest.partition(".")
    return behind if behind in release.broker and rest not in release.broker and mechanism else rest


def _names_a_plugin(name: str, value: Any) -> bool:
    """Return whether a setting contains a class that is not Kafka's. The class may read any setting."""
    parts = name.split(".")
    is_class = "class" in parts or parts[-1] in ("reporters", "providers")
    classes = [part.strip() for part in str(value).split(",")] if is_class else []
    return any("." in class_name and not class_name.startswith("org.apache.kafka.") for class_name in classes)
