"""The progress of a restore, stored in Kafka: offsets of two groups, with JSON as their metadata.

`aqueduct-restore-<id>` has, for each partition of the target, the next offset of the store to restore. It is
committed in the transactions that write the records. `aqueduct-restore-<id>.plan` has, for each topic at its
partition 0, the state that a later run needs. Kafka deletes both with the topic, so that it can be restored
again, and `offsets.retention.minutes` (7 days) after the last commit.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, TypeVar

from aqueduct.common import strict_json
from aqueduct.common.strict_json import ADDED
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.requests import METADATA_BYTES
from aqueduct.store.manifest import Segment

GROUP = "aqueduct-restore-"
PLAN = ".plan"
EVERY_GROUP = "(?s).*"

Remembered = TypeVar("Remembered")


def group(restore_id: str) -> str:
    return GROUP + restore_id


def plan_group(restore_id: str) -> str:
    return GROUP + restore_id + PLAN


def waiting_group(restore_id: str, name: str) -> str:
    """Return the group with the new offsets of a group that has members, until they can be set."""
    return f"{GROUP}{restore_id}.group.{name}"


def id_of_plan_group(name: str) -> str | None:
    """Return the id of the restore from the name of its plan group; None for other groups."""
    return name[len(GROUP) : -len(PLAN)] if name.startswith(GROUP) and name.endswith(PLAN) else None


class UnopenedBatch(NamedTuple):
    """A batch of the store that is too large to decompress and needs it, so that it is not restored."""

    first: int
    last: int
    records: int


@dataclass(frozen=True, kw_only=True)
class RestoreProgress:
    """The progress of one partition's restore."""

    topic_id: str  # at the target; another topic of this name has no progress
    start: int  # where the log of the target ended before
    records: int  # written so far
    bytes: int
    producers: tuple[int, ...]  # the producer ids in the restored batches
    # The lowest of the maximum timestamps of the batches.
    oldest: int | None = field(default=None, metadata=ADDED)
    # The id of the run that wrote last, and its part of `records` and `bytes`.
    run: str = field(default="", metadata=ADDED)
    run_records: int = field(default=0, metadata=ADDED)
    run_bytes: int = field(default=0, metadata=ADDED)
    # Offsets among the records that are no records: markers and aborted records.
    holes: int = field(default=0, metadata=ADDED)
    unopened: tuple[UnopenedBatch, ...] = field(default=(), metadata=ADDED)  # in their order

    @property
    def end(self) -> int:
        """Return where the log of the target ends if no other client writes there."""
        return self.start + self.records + self.holes

    def written(self, run: str, records: int, size: int) -> "RestoreProgress":
        """Return the progress after the run wrote this many more records and bytes."""
        had, had_bytes = self.by(run)
        return replace(
            self,
            records=self.records + records,
            bytes=self.bytes + size,
            run=run,
            run_records=had + records,
            run_bytes=had_bytes + size,
        )

    def by(self, run: str) -> tuple[int, int]:
        """Return the records and bytes that the run wrote, in all attempts of its tasks."""
        return (self.run_records, self.run_bytes) if self.run == run else (0, 0)


@dataclass(frozen=True, kw_only=True)
class RestoreOrigin:
    """The records of a store that a restore writes to a topic."""

    store: str  # its id
    topic: str  # in the store
    instance: int
    topic_id: str  # of the instance
    first_time: int  # of the time window, milliseconds, inclusive
    last_time: int

    def overlaps(self, other: "RestoreOrigin") -> bool:
        """Return whether both may have the same record of the source."""
        same = (self.store, self.topic, self.topic_id) == (other.store, other.topic, other.topic_id)
        return same and self.first_time <= other.last_time and other.first_time <= self.last_time


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """The stored state of a topic that is being restored."""

    topic_id: str
    snapshot: int
    request: str  # digest of the request
    back: Mapping[str, str | None]  # settings to set at the end; None: the cluster's default
    holds: Mapping[str, str]  # the values that settings of retention then have
    of_backup: bool  # whether `back` includes the backed-up settings
    # Patterns of groups whose offsets are set, or waiting.
    groups: tuple[str, ...] = field(default=(), metadata=ADDED)
    # All records are written, and the settings are set again.
    done: bool = field(default=False, metadata=ADDED)
    # The settings of `back` that are not set yet.
    held: Mapping[str, str | None] = field(default_factory=dict, metadata=ADDED)
    # Number of offsets that had expired in the store when the restore began.
    expired: int = field(default=0, metadata=ADDED)
    origin: RestoreOrigin  # the records that this restore writes
    # The ids of the restores that it continues.
    continues: tuple[str, ...] = field(default=(), metadata=ADDED)
    # The partitions to which nothing is appended, because the target may have their records: a bit for each,
    # hexadecimal. Empty: none.
    unknown: str = field(default="", metadata=ADDED)

    @property
    def unknown_partitions(self) -> tuple[int, ...]:
        """Return the numbers of the partitions to which nothing is appended."""
        bits = int(self.unknown or "0", 16)
        return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)

    @property
    def pending(self) -> Mapping[str, str | None]:
        """The settings that are not set yet."""
        return self.held if self.done else self.back


@dataclass(frozen=True, kw_only=True)
class EarlierPart:
    """The records of a partition that an earlier restore wrote, and that another one continues."""

    start: int  # offsets in the store
    stop: int  # exclusive
    progress: RestoreProgress | None  # None: the target has deleted it
    compacted: bool  # whether the target may have compacted the records since
    segments: tuple[Segment, ...]


Earlier = Mapping[
    TopicPartition, tuple[EarlierPart, ...]
]  # in the order of offsets, by the target's partition


def matched(patterns: Iterable[str], groups: Iterable[str]) -> frozenset[str]:
    """Return the groups that match one of the patterns."""
    compiled = [re.compile(pattern) for pattern in patterns]
    return frozenset(name for name in groups if any(pattern.fullmatch(name) for pattern in compiled))


def partition_bits(partitions: Iterable[int]) -> str:
    """Return the value of `TopicState.unknown` for these partitions."""
    bits = sum(1 << number for number in set(partitions))
    return f"{bits:x}" if bits else ""


def dumps(state: object, owner: str) -> str:
    """Return a state as the metadata of a commit; Refused if it is too long for Kafka.

    Optional fields with their default values are not included.
    """
    kept = {
        attribute.name: value
        for attribute in fields(state)  # type: ignore[arg-type]
        for value in [getattr(state, attribute.name)]
        if not (ADDED.items() <= attribute.metadata.items() and value == strict_json.default(attribute))
    }
    text = strict_json.dumps(kept).decode()
    if len(text.encode()) > METADATA_BYTES:
        raise Refused(
            "restore-state-too-large",
            f"The state of {owner} has {len(text.encode())} bytes, but Kafka stores at most {METADATA_BYTES} "
            "with an offset. Check the settings of the topic, or pass a shorter --groups-pattern.",
        )
    return text


def loads(kind: type[Remembered], metadata: str) -> Remembered | None:
    """Parse the metadata of a committed offset; None if it is not of this kind.

    Missing fields get their default values.
    """
    try:
        return strict_json.loads(kind, metadata.encode())
    except strict_json.Unreadable:
        return None
