"""Dedup's metrics for Prometheus, updated after each of its rounds."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.link.dedup.share import DedupCounts

OWN = prometheus.Named("aqueduct_dedup")


@dataclass
class DedupFigures:
    """The figures of one process."""

    total: DedupCounts = field(default_factory=DedupCounts)
    last: DedupCounts | None = None
    round_time: float = 0.0  # when the last one ended, seconds since 1970

    def add(self, counts: DedupCounts, now: float) -> None:
        self.total.add(counts)
        self.last, self.round_time = counts, now

    def all(self) -> Iterator[Metric]:
        """Yield every metric; those of the ledger are unknown before the first round."""
        total, last = self.total, self.last
        yield OWN.counter("records", "records that were written", total.records)
        yield OWN.counter("batch_bytes", "bytes of their batches", total.bytes)
        yield OWN.counter("frames", "frames that were read", total.frames)
        yield OWN.counter("repeated", "offsets that had arrived before", total.repeated)
        yield OWN.counter("malformed", "raw records that are not frames", total.malformed)
        yield OWN.counter(
            "quarantined",
            "frames that were not written; the ledger lists their offsets as missing",
            total.quarantined,
        )
        yield OWN.counter(
            "unlisted", "raw records that were neither written nor listed as missing", total.unlisted
        )
        yield OWN.counter(
            "contradicted",
            "announcements of a log that ends before the offsets that have arrived",
            total.contradicted,
        )
        if last:
            yield OWN.gauge("missing", "missing offsets that can still be sent again", last.missing)
            yield OWN.gauge("lost", "missing offsets that cannot be sent again", last.lost)
            yield OWN.gauge("lag", "raw records that were not read at the end of the last round", last.lag)
            yield OWN.gauge("round_time", "time of the end of the last round, Unix time", self.round_time)
            yield OWN.gauge("committed_time", "time of the last commit, Unix time", total.committed_time)
