"""The outcome of a drill: the comparisons, the age of the data (RPO) and the duration (RTO)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.errors import ExitCode, LeftOut
from aqueduct.mirror.reconcile.flow import ComparedFlow
from aqueduct.mirror.reconcile.verdict import Verdict
from aqueduct.snapshots.restore.outcome import RestoreOutcome
from aqueduct.store.snapshots import Snapshot

RECOVERY = "start", "verify", "restore", "reconcile", "consume"  # phases of the RTO, in their order
LIVE = "live"  # a phase that does not count for the RTO


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The first record that a consumer received, and whether it is the expected one."""

    group: str
    of_snapshot: bool  # else a new group, which read from the beginning
    topic: str
    partition: int
    stored_offset: int  # of the expected record, in the store
    offset: int | None  # of the received record, in the scratch cluster; None: no record was received
    right: bool


@dataclass(frozen=True)
class Compared:
    """Two ends that should have the same records, and a verdict for each partition."""

    flow: ComparedFlow
    verdicts: tuple[Verdict, ...] = ()

    @property
    def unequal(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.equal)


@dataclass(frozen=True, kw_only=True)
class ComparedLive:
    """The comparison of the snapshot with the live cluster, at the offsets of the snapshot.

    In a compacted topic, the live cluster may lack records, but must not have other ones.
    """

    compared: Compared
    thinned: int = 0  # partitions of compacted topics that only lack records
    cut: tuple[str, ...] = ()  # partitions that end before the snapshot does
    behind: Mapping[str, int] = field(default_factory=dict)  # offsets after the snapshot, by topic
    left_out: LeftOut = ()
    gone: tuple[str, ...] = ()  # topics that no longer exist in the live cluster


@dataclass(frozen=True, kw_only=True)
class DrillOutcome:
    snapshot: Snapshot
    store: str
    began: int  # milliseconds since 1970
    newest: Mapping[str, int | None]  # timestamp of the newest restored record, by topic
    restored: RestoreOutcome
    compared: Compared  # the scratch cluster with the store
    consumed: Consumed | None  # None: no topic has a record
    live: ComparedLive | None  # None: not requested
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
        """Return the timestamp of the newest record of all topics; None if there are no records."""
        return max((time for time in self.newest.values() if time is not None), default=None)

    @property
    def newest_age(self) -> float | None:
        """Return the age of the newest record when the drill began, in seconds: the RPO."""
        return None if self.newest_time is None else (self.began - self.newest_time) / 1000

    @property
    def snapshot_age(self) -> float:
        """Return the time from the start of the snapshot to the drill, in seconds."""
        return (self.began - self.snapshot.manifest.started) / 1000

    @property
    def recovery_seconds(self) -> float:
        """Return the seconds from the start of the scratch cluster until a consumer received a record."""
        return sum(self.seconds.get(phase, 0.0) for phase in RECOVERY)

    @property
    def wrong(self) -> bool:
        """Return whether the result differs from the store, or a consumer received another record."""
        return bool(self.compared.unequal) or (self.consumed is not None and not self.consumed.right)

    @property
    def exit_code(self) -> ExitCode:
        if self.wrong:
            return ExitCode.FAILED
        differs = self.live is not None and (self.live.compared.unequal or self.live.cut)
        return ExitCode.INCOMPLETE if self.left_out or differs else ExitCode.DONE
