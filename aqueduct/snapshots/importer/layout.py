"""The interface of a layout: what a foreign store has, and how its files are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct.errors import LeftOut
from aqueduct.kafka.batches.records import Records
from aqueduct.store.manifest import StoredGroup


class ForeignFile(NamedTuple):
    """A file of one partition's records."""

    path: str
    size: int  # bytes
    last: int  # the offset of its last record
    first: int | None = None  # of its first one; None: only the file tells
    records: int | None = None  # the same
    unpacked_bytes: int = 0


class Missing(NamedTuple):
    """Offsets that the foreign store tells to be missing; `stop` is exclusive."""

    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class ForeignPartition:
    topic: str
    partition: int
    files: tuple[ForeignFile, ...]  # in the order of offsets
    missing: tuple[Missing, ...] = ()  # the same

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, kw_only=True)
class ForeignStore:
    """What a foreign store has."""

    program: str  # who wrote it
    cluster: str  # Kafka's cluster id; empty: it is not told
    topics: Mapping[str, int]  # how many partitions each has
    partitions: tuple[ForeignPartition, ...]  # that have records
    groups: tuple[StoredGroup, ...]
    lacks: LeftOut  # what such a store never has


class FoundRecords(NamedTuple):
    records: Records
    stop: int  # one more than the last offset that the file covers
