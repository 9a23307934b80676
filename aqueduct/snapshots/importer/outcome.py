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
    twice: int  # records with an offset that an earlier file had
    holes: int  # offsets without a record, for an unknown reason
    others: int  # of `twice`, records that differ from those of the earlier file


@dataclass(frozen=True, kw_only=True)
class ImportOutcome:
    foreign: ForeignStore
    manifest: Manifest
    imported: tuple[ImportedPartition, ...]
    stored_bytes: int
    left_out: LeftOut
    seconds: float
