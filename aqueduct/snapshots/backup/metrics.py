"""A backup service's metrics for Prometheus, updated after each of its rounds."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.snapshots.backup.run import BackupOutcome

OWN = prometheus.Named("aqueduct_backup")


@dataclass(kw_only=True)
class BackupFigures:
    """The figures of one process."""

    rounds: int = 0
    failed: int = 0
    records: int = 0
    stored_bytes: int = 0
    last: BackupOutcome | None = None

    def add(self, outcome: BackupOutcome | None) -> None:
        """Count a round; None: it failed."""
        self.rounds += 1
        if outcome is None:
            self.failed += 1
            return
        self.records += sum(segment.records for segment in outcome.manifest.segments)
        self.stored_bytes += outcome.stored_bytes
        self.last = outcome

    def all(self) -> Iterator[Metric]:
        """Yield every metric; those of a snapshot are unknown before the first one."""
        yield OWN.counter("rounds", "rounds that ended", self.rounds)
        yield OWN.counter("failed_rounds", "rounds that committed nothing", self.failed)
        yield OWN.counter("records", "records that were backed up", self.records)
        yield OWN.counter("stored_bytes", "bytes that were written to the store", self.stored_bytes)
        if self.last:
            manifest = self.last.manifest
            yield OWN.gauge("snapshot", "number of the newest snapshot", manifest.number)
            yield OWN.gauge("snapshot_time", "when its run began, Unix time", manifest.started / 1000)
            yield OWN.gauge("seconds", "duration of its round, in seconds", self.last.seconds)
            yield OWN.gauge("gaps", "ranges that were deleted before they were read", len(manifest.gaps))
            yield OWN.gauge("left_out", "topics and partitions that it skipped", len(self.last.left_out))
