"""What a restore has done."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.restore.plan import Plan
from aqueduct.restore.progress import Progress


@dataclass(frozen=True)
class Move:
    """A group's committed offset of one partition."""

    group: str
    topic: str  # at the target
    partition: int
    old: int  # in the snapshot
    new: int
    metadata: str
    note: str = ""  # why it does not mean the very next record


@dataclass(frozen=True)
class Outcome:
    restore_id: str
    plan: Plan
    written: Mapping[tuple[str, int], Progress] = field(default_factory=dict)  # by topic at the target
    moves: tuple[Move, ...] = ()
    held: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # topic: settings it shall get
    warnings: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()  # what, why
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
    before: bool = False  # it was finished by an earlier run
    dry_run: bool = False
