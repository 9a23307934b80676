"""The last verify of a store as metrics, in a file that Prometheus's node exporter collects."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import Metric

from aqueduct.common import prometheus
from aqueduct.errors import ExitCode

OWN = prometheus.Named("aqueduct_backup_verify")
SUCCEEDED = f"{OWN.prefix}_succeeded_time"
UNDAMAGED = (ExitCode.DONE, ExitCode.INCOMPLETE)


@dataclass(frozen=True, kw_only=True)
class VerifiedSnapshot:
    """What was found in a snapshot."""

    number: int
    damaged: int  # objects
    seconds: float


def write(path: Path, code: int, snapshot: VerifiedSnapshot | None) -> None:
    """Replace the file. The time of the last verify without damage stays while others fail.

    `snapshot`: None if the verify ended before its end. Failed if the file cannot be written.
    """
    prometheus.write(path, list(_all(code, snapshot, prometheus.kept(path, SUCCEEDED))))


def _all(code: int, snapshot: VerifiedSnapshot | None, before: float | None) -> Iterator[Metric]:
    now = time.time()
    yield OWN.gauge("time", "when the last verify ended, Unix time", now)
    yield OWN.gauge("exit_code", "0 or 3 nothing is damaged, 1 damaged or failed, 2 refused", code)
    last = now if code in UNDAMAGED else before
    if last is not None:
        yield OWN.gauge("succeeded_time", "when a verify last found no damage, Unix time", last)
    if snapshot:
        yield OWN.gauge("snapshot", "number of the snapshot that was read", snapshot.number)
        yield OWN.gauge("damaged", "objects that are damaged or missing", snapshot.damaged)
        yield OWN.gauge("seconds", "seconds that the verify took", snapshot.seconds)
