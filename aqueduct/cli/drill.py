"""Restore a snapshot into a scratch cluster, and check that the result is equal to the store.

The scratch cluster must have no topics, and each of its brokers must have broker.rack=aqueduct-drill.
Otherwise the drill is refused. It restores topics, records, settings, groups, ACLs and quotas, and compares
all records with the store. Then a consumer in a restored group reads one record, which must be the next one
of that group. With --live-bootstrap-server, the snapshot is also compared with the live cluster, at the
offsets that both have.

The output shows the age of the newest record that can be restored (RPO), the time of each phase (RTO), and
skipped items. The drill does not stop or wipe the scratch cluster.

Exit code: 0 the snapshot was restored, and is equal to the store; 3 the same, but items were skipped or
differ from the live cluster; 1 the snapshot cannot be restored, or the result differs from the store; 2
refused, nothing was written.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aqueduct.cli import common, duration, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import AqueductError, ExitCode, Refused
from aqueduct.kafka import client_config

ANSWER_SECONDS = 300  # maximum wait for a scratch cluster that is starting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_cluster(parser, "Kafka brokers of the scratch cluster")
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add(
        "--live-bootstrap-server",
        metavar="HOST:PORT,...",
        type=selection.servers,
        help="brokers of the live cluster, which is backed up; default: do not compare",
    )
    add(
        "--live-command-config",
        metavar="FILE",
        help="client properties for --live-bootstrap-server; default: --command-config",
    )
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument(
        "--topics", metavar="A,B", type=selection.names, help="exact names of topics; default: all"
    )
    topics.add_argument(
        "--topics-pattern",
        metavar="REGEX",
        help="topics whose whole names match; names with a leading __ match only if REGEX contains __",
    )
    add(
        "--answers-within",
        metavar="DURATION",
        type=duration.period,
        default=ANSWER_SECONDS,
        help=f"maximum wait until the scratch cluster answers; default {ANSWER_SECONDS}s",
    )
    add(
        "--started",
        metavar="PATH",
        type=Path,
        help="file whose modification time is the start of the scratch cluster: adds this start to the RTO",
    )
    add(
        "--metrics-file",
        metavar="FILE",
        type=report_file.file,
        help="write metrics for the textfile collector of node exporter",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.backup.selection import TopicSelection, compiled
        from aqueduct.snapshots.drill import report
        from aqueduct.snapshots.drill.order import DrillOrder
        from aqueduct.snapshots.drill.run import drill
        from aqueduct.work.phases import Phases
        from aqueduct.work.workers import Workers

    for path in (args.report, args.metrics_file):
        report_file.outside(path, args.store)
    if args.live_command_config and not args.live_bootstrap_server:
        raise Refused("option-required", "--live-command-config requires --live-bootstrap-server.")
    started, phases = datetime.now(UTC), Phases()
    with _reported_errors(args, started, phases.seconds):
        topics = None
        if args.topics or args.topics_pattern is not None:
            topics = TopicSelection(args.topics or (), compiled(args.topics_pattern, "--topics-pattern"))
        order = DrillOrder(
            scratch=client_config.end(
                "scratch cluster", args.bootstrap_server, args.command_config, for_tasks=True
            ),
            store=args.store,
            live=client_config.end(
                "live cluster",
                args.live_bootstrap_server,
                args.live_command_config or args.command_config,
                for_tasks=True,
            )
            if args.live_bootstrap_server
            else None,
            topics=topics,
            snapshot=args.snapshot,
            at_least=args.at_least,
            trust=common.trust(args),
            private_keys=common.private_keys(args),
            start_seconds=_since(args.started),
            answer_seconds=args.answers_within,
        )
        with Workers("aqueduct drill", common.spark(args)) as workers:
            outcome = drill(order, workers, phases)
    code = workers.exit_code(outcome.exit_code)
    print(report.text(outcome))
    if report_file.is_requested(args):
        content = workers.reported(report.report(outcome))
        report_file.deliver(args, "drill", code, started, content)
    _measure(args.metrics_file, code, phases.seconds, outcome)
    return code


@contextmanager
def _reported_errors(
    args: argparse.Namespace, started: datetime, seconds: dict[str, float]
) -> Iterator[None]:
    """Write report and metrics if the drill ends with an error. Otherwise an earlier success would remain."""
    try:
        yield
    except AqueductError as error:
        _fail(args, started, seconds, error.exit_code, report_file.error_entry(error))
        raise
    except Exception as error:
        error_entry = {"id": "", "message": f"{type(error).__name__}: {error}"}
        _fail(args, started, seconds, ExitCode.FAILED, error_entry)
        raise


def _fail(
    args: argparse.Namespace, started: datetime, seconds: dict[str, float], code: int, error: dict[str, str]
) -> None:
    if report_file.is_requested(args):
        content = {"store": args.store, "snapshot": args.snapshot, "seconds": seconds, "error": error}
        content |= {"left_out": [{"id": error["id"], "what": "the drill", "why": error["message"]}]}
        report_file.deliver(args, "drill", code, started, content)
        args.report, args.json = None, False  # the report already contains the error
    _measure(args.metrics_file, code, seconds, None)


def _measure(path: Path | None, code: int, seconds: dict[str, float], outcome: Any) -> None:
    if path:
        from aqueduct.snapshots.drill import metrics

        metrics.write(path, code, seconds, outcome)


def _since(path: Path | None) -> float:
    """Return the seconds since a file was modified. Refused if its time cannot be read."""
    if path is None:
        return 0.0
    try:
        return max(time.time() - path.stat().st_mtime, 0.0)
    except OSError as error:
        raise Refused(
            "file-unreadable", f"Cannot read the time of --started {path}: {error.strerror}."
        ) from None
