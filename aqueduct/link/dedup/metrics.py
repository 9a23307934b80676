"""Dedup's metrics for Prometheus, updated after each of its rounds."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric

from aqueduct import figures
from aqueduct.link.dedup.task import DedupCounts

PREFIX = "aqueduct_dedup"


@dataclass
class DedupFigures:
    """The figures of one process."""

    total: DedupCounts = field(default_factory=DedupCounts)
    last: DedupCounts | None = None
    round_time: float = 0.0  # when the last one ended, seconds since 1970

    def add(self, done: DedupCounts, now: float) -> None:
        self.total.add(done)
        self.last, self.round_time = done, now

    def all(self) -> Iterator[Metric]:
        """Yield every metric; those of the ledger are unknown before the first round."""
        total, last = self.total, self.last
        yield _counter("records", "records that were written", total.records)
        yield _counter("batch_bytes", "bytes of their batches", total.bytes)
        yield _counter("frames", "frames that were read", total.frames)
        yield _counter("repeated", "offsets that had arrived before", total.repeated)
        yield _counter("malformed", "raw records that aren't frames", total.malformed)
        if last:
            yield _gauge("missing", "offsets that may yet be sent again", last.missing)
            yield _gauge("lost", "offsets that can't be sent again", last.lost)
            yield _gauge("lag", "raw records that were not read when the last round ended", last.lag)
            yield _gauge("round_time", "when the last round ended, Unix time", self.round_time)
            yield _gauge("committed_time", "when something was committed, Unix time", total.committed_time)


def _counter(name: str, help_: str, value: float) -> Metric:
    return figures.counter(f"{PREFIX}_{name}", help_, value)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return figures.gauge(f"{PREFIX}_{name}", help_, value)
