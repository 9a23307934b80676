"""Remove snapshots from a store, and the objects that they alone name.

What is kept: --keep-last the newest N; --keep-daily, --keep-weekly and --keep-monthly the newest of each of
so many days (of UTC), weeks (of ISO 8601) and months that have one; --keep-days all that are at most N days
older than the newest. Of several each keeps its own. The newest snapshot always stays, and so does what
another one builds on, or a restore uses. A segment stays as long as one snapshot that stays names it.

Without --execute nothing is removed: it is told what would go. Objects that no snapshot names, as of runs
that were killed, go when they are --orphan-hours older than the newest snapshot. Killed at any moment, the
same command resumes. Where any manifest can't be read, nothing is removed.

Exit code: 0 done, 3 done but for what it names (what restores use), 1 the store can't be read or changed, or
a snapshot of it can't be used, 2 the arguments can't be right.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, duration, report_file
from aqueduct.cli.extra import spark_packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_keep(parser, "snapshot")
    parser.add_argument("--execute", action="store_true", help="remove it; default: tell what would go")
    parser.add_argument(
        "--orphan-hours",
        metavar="H",
        type=duration.hours,
        default=48,
        help="how much older than the newest snapshot an object is that no snapshot names; default 48",
    )
    common.add_trust(parser)
    common.add_private_key(parser)
    report_file.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.prune import report
        from aqueduct.prune.run import PruneOrder, prune

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    keep = common.keep(args, "prune")
    outcome = prune(
        PruneOrder(
            store=args.store,
            keep=keep,
            execute=args.execute,
            orphan_hours=args.orphan_hours,
            trust=common.trust(args),
            private_keys=common.private_keys(args),
        )
    )
    code = report.exit_code(outcome)
    print(report.text(outcome))
    if args.report:
        report_file.write(args.report, "prune", code, started, report.report(outcome))
    return code
