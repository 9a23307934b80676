"""Remove snapshots from a store, and the objects that they alone name.

What is kept: --keep-last the newest N; --keep-daily, --keep-weekly and --keep-monthly the newest of each of
so many days (of UTC), weeks (of ISO 8601) and months that have one; --keep-days all that are at most N days
older than the newest. Of several each keeps its own. The newest snapshot always stays, and so does what
another one builds on, or a restore uses. A segment stays as long as one snapshot that stays names it.

Without --execute nothing is removed: it is told what would go. Objects that no snapshot names, as of runs
that were killed, go when they are --orphan-hours older than the newest snapshot. Killed at any moment, the
same command resumes. Where any manifest can't be read, nothing is removed.

A snapshot is as old as the store says. One whose manifest says that it is over a day older stays, takes no
place that a policy gives, and is reported; in a copied store that is each one (--copied-through). Nothing is
removed if a manifest's time runs backwards, or if the newest snapshot has less than half of the data of a
topic that would go (--allow-less).

Exit code: 0 done, 3 done but for what it lists (what restores use, what has doubtful times), 1 the store
can't be read or changed, or a snapshot of it can't be used, 2 nothing was removed: the arguments can't be
right, a time runs backwards, or far more would go than the newest snapshot has.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, duration, report_file, selection
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
    parser.add_argument(
        "--copied-through",
        metavar="ID",
        type=selection.positive,
        default=0,
        help="the last snapshot of a store that was copied: up to it, snapshots are as old as they say",
    )
    parser.add_argument(
        "--wrong-clock",
        metavar="ID",
        type=selection.positive,
        action="append",
        default=[],
        help="a snapshot of a host whose clock was wrong: it stays; may be repeated",
    )
    parser.add_argument(
        "--allow-less",
        action="store_true",
        help="remove data although the newest snapshot has less than half of it: the topic was deleted",
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
            copied_through=args.copied_through,
            wrong_clock=frozenset(args.wrong_clock),
            allow_less=args.allow_less,
        )
    )
    code = report.exit_code(outcome)
    print(report.text(outcome))
    if args.report:
        report_file.write(args.report, "prune", code, started, report.report(outcome))
    return code
