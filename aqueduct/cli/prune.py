"""Delete old snapshots from a store, and the objects that no remaining snapshot uses.

A snapshot stays if one of the --keep options keeps it. Days are in UTC, weeks begin on Monday (ISO 8601). The
newest snapshot always stays, and so do snapshots that a remaining one builds on, or that a running restore or
export reads. Segments stay as long as a remaining snapshot uses them. Objects that interrupted runs left are
deleted, too (--orphan-hours).

Without --execute, the command only shows what it would delete. If a run is interrupted, run the same command
again. If a manifest cannot be read, nothing is deleted.

The age of a snapshot is the age of its manifest object, by the clock of the store. If the time inside the
manifest is more than a day older than that, the snapshot stays, does not count for the --keep options, and is
reported. In a store that was copied, this applies to all copied snapshots: pass --copied-through.
Nothing is deleted if the time inside a manifest is earlier than that of the manifest before it
(--wrong-clock), or if the newest snapshot has less than half of the data of a topic that would be deleted
(--allow-less).

If snapshots would be deleted, the command first opens a random sample of the segments that remaining
snapshots use: up to 10 of each topic in the newest snapshot and 10 in the others, at most 1,000 segments and
2 GiB, first of topics that lose data. It compares each with its manifest, its index and its checksums.
Nothing is deleted if one of them differs (--past-damage). Of encrypted segments that no --private-key opens,
the command compares digests only.

Exit code: 0 done; 3 done, but the output lists snapshots that stay because a restore uses them, or because
their age is doubtful, or damaged segments (--past-damage); 1 the store cannot be read or changed, or a
snapshot is unusable; 2 refused, nothing was deleted.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, duration, report_file, selection
from aqueduct.cli.optional_packages import spark_packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_keep(parser, "snapshot")
    parser.add_argument("--execute", action="store_true", help="delete; default: show what would be deleted")
    parser.add_argument(
        "--orphan-hours",
        metavar="H",
        type=duration.hours,
        default=48,
        help="delete unused objects that are H hours older than the newest snapshot; default 48",
    )
    parser.add_argument(
        "--copied-through",
        metavar="ID",
        type=selection.positive,
        default=0,
        help="last snapshot that was copied into this store: up to it, the times inside manifests are used",
    )
    parser.add_argument(
        "--wrong-clock",
        metavar="ID",
        type=selection.positive,
        action="append",
        default=[],
        help="snapshot that a host with a wrong clock made: keep it; may be repeated",
    )
    parser.add_argument(
        "--allow-less",
        action="store_true",
        help="delete data of a topic even if the newest snapshot has less than half of it; see above",
    )
    parser.add_argument(
        "--past-damage",
        action="store_true",
        help="delete even if segments of remaining snapshots are damaged; the report lists them",
    )
    common.add_trust(parser)
    common.add_private_key(parser)
    report_file.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.prune import report
        from aqueduct.snapshots.prune.run import PruneOrder, prune

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
            past_damage=args.past_damage,
        )
    )
    code = report.exit_code(outcome)
    print(report.text(outcome))
    if report_file.is_requested(args):
        report_file.deliver(args, "prune", code, started, report.report(outcome))
    return code
