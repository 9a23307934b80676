"""The metrics of the last drill, in a file for the textfile collector of Prometheus's node exporter."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.errors import ExitCode
from aqueduct.snapshots.drill.outcome import DrillOutcome

OWN = prometheus.Named("aqueduct_drill")
SUCCEEDED = f"{OWN.prefix}_succeeded_time"


def write(path: Path, code: int, seconds: Mapping[str, float], outcome: DrillOutcome | None) -> None:
    """Replace the file. Failed drills keep the time of the last success. Failed if it cannot be written."""
    prometheus.write(path, list(_all(code, seconds, outcome, succeeded(path))))


def succeeded(path: Path) -> float | None:
    """Return from the file when a drill last succeeded, Unix time. None: never, or the file is unreadable."""
    return prometheus.kept(path, SUCCEEDED)


def _all(
    code: int, seconds: Mapping[str, float], outcome: DrillOutcome | None, before: float | None
) -> Iterator[Metric]:
    now = time.time()
    yield OWN.gauge("time", "when the last drill ended, Unix time", now)
    yield OWN.gauge("exit_code", "0 succeeded, 1 failed, 2 refused, 3 items skipped or unequal", code)
    last = now if code == ExitCode.DONE else before
    if last is not None:
        yield OWN.gauge("succeeded_time", "when a drill last succeeded, Unix time", last)
    rows = [(float(spent), {"phase": phase}) for phase, spent in seconds.items()]
    if rows:
        yield OWN.gauge("seconds", "seconds that each phase took", *rows)
    if outcome is None:
        return
    yield OWN.gauge("snapshot", "number of the snapshot that was restored", outcome.snapshot.manifest.number)
    yield OWN.gauge("snapshot_age", "seconds from the snapshot's start to the drill", outcome.snapshot_age)
    if outcome.newest_age is not None:
        yield OWN.gauge("newest_record_age", "seconds since the newest restored record", outcome.newest_age)
    yield OWN.gauge("recovery_seconds", "seconds until a consumer had a record", outcome.recovery_seconds)
    yield OWN.gauge("records", "records that were restored", outcome.records)
    yield OWN.gauge("bytes", "bytes that were restored", outcome.bytes)
    yield OWN.gauge("left_out", "skipped items", len(outcome.left_out))
    yield OWN.gauge("unequal", "partitions that differ from the store", len(outcome.compared.unequal))
    if outcome.live:
        differs = len(outcome.live.compared.unequal) + len(outcome.live.cut)
        yield OWN.gauge("live_unequal", "partitions that differ from the live cluster", differs)
        behind = sum(outcome.live.behind.values())
        yield OWN.gauge("live_behind", "offsets of the live cluster after the snapshot", behind)
