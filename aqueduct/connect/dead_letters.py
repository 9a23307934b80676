"""Dead-letter records: records that a sink could not take, with headers on where they came from (KIP-298)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct.kafka.batches.bodies import Header

CONTEXT = "__connect.errors."
REPLAYS = "aqueduct.replay"  # how often this record was sent back to its topic, in digits


class Origin(NamedTuple):
    """The origin of a dead-letter record, and why it is one."""

    topic: str
    partition: int
    offset: int
    connector: str
    error_class: str  # of the exception, whole


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The choice of dead-letter records. Times are theirs, in milliseconds since 1970, inclusive."""

    error_classes: tuple[str, ...] = ()  # whole names or their last parts; empty: any
    connector: str | None = None
    first_time: int | None = None
    last_time: int | None = None

    @property
    def names(self) -> frozenset[str]:
        """The connector and the error classes that are chosen."""
        return frozenset({*self.error_classes, *filter(None, [self.connector])})

    def named_by(self, origin: Origin) -> frozenset[str]:
        """Return which of the names a letter has, whether it is chosen or not."""
        simple = origin.error_class.rpartition(".")[2]
        of_class = {origin.error_class, simple}.intersection(self.error_classes)
        return frozenset(of_class | ({origin.connector} & {self.connector}))

    def takes(self, origin: Origin, timestamp: int) -> bool:
        simple = origin.error_class.rpartition(".")[2]
        return (
            (not self.error_classes or not {origin.error_class, simple}.isdisjoint(self.error_classes))
            and self.connector in (None, origin.connector)
            and (self.first_time is None or timestamp >= self.first_time)
            and (self.last_time is None or timestamp <= self.last_time)
        )


def origin(headers: Sequence[Header]) -> Origin | None:
    """Read a letter's origin from its headers; None where they lack a topic, partition or offset."""
    value_by_name = {name: value for name, value in headers if value is not None}  # the last one is Connect's
    try:
        return Origin(
            topic=value_by_name[_name("topic")].decode(),
            partition=int(value_by_name[_name("partition")]),
            offset=int(value_by_name[_name("offset")]),
            connector=value_by_name.get(_name("connector.name"), b"").decode(errors="replace"),
            error_class=value_by_name.get(_name("exception.class.name"), b"").decode(errors="replace"),
        )
    except (KeyError, ValueError):
        return None


def sent_back(headers: Sequence[Header]) -> list[Header]:
    """Return the record's own headers, and how often it was sent back.

    Of Connect's only the last of each name goes: a sink that reads dead-letter records leaves its own after
    those of the first one, which are part of its record.
    """
    last = {name: position for position, (name, _) in enumerate(headers)}
    replays = REPLAYS.encode()
    kept = [
        (name, value)
        for position, (name, value) in enumerate(headers)
        if name != replays and not (name.startswith(CONTEXT.encode()) and last[name] == position)
    ]
    return [*kept, (replays, b"%d" % (_replays(headers) + 1))]


def _replays(headers: Sequence[Header]) -> int:
    before = [value or b"" for name, value in headers if name == REPLAYS.encode()]
    return int(before[-1]) if before and before[-1].isdigit() else 0


def _name(suffix: str) -> bytes:
    return f"{CONTEXT}{suffix}".encode()
