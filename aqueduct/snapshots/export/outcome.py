"""The outcome of an export."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.snapshots.export.state import ExportDone
from aqueduct.snapshots.restore.plan import RestorePlan


@dataclass(frozen=True, kw_only=True)
class ExportOutcome:
    url: str  # the target folder
    plan: RestorePlan
    done: ExportDone
    tables: Mapping[str, str]  # name of the declared table by topic
    before: bool  # whether an earlier run completed the export
    written: int  # number of shares that this run wrote
    shares: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
