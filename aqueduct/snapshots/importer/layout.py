"""The interface of a layout: the contents of another program's store, and how its files are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct.errors import LeftOut
from aqueduct.kafka.batches.records import Records
from aqueduct.store.manifest import StoredGroup


class ForeignFile(NamedTuple):
    """A file with records of one partition."""

    path: str
    size: int  # bytes
    last: int  # the offset of its last record
    first: int | None = None  # the offset of its first record; None: only the file contains it
    records: int | None = None  # the number of its records; None: only the file contains it
    unpacked_bytes: int = 0


class Missing(NamedTuple):
    """Offsets that the other program's store reports as missing; `stop` is exclusive."""

    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class ForeignPartition:
    topic: str
    partition: int
    files: tuple[ForeignFile, ...]  # in the order of offsets
    missing: tuple[Missing, ...] = ()  # in the order of offsets

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, kw_only=True)
class ForeignStore:
    """The contents of another program's store."""

    program: str  # the program that wrote it
    cluster: str  # Kafka's cluster id; empty if unknown
    topics: Mapping[str, int]  # number of partitions of each topic
    partitions: tuple[ForeignPartition, ...]  # those with records
    groups: tuple[StoredGroup, ...]
    lacks: LeftOut  # what this layout does not contain


class FoundRecords(NamedTuple):
    records: Records
    stop: int  # the last offset that the file covers, plus one
