"""Read every object of a snapshot and check it against the manifest.

Sizes and SHA-256 of segments and their indexes; the CRC of every batch; offsets, counts and times that
manifest, index and batches tell; and that the segments of each partition follow each other without a hole.
All that is damaged or missing is named. Nothing is written.

Exit code: 0 everything is what was written (records that Kafka had deleted before they were read are named,
but aren't damage), 3 the same, but segments have expired by a lifecycle rule and are gone, or no private key
opens the records, 1 damage was found or the store can't be read, 2 the arguments can't be right.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, report_file
from aqueduct.cli.extra import spark_packages
from aqueduct.errors import ExitCode, Skipped, left_out_entries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    parser.add_argument(
        "--digests-only",
        action="store_true",
        help="encrypted records need not be opened: their objects' digests are enough",
    )
    common.add_rate_limit(parser)
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    with spark_packages():
        from aqueduct.backup import faults
        from aqueduct.backup.verify import verify
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
    if args.report:
        content = faults.report(outcome.snapshot, outcome.faults) | workers.ran()
        content["left_out"] = left_out_entries(unknown)
        report_file.write(args.report, "verify", code, started, content)
    return code
