"""The outcome of an import."""

from dataclasses import dataclass

from aqueduct.errors import LeftOut
from aqueduct.snapshots.importer.layout import ForeignPartition, ForeignStore
from aqueduct.store.manifest import Gap, Manifest, Segment


@dataclass(frozen=True, kw_only=True)
class ImportedPartition:
    partition: ForeignPartition
    start: int
    stop: int  # exclusive
    segments: tuple[Segment, ...]
    gaps: tuple[Gap, ...]
    twice: int  # records that had come before
    holes: int  # offsets without a record, of which nothing tells why
    others: int  # of those that came twice, the ones that were not the same


@dataclass(frozen=True, kw_only=True)
class ImportOutcome:
    foreign: ForeignStore
    manifest: Manifest
    imported: tuple[ImportedPartition, ...]
    stored_bytes: int
    left_out: LeftOut
    seconds: float
