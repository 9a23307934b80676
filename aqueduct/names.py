"""Names of topics and partitions: which are legal, and those that differ at the other end of a flow."""

import re
from typing import NamedTuple

from aqueduct.errors import Refused

# org.apache.kafka.common.internals.Topic, without its "." and "..".
LEGAL_NAME = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")

# Topics that brokers keep for themselves: their records mean nothing in another cluster.
OWN_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
INTERNAL = "__"  # how they begin, and those of some applications


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def matches(pattern: re.Pattern[str], name: str) -> bool:
    """Return whether the whole name matches, and isn't Kafka's own.

    One that begins with `__` takes a pattern in which `__` is written: `.*` doesn't match it.
    """
    if name in OWN_TOPICS or (name.startswith(INTERNAL) and INTERNAL not in pattern.pattern):
        return False
    return pattern.fullmatch(name) is not None


def alternatives(pattern: str) -> list[str]:
    """Split a regular expression at the bars of its top level; one with flags for all of it stays whole."""
    parts, depth, start, at = [], 0, 0, 0
    first_of_class: int | None = None  # where a bracket would be a letter
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif first_of_class is not None:
            if letter == "]" and at != first_of_class:
                first_of_class = None
        elif letter == "[":
            first_of_class = at + 1 + (pattern[at + 1 : at + 2] == "^")
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and not depth:
            parts.append(pattern[start:at])
            start = at + 1
        at += 1
    has_flags = re.match(r"\(\?[aiLmsux]+\)", pattern)
    return [pattern] if has_flags else [*parts, pattern[start:]]


def parse_renames(text: str, prefix: str = "") -> dict[str, str]:
    """Parse names at the source, sorted, each with that at the target: after the colon, or prefix and name.

    Refused if a name isn't one, or if two topics are one at an end.
    """
    names: dict[str, str] = {}
    for pair in text.split(","):
        source, colon, target = pair.partition(":")
        target = target if colon else prefix + source
        for name in (source, target):
            if not LEGAL_NAME.fullmatch(name):
                raise Refused(
                    "topic-name-invalid",
                    f"{name!r} in --topics isn't a topic name; write a,b or source:target.",
                )
        if source in names or target in names.values():
            raise Refused(
                "topic-listed-twice",
                f"--topics names {pair} twice, or two topics for one target; say it once.",
            )
        names[source] = target
    return dict(sorted(names.items()))
