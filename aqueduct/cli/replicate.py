"""Mirror topics to another cluster with the engine `batches`: whole record batches, each record once.

Records and positions are committed in the same transactions at the target, so the command can be killed at
any time and started again. Keys, values, headers, times and order are kept; offsets are not. Only committed
records are mirrored. A second process of the same flow takes over, and the first one ends with 1.

With --shared, processes on several hosts share the tasks of a flow. If one ends, is killed or does not
respond for ten seconds, the others take over its tasks. A process without tasks is a standby. A process
without --shared takes over all tasks, and processes with --shared wait until it has ended.

A topic that the target refuses is skipped and listed, and the others continue. With --shared, a task that
fails is listed and starts again after a pause.

Positions are in the topic aqueduct-mirror-positions.FLOW.internal at the target, checkpoints for the
translation of offsets in aqueduct-mirror-checkpoints.FLOW.internal. Both are compacted, and have a partition
for each task. If a position is missing or does not match the target, the partition is not mirrored and is
listed; the others continue.

With --groups-pattern, a group continues at the target with exactly its next record. A group that has members
at the target is skipped and listed. No group is moved back, or beyond what has arrived.

A range of source offsets that were lost, or that only the target has, is listed until --accept-ranges. If a
source topic is re-created, the range begins at the position in the deleted topic. Its end is unknown.

Exit code: 0 done, or ended by SIGTERM or SIGINT; 3 partitions, topics or groups are skipped, records are
lost, or a run with --until-caught-up was ended before it had caught up; 1 failed; 2 refused, nothing was
written.
"""

import argparse
import logging
import re
import sys
from datetime import UTC, datetime

from aqueduct.cli import duration, report_file, selection
from aqueduct.cli.optional_packages import mirror_packages
from aqueduct.cli.termination import until_signal
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, Refused, left_out_entries
from aqueduct.kafka import client_config
from aqueduct.kafka.line import MBIT, fetch_settings
from aqueduct.mirror import status
from aqueduct.mirror.status import AffectedRange

# A name of a flow is part of the names of topics and of transactional ids.
_FLOW = re.compile(r"[a-zA-Z0-9._-]{1,100}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--flow",
        metavar="NAME",
        type=_flow,
        required=True,
        help="name of the flow; default: that of its source",
    )
    _add_ends(parser)
    add(
        "--tasks",
        metavar="N",
        type=selection.whole(1, 1000),
        default=2,
        help="tasks that share the partitions of a new flow; an existing flow keeps its own; default 2",
    )
    add(
        "--replication-factor",
        metavar="N",
        type=selection.whole(1, 1000),
        help="replication factor of topics that are created at the target; default: that of the target",
    )
    add(
        "--refresh",
        metavar="DURATION",
        type=duration.period,
        default=30,
        help="interval at which topics, partitions and settings are compared; default 30s",
    )
    add(
        "--first-start",
        action="store_true",
        help="mirror to target topics that have records but no position of the flow; use it only if no "
        "engine has mirrored this source to these topics, because records would arrive twice",
    )
    add(
        "--again",
        metavar="A,B",
        type=selection.names,
        default=(),
        help="mirror these source topics from their beginning; their topics at the target must be empty",
    )
    add(
        "--accept-ranges",
        action="store_true",
        help="forget the ranges that are listed: lost records, and records that only the target has",
    )
    add(
        "--shared",
        action="store_true",
        help="share the flow's tasks with other processes that have this option, by the group "
        "aqueduct-mirror-FLOW at the target; with --again, --accept-ranges or --until-caught-up, the process "
        "takes over all tasks instead",
    )
    add(
        "--until-caught-up", action="store_true", help="mirror the records that exist at the start, then exit"
    )
    add(
        "--metrics-port",
        metavar="PORT",
        type=selection.whole(1, selection.PORTS[-1]),
        help="serve Prometheus metrics on this port of localhost; default: no metrics",
    )
    report_file.add_arguments(parser)


