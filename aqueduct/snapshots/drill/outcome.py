"""The outcome of a drill: what came back, how fresh it is, how long it took, and whether it is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.errors import ExitCode, LeftOut
from aqueduct.mirror.reconcile.flow import ComparedFlow
from aqueduct.mirror.reconcile.verdict import Verdict
from aqueduct.snapshots.restore.outcome import RestoreOutcome
from aqueduct.store.snapshots import Snapshot

RECOVERY = "start", "verify", "restore", "reconcile", "consume"  # phases, in their order: the RTO
LIVE = "live"  # a phase that a recovery would not have


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The first record that a consumer of a group was given, and whether it is the one to expect."""

    group: str
    of_snapshot: bool  # else a new one, which began at the beginning
    topic: str
    partition: int
    stored_offset: int  # of the record that it should be given
    offset: int | None  # of the one that it was given, in the scratch cluster; None: none came
    right: bool


@dataclass(frozen=True)
class Compared:
    """Two ends that should have the same records, and the verdict on each partition."""

    flow: ComparedFlow
    verdicts: tuple[Verdict, ...] = ()

    @property
    def unequal(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.equal)


@dataclass(frozen=True, kw_only=True)
class ComparedLive:
    """What the live cluster has at the offsets of the snapshot, against what the snapshot has there.

    Of a compacted topic the live cluster may lack records by now, but must have no others.
    """

    compared: Compared
    thinned: int = 0  # partitions of compacted topics of which that is so
    cut: tuple[str, ...] = ()  # partitions that end before the snapshot does
    behind: Mapping[str, int] = field(default_factory=dict)  # offsets after the snapshot, by topic
    left_out: LeftOut = ()
    gone: tuple[str, ...] = ()  # topics that the live cluster does not have any more


@dataclass(frozen=True, kw_only=True)
class DrillOutcome:
    snapshot: Snapshot
    store: str
    began: int  # milliseconds since 1970
    newest: Mapping[str, int | None]  # time of the newest record that is restored, by topic
    restored: RestoreOutcome
    compared: Compared  # the scratch cluster with the store
    consumed: Consumed | None  # None: no topic has a record
    live: ComparedLive | None  # None: not asked for
    left_out: LeftOut
    seconds: Mapping[str, float]  # by phase

    @property
    def records(self) -> int:
        return sum(written.progress.records for written in self.restored.written.values())

    @property
    def bytes(self) -> int:
        return sum(written.progress.bytes for written in self.restored.written.values())

    @property
    def newest_time(self) -> int | None:
        """Return the time of the newest record of all; None where there is no record."""
        return max((time for time in self.newest.values() if time is not None), default=None)

    @property
    def newest_age(self) -> float | None:
        """Return how old that was when the drill began, in seconds: the recovery point."""
        return None if self.newest_time is None else (self.began - self.newest_time) / 1000

    @property
    def snapshot_age(self) -> float:
        """Return how long before the drill the snapshot's reading began, in seconds."""
        return (self.began - self.snapshot.manifest.started) / 1000

    @property
    def recovery_seconds(self) -> float:
        """Return how long the recovery took, from the scratch cluster's start until a user had a record."""
        return sum(self.seconds.get(phase, 0.0) for phase in RECOVERY)

    @property
    def wrong(self) -> bool:
        """Tell whether what came back is not what the store has, or a user is given something else."""
        return bool(self.compared.unequal) or (self.consumed is not None and not self.consumed.right)

    @property
    def exit_code(self) -> ExitCode:
        if self.wrong:
            return ExitCode.FAILED
        differs = self.live is not None and (self.live.compared.unequal or self.live.cut)
        return ExitCode.INCOMPLETE if self.left_out or differs else ExitCode.DONE
