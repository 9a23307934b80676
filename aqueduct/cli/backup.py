"""Back up topics, their settings, ACLs, quotas and consumer groups to an object store.

A run reads the records since the last snapshot in the store, up to the last stable offset. At its end, it
commits them as the next snapshot. If a run is interrupted, it leaves unused objects that do no harm. The next
run continues after the last snapshot.
After each run, the group aqueduct-backup-<store id> has the offsets that are backed up, so that Kafka's tools
show the lag.

Exit code: 0 done; 3 done, but some items were skipped, which the output lists (records that were deleted
before they were read, partitions that could not be read to their end); 1 nothing was committed; 2 refused,
for example because of an invalid option or a topic that does not exist.
"""

import argparse
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.cli import common, duration, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import ExitCode, Failed, NoMatch, Refused
from aqueduct.kafka import client_config

if TYPE_CHECKING:
    from aqueduct.snapshots.backup.order import BackupOrder, LifecycleWish
    from aqueduct.snapshots.backup.run import BackupOutcome
    from aqueduct.work.workers import Workers

MOST_DAYS = 36_500
MOST_GENERATIONS = 100
SEGMENT_BYTES = selection.whole(most=(1 << 31) - 1)  # as of segment.bytes, because it is one of Kafka's own


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_cluster(parser)
    common.add_store(parser)
    _add_selection(parser)
    _add_generations(parser)
    add(
        "--every",
        metavar="DURATION",
        type=duration.period,
        help="keep running, and back up once per interval, such as 5m; default: one backup",
    )
    _add_segments(parser)
    common.add_rate_limit(parser)
    add(
        "--other-cluster",
        action="store_true",
        help="accept a store with backups of another cluster, for example after a restore into a new one",
    )
    add(
        "--past-damage",
        action="store_true",
        help="if the newest snapshot is damaged, continue after the newest undamaged one; if none is, read "
        "everything again",
    )
    common.add_trust(parser)
    common.add_signing_key(parser, "; earlier ones must be signed, too (or see --unsigned-before)")
    _add_encryption(parser)
    common.add_metrics(parser)
    common.add_run(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose topics and groups."""
    add = parser.add_argument
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topics", metavar="A,B", type=selection.names, help="exact names of topics")
    topics.add_argument(
        "--topics-pattern",
        metavar="REGEX",
        help="topics whose whole names match; names with a leading __ match only if REGEX contains __",
    )
    add("--exclude-topics-pattern", metavar="REGEX", help="topics to exclude: those whose whole names match")
    add("--groups-pattern", metavar="REGEX", help="consumer groups whose whole names match; default: all")
    add(
        "--exclude-groups",
        metavar="G1,G2",
        type=selection.names,
        default=(),
        help="exact names of groups to exclude",
    )


def _add_generations(parser: argparse.ArgumentParser) -> None:
    """Add the options of compacted topics."""
    add = parser.add_argument
    add(
        "--compacted-generation-hours",
        metavar="H",
        type=duration.hours,
        default=24,
        help="hours after which a compacted topic that has changed is copied in full again; default 24",
    )
    add(
        "--compacted-generations",
        metavar="N",
        type=selection.whole(most=MOST_GENERATIONS),
        default=2,
        help="maximum number of full copies (generations) of a compacted topic in a snapshot; default 2",
    )


def _add_segments(parser: argparse.ArgumentParser) -> None:
    """Add the options of segments and of their lifecycle."""
    add = parser.add_argument
    add(
        "--segment-bytes",
        metavar="N",
        type=SEGMENT_BYTES,
        default=64 << 20,
        help="bytes of record batches after which a segment ends; default 67108864 (64 MiB)",
    )
    add(
        "--segment-records",
        metavar="N",
        type=selection.positive,
        default=10_000_000,
        help="records after which a segment ends; default 10000000",
    )
    add(
        "--lifecycle-days",
        metavar="D",
        type=selection.whole(least=0, most=MOST_DAYS),
        help="S3 only: days after which lifecycle rules of the bucket delete segments; 0 removes the rules",
    )
    add(
        "--lifecycle-topics-pattern",
        metavar="REGEX",
        help="topics to which --lifecycle-days applies: those whose whole names match; default: all",
    )


def _add_encryption(parser: argparse.ArgumentParser) -> None:
    """Add the options of encrypted backups."""
    add = parser.add_argument
    add(
        "--recipient",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="encrypt the backup for the public keys in FILE (see `aqueduct diode keygen`); may be repeated",
    )
    add(
        "--private-key",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="private key of this host, required by --recipient: decrypts manifests, not records; may be "
        "repeated (the first one is for new manifests)",
    )


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.backup.metrics import BackupFigures
        from aqueduct.snapshots.backup.run import back_up
        from aqueduct.work.workers import Workers

    report_file.outside(args.report, args.store)
    order = _order(args)
    done_so_far = BackupFigures()
    noted: tuple[str, ...] = ()  # in the last round
    with Workers("aqueduct backup", common.spark(args)) as workers:
        common.serve_metrics(args, done_so_far.all, workers)
        while True:
            started = datetime.now(UTC)
            began = time.monotonic()
            try:
                outcome = back_up(order, workers)
            except (Failed, NoMatch) as error:
                if args.every is None or (isinstance(error, NoMatch) and not order.again):
                    raise
                done_so_far.add(None)
                report_file.write_error(args, "backup", started, error)
                args.output.end(error.exit_code)
                workers.ran()  # so that the report of the next round begins anew
                # The next round continues after the last snapshot.
                print(f"aqueduct: {error.labelled}", file=sys.stderr, flush=True)
            else:
                done_so_far.add(outcome)
                order = replace(order, again=True)
                for note in outcome.notes if outcome.notes != noted else ():
                    print(f"aqueduct: {note}", file=sys.stderr, flush=True)
                noted = outcome.notes
                code = _report(args, outcome, started, workers)
                if args.every is None:
                    return code
            time.sleep(max(0.0, began + args.every - time.monotonic()))


def _order(args: argparse.Namespace) -> "BackupOrder":
    """Return the order for these options; Refused if they contradict each other."""
    from aqueduct.snapshots.backup.order import BackupOrder
    from aqueduct.snapshots.backup.selection import GroupSelection, TopicSelection, compiled
    from aqueduct.store.segments import SegmentLimits

    options = {
        name: getattr(args, name)
        for name in (
            *("topics", "topics_pattern", "exclude_topics_pattern", "groups_pattern", "exclude_groups"),
            *("lifecycle_days", "lifecycle_topics_pattern"),
        )
        if getattr(args, name)
    }
    lifecycle = _lifecycle(args)
    if args.recipient and not args.private_key:
        raise Refused(
            "option-required",
            "--recipient requires --private-key, because the next run must decrypt the manifest. Add "
            "--private-key.",
        )
    return BackupOrder(
        end=client_config.end("cluster", args.bootstrap_server, args.command_config, for_tasks=True),
        store=args.store,
        topics=TopicSelection(
            args.topics or (),
            compiled(args.topics_pattern, "--topics-pattern"),
            compiled(args.exclude_topics_pattern, "--exclude-topics-pattern"),
        ),
        groups=GroupSelection(compiled(args.groups_pattern, "--groups-pattern"), args.exclude_groups),
        generation_hours=args.compacted_generation_hours,
        generations=args.compacted_generations,
        limits=SegmentLimits(args.segment_bytes, args.segment_records),
        bytes_per_second=args.rate_limit_bytes,
        options=options,
        lifecycle=lifecycle,
        other_cluster=args.other_cluster,
        past_damage=args.past_damage,
        trust=common.trust(args),
        recipients=common.public_keys(args.recipient),
        private_keys=common.private_keys(args),
        signing_key=common.signing_key(args),
    )


def _lifecycle(args: argparse.Namespace) -> "LifecycleWish | None":
    from aqueduct.snapshots.backup.order import LifecycleWish
    from aqueduct.snapshots.backup.selection import compiled

    if args.lifecycle_topics_pattern and not args.lifecycle_days:
        raise Refused("option-required", "--lifecycle-topics-pattern requires --lifecycle-days.")
    if args.lifecycle_days is None:
        return None
    chosen = compiled(args.lifecycle_topics_pattern, "--lifecycle-topics-pattern")
    return LifecycleWish(args.lifecycle_days, chosen)


def _report(
    args: argparse.Namespace, outcome: "BackupOutcome", started: datetime, workers: "Workers"
) -> ExitCode:
    """Print the report of a run, write it to the report file, and return the exit code."""
    from aqueduct.snapshots.backup import report

    code = workers.exit_code(report.exit_code(outcome.manifest, outcome.left_out))
    page = report.text(outcome.manifest, outcome.stored_bytes, outcome.left_out, outcome.seconds)
    for line in report.lifecycle(outcome.rules, outcome.put):
        print(line)
    for line in report.unchanged(outcome.unchanged):
        print(line)
    print(page, flush=True)
    if report_file.is_requested(args):
        content = workers.reported(report.report(outcome.manifest, outcome.left_out, outcome.unchanged))
        report_file.deliver(args, "backup", code, started, content)
    args.output.end(code)
    return code