def _add_ends(parser: argparse.ArgumentParser) -> None:
    """Add the options of both clusters and of the topics and groups that are mirrored."""
    add = parser.add_argument
    for end in ("source", "target"):
        servers = f"--{end}-bootstrap-server"
        add(servers, metavar="HOST:PORT,...", type=selection.servers, required=True)
        add(f"--{end}-command-config", metavar="FILE", help="Kafka client properties")
    add(
        "--source-rack",
        metavar="RACK",
        default="",
        help="rack of this host, as `broker.rack` at the source: read from the replica that the source's "
        "`replica.selector.class` chooses for it; default: read from leaders",
    )
    add(
        "--line-ms",
        metavar="N",
        type=selection.whole(0, 10_000),
        default=0,
        help="round-trip time of the line to the source, in milliseconds, for fetches that fill it",
    )
    add(
        "--line-mbit",
        metavar="N",
        type=selection.whole(1, 1_000_000),
        default=MBIT,
        help=f"bandwidth of the line, in megabits per second; default {MBIT}",
    )
    add(
        "--topics-pattern",
        metavar="REGEX",
        type=_pattern,
        required=True,
        help="topics to mirror, by whole name at the source, without internal ones",
    )
    add(
        "--groups-pattern",
        metavar="REGEX",
        type=_pattern,
        help="consumer groups whose offsets are translated and set at the target; default: none",
    )
    add("--target-prefix", metavar="PREFIX", default="", help="prefix of the topics' names at the target")


def run(args: argparse.Namespace) -> ExitCode:
    with mirror_packages():
        from aqueduct.common import prometheus
        from aqueduct.mirror.engine import metrics
        from aqueduct.mirror.engine import run as engine
        from aqueduct.mirror.engine.figures import MirrorFigures
        from aqueduct.mirror.engine.flow import MirrorOrder
        from aqueduct.mirror.engine.groups import MirroredGroups
        from aqueduct.mirror.engine.topics import MirroredTopics
    started = datetime.now(UTC)
    order = MirrorOrder(
        flow=args.flow,
        source=client_config.end("source", args.source_bootstrap_server, args.source_command_config),
        target=client_config.end("target", args.target_bootstrap_server, args.target_command_config),
        topics=MirroredTopics(args.topics_pattern, args.target_prefix),
        fetches=fetch_settings(args.line_ms, args.line_mbit, args.source_rack),
        tasks=args.tasks,
        refresh_seconds=args.refresh,
        replication_factor=args.replication_factor,
        first_start=args.first_start,
        again=frozenset(args.again),
        accept_ranges=args.accept_ranges,
        until_caught_up=args.until_caught_up,
        groups=MirroredGroups(args.groups_pattern) if args.groups_pattern else None,
        shared=args.shared and not (args.again or args.accept_ranges or args.until_caught_up),
    )
    logging.basicConfig(format="aqueduct: %(message)s", level=logging.WARNING)
    logging.getLogger(engine.__name__).setLevel(logging.INFO)  # which tasks this process has
    figures = MirrorFigures()
    if args.metrics_port:
        prometheus.serve(args.metrics_port, lambda: metrics.metrics(figures))
    progress = engine.run(order, until_signal(), figures)
    ranges = [
        AffectedRange(partition=partition, kind=of.kind, start=of.start, stop=of.stop, at_most=of.at_most)
        for partition, position in sorted(figures.positions.items())
        for of in position.ranges
    ]
    hidden = status.hidden_partitions(figures.positions, progress)
    behind = sum(of.behind for of in progress)
    unknown = f"; the lag of {len(hidden)} of them is unknown" if hidden else ""
    print(
        f"{count(figures.records, 'record')} mirrored; {count(len(progress) + len(hidden), 'partition')}, "
        f"behind by {count(behind, 'offset')}{unknown}."
    )
    findings = []
    if args.until_caught_up and not figures.is_caught_up:
        findings = [status.unfinished_finding(behind)]
    for affected in ranges:
        print(f"{affected.kind}: {affected}")
    for skipped in figures.skipped:
        print(f"Not mirrored: {skipped}")
    for finding in findings:
        print(finding)
    code = ExitCode.INCOMPLETE if figures.skipped or ranges or findings else ExitCode.DONE
    if report_file.is_requested(args):
        content = status.report(findings, progress, [], ranges, hidden=hidden) | {
            "records": figures.records,
            "groups": {"groups": figures.groups.groups, "offsets": figures.groups.offsets},
            "left_out": left_out_entries(figures.skipped),
        }
        report_file.deliver(args, "replicate", code, started, content)
    sys.stdout.flush()
    return code


def _flow(text: str) -> str:
    if not _FLOW.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name; write up to 100 of a-z, A-Z, 0-9, . _ -")
    return text


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise Refused("pattern-invalid", f"The pattern {text} does not compile: {error}.") from None
