"""Read every object of a snapshot, and check it against the manifest.

The command checks size and SHA-256 of each segment and index, the CRC of each batch, and the offsets, counts
and timestamps. It also checks that no offsets are missing between the segments of a partition. It reports
everything that is damaged or missing, and changes nothing.

Exit code: 0 nothing is damaged; 3 nothing is damaged, but segments were deleted by a lifecycle rule, or no
private key decrypts the records; 1 the snapshot is damaged, or the store cannot be read; 2 refused, for
example because of an invalid option or a snapshot that does not exist.
Records that Kafka deleted before they were backed up are reported. They are not damage.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.cli import common, report_file
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import AqueductError, ExitCode, Skipped, left_out_entries

if TYPE_CHECKING:
    from aqueduct.snapshots.backup.verify_metrics import VerifiedSnapshot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    parser.add_argument(
        "--digests-only",
        action="store_true",
        help="if no private key decrypts the records, check only digests, and do not exit with 3",
    )
    common.add_rate_limit(parser)
    parser.add_argument(
        "--metrics-file",
        metavar="FILE",
        type=report_file.file,
        help="write metrics for the textfile collector of node exporter",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    for path in (args.report, args.metrics_file):
        report_file.outside(path, args.store)
    with _measured_errors(args.metrics_file):
        return _verify(args)


@contextmanager
def _measured_errors(metrics_file: Path | None) -> Iterator[None]:
    """Write the metrics if the verify ends with an error. Otherwise an earlier success would remain."""
    try:
        yield
    except AqueductError as error:
        _measure(metrics_file, error.exit_code, None)
        raise


def _measure(metrics_file: Path | None, code: int, snapshot: "VerifiedSnapshot | None") -> None:
    if metrics_file:
        from aqueduct.snapshots.backup import verify_metrics

        verify_metrics.write(metrics_file, code, snapshot)


def _verify(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    with spark_packages():
        from aqueduct.snapshots.backup import faults
        from aqueduct.snapshots.backup.verify import verify
        from aqueduct.snapshots.backup.verify_metrics import VerifiedSnapshot
        from aqueduct.work.workers import Workers

    trust, keys = common.trust(args), common.private_keys(args)
    with Workers("aqueduct verify", common.spark(args)) as workers:
        outcome = verify(
            args.store,
            args.snapshot,
            workers,
            trust=trust,
            private_keys=keys,
            at_least=args.at_least,
            bytes_per_second=args.rate_limit_bytes,
        )
    code = faults.exit_code(outcome.snapshot, outcome.faults)
    print(faults.text(outcome.snapshot, outcome.faults, outcome.seconds))
    unknown: list[Skipped] = []
    if outcome.unopened:
        reason = f"only digests were compared: {outcome.unopened.rstrip('.')}"
        unknown.append(Skipped("the records", reason, "records-not-opened"))
        print(f"{unknown[0]}.")
        if not args.digests_only:
            code = code or ExitCode.INCOMPLETE
    code = workers.exit_code(code)
    if report_file.is_requested(args):
        content = faults.report(outcome.snapshot, outcome.faults) | {"left_out": left_out_entries(unknown)}
        content = workers.reported(content)
        report_file.deliver(args, "verify", code, started, content)
    snapshot = VerifiedSnapshot(
        number=outcome.snapshot.manifest.number, damaged=len(outcome.faults), seconds=outcome.seconds
    )
    _measure(args.metrics_file, code, snapshot)
    return code
