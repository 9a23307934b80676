"""Names of topics: their syntax, their patterns, and renames between a source and a target."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from aqueduct.errors import Refused

# org.apache.kafka.common.internals.Topic, which also excludes "." and "..".
LEGAL_NAME = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")

# Kafka's internal topics: their records have no meaning in another cluster.
OWN_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
INTERNAL = "__"  # the prefix of internal topics, also of some applications


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def matches(pattern: re.Pattern[str], name: str) -> bool:
    """Return whether a pattern matches the whole name, and the name is not an internal topic of Kafka.

    A name that begins with `__` matches only a pattern that contains `__`: `.*` does not match it.
    """
    if name in OWN_TOPICS or (name.startswith(INTERNAL) and INTERNAL not in pattern.pattern):
        return False
    return pattern.fullmatch(name) is not None


def alternatives(pattern: str) -> list[str]:
    """Split a regular expression at its top-level `|`. An expression with leading flags is not split."""
    if re.match(r"\(\?[aiLmsux]+\)", pattern):
        return [pattern]
    parts, depth, start = [], 0, 0
    for index, character in _structure(pattern):
        if character == "|":
            if not depth:
                parts.append(pattern[start:index])
                start = index + 1
        else:
            depth += 1 if character == "(" else -1
    return [*parts, pattern[start:]]


def _structure(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the index and character of each `(`, `)` and `|` that is neither escaped nor in a class."""
    index = 0
    first_of_class: int | None = None  # where `]` does not end the class
    while index < len(pattern):
        character = pattern[index]
        if character == "\\":
            index += 1
        elif first_of_class is not None:
            if character == "]" and index != first_of_class:
                first_of_class = None
        elif character == "[":
            first_of_class = index + 1 + (pattern[index + 1 : index + 2] == "^")
        elif character in "()|":
            yield index, character
        index += 1


def pattern_parts(pattern: str) -> dict[str, re.Pattern[str]]:
    """Return a compiled expression for each alternative of a regular expression, by the alternative's text.

    If the alternatives are in one group after look-aheads, as in patterns of flows, each expression contains
    the look-aheads. If an alternative does not compile alone, the whole expression is the only part.
    """
    prefix, alternatives_ = "", alternatives(pattern)
    if len(alternatives_) == 1 and (group := _last_group(pattern)):
        prefix, content = group
        alternatives_ = alternatives(content)
    try:
        return {part: re.compile(f"{prefix}(?:{part})" if prefix else part) for part in alternatives_ if part}
    except re.error:
        return {pattern: re.compile(pattern)}


def _last_group(pattern: str) -> tuple[str, str] | None:
    """Return the look-aheads and the content of the group after them; None for a pattern of another form."""
    groups: list[tuple[int, int]] = []  # top-level groups, from the first character to after the last one
    depth, start, stop = 0, 0, 0
    for index, character in _structure(pattern):
        if character == "|":
            continue
        if character == "(":
            if not depth:
                if index != stop:
                    return None
                start = index
            depth += 1
        else:
            depth -= 1
            if not depth:
                stop = index + 1
                groups.append((start, stop))
    if not groups or stop != len(pattern):
        return None
    *before, (start, _) = groups
    opening = re.compile(r"\((?:\?:|(?!\?))").match(pattern, start)
    if opening is None or not all(pattern.startswith(("(?!", "(?="), first) for first, _ in before):
        return None
    return pattern[:start], pattern[opening.end() : -1]


def unmatched_parts(pattern: str, names: Collection[str]) -> list[str]:
    """Return the alternatives of a regular expression that match none of the names completely."""
    unmatched = []
    for part, expression in pattern_parts(pattern).items():
        literal = re.sub(r"\\(.)", r"\1", part)  # most parts are plain names, which need no search
        if literal in names and expression.fullmatch(literal):
            continue
        if not any(map(expression.fullmatch, names)):
            unmatched.append(part)
    return unmatched


def parse_renames(text: str, prefix: str = "") -> dict[str, str]:
    """Parse `a,b:c` to target names by source name, sorted. Without a colon, the target is prefix and name.

    Refused if a name is not valid, or if two topics have the same name at the source or at the target.
    """
    names: dict[str, str] = {}
    for pair in text.split(","):
        source, colon, target = pair.partition(":")
        target = target if colon else prefix + source
        for name in (source, target):
            if not LEGAL_NAME.fullmatch(name):
                raise Refused(
                    "topic-name-invalid",
                    f"{name!r} in --topics is not a valid topic name. Write a,b or source:target.",
                )
        if source in names or target in names.values():
            raise Refused(
                "topic-listed-twice",
                f"--topics lists {pair} twice, or two topics with the same target name. Remove one of them.",
            )
        names[source] = target
    return dict(sorted(names.items()))
