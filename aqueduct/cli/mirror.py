"""Report the state of one flow: whether its tasks run, and the lag of each partition.

The command reads MirrorMaker's internal topics at the target, and the ends of the logs at the source. It
checks each position against the id and the log of its topic, and stores the topic ID beside the position, in
mm2-offsets.ALIAS.internal. It thus detects re-created topics. The position of a classic mirror is a consumer
group at the source: pass it with --group. Its topic IDs are stored in the group GROUP-bindings at the target.
For a flow with the engine `batches` (--engine), the command reads the topic of positions at the target, in
which each task reports its state every ten seconds. It lists the workers that share the flow, and the tasks
of each worker. A worker without tasks is a standby.

Records that the source deleted before they were mirrored are reported until the mirror has passed them. Run
the command regularly, or compare with `aqueduct reconcile`.

Exit code: 0 no problem; 3 at least one problem, such as a pattern that matches no topic, or synchronised
groups that cannot be checked; 1 a cluster does not answer. --json prints the report of --report; topic IDs
are then not stored, and nothing is changed. With
--wait, the command checks again until no problem is left or the time has passed.
"""

import argparse
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from aqueduct.cli import duration, report_file, selection
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, shortened
from aqueduct.errors import ExitCode, Failed, Refused, labelled
from aqueduct.estate import patterns
from aqueduct.estate.patterns import PatternError
from aqueduct.kafka import client_config
from aqueduct.kafka.client import connect
from aqueduct.mirror import classic_reading, reading, status
from aqueduct.mirror.classic_reading import ClassicReader
from aqueduct.mirror.engine.reading import BatchesReader, FlowWorker
from aqueduct.mirror.engine.switch import check_mirror_maker
from aqueduct.mirror.flow_reader import FlowReader, TaskReader
from aqueduct.mirror.reading import MirrorReader
from aqueduct.mirror.status import AffectedRange, FlowTask, MirrorProgress

POLL_SECONDS = 1
CLIENT = "aqueduct-mirror"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--flow", metavar="NAME", required=True, help="name of the flow; default: that of its source")
    for end in ("source", "target"):
        servers = f"--{end}-bootstrap-server"
        add(servers, metavar="HOST:PORT,...", type=selection.servers, required=True)
        add(f"--{end}-command-config", metavar="FILE", help="Kafka client properties")
    add(
        "--engine",
        choices=("mm2", "batches"),
        default="mm2",
        help="mm2: MirrorMaker 2; batches: `aqueduct replicate`, requires --topics-pattern; default mm2",
    )
    add(
        "--group",
        metavar="GROUP",
        help="classic mirror: consumer group of the mirror at the source; requires --topics-pattern",
    )
    add(
        "--topics-pattern",
        metavar="REGEX",
        type=selection.pattern,
        help="classic mirror or --engine batches: topics of the flow, by whole name at the source",
    )
    add(
        "--target-prefix",
        metavar="PREFIX",
        default="",
        help="classic mirror: prefix of the topic names at the target",
    )
    add(
        "--begin-at-ends",
        action="store_true",
        help="classic mirror without a position: set its offsets to the present ends of the logs",
    )
    add(
        "--before-start",
        action="store_true",
        help="before the workers start: correct positions that do not match their topics, and print them",
    )
    add(
        "--accept-ranges",
        action="store_true",
        help="after a comparison of both ends: remove the listed ranges that the target has twice, accept "
        "offsets of synchronised groups, and bind positions of a classic mirror to the present topics",
    )
    add(
        "--started",
        action="store_true",
        help="report only workers and tasks that do not run as problems; lost records, positions that do not "
        "match and patterns that match no topic are warnings",
    )
    add(
        "--wait",
        metavar="DURATION",
        type=duration.parse,
        default=0,
        help="maximum wait until no problem is left, such as 5m",
    )
    add("--until-caught-up", action="store_true", help="a partition that lags is a problem, too")
    report_file.add_arguments(parser)


@dataclass(frozen=True, kw_only=True)
class _FlowState:
    """The state of one flow."""

    source: str
    findings: list[str]
    progress: list[MirrorProgress]
    lost: Collection[MirrorProgress]  # where records were lost
    hidden: list[TopicPartition]  # that the source does not show: their lag is unknown
    positions: list[str]  # findings about positions
    unmatched: list[str]  # findings about patterns that match no topic or group
    unknown: list[str]  # sentences
    tasks: list[FlowTask] | None  # None: unknown
    # Sentences about positions that were bound to no topic id yet; they do not change the exit code.
    unbound: list[str] = field(default_factory=list)
    ranges: list[AffectedRange] = field(default_factory=list)
    ages: dict[TopicPartition, float] = field(default_factory=dict)  # of the oldest unread record, seconds
    # The processes that share a flow of the engine `batches`; None: unknown.
    workers: list[FlowWorker] | None = field(default_factory=list)


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    _refuse(args)
    source_end = client_config.end("source", args.source_bootstrap_server, args.source_command_config)
    target_end = client_config.end("target", args.target_bootstrap_server, args.target_command_config)
    with connect(target_end, CLIENT, timeout_seconds=reading.CONNECT_SECONDS) as target:
        if args.group:
            with classic_reading.opened(source_end, args.group, CLIENT) as clients:
                names = args.topics_pattern, args.target_prefix
                flow = ClassicReader(args.flow, *names, clients, target)
                if args.begin_at_ends:
                    return _begin(flow, args, started)
                state = _classic_state(flow, args)
        else:
            with connect(source_end, CLIENT, timeout_seconds=reading.CONNECT_SECONDS) as source:
                mirror: TaskReader
                if args.engine == "batches":
                    mirror = BatchesReader(args.flow, args.topics_pattern, source, target)
                else:
                    mirror = reading.MirrorReader(args.flow, source, target)
                if isinstance(mirror, MirrorReader) and args.before_start:
                    check_mirror_maker(args.flow, target)
                    return _prepare(mirror, args, started)
                state = _mirror_state(mirror, args)
    return _report(state, args, started)


def _classic_state(flow: ClassicReader, args: argparse.Namespace) -> _FlowState:
    findings, progress, lost = _look(flow, args)
    if args.accept_ranges:
        flow.renew(accept=True)
        findings, progress, lost = _look(flow, args)
    state = _FlowState(  # without ages: Kafka 0.10 has no batches to read them of
        source=args.flow,
        findings=findings,
        progress=progress,
        lost=lost,
        hidden=flow.hidden,
        positions=flow.position_findings(),
        unmatched=_unmatched(flow),
        unknown=[],
        unbound=flow.unbound(),
        ranges=flow.ranges(),
        tasks=None,
    )
    return state if args.json else _renewed(flow, state)


def _mirror_state(mirror: TaskReader, args: argparse.Namespace) -> _FlowState:
    """Return the state, and bind MirrorMaker's positions to the ids of their topics."""
    findings, progress, lost = _look(mirror, args)
    if isinstance(mirror, MirrorReader) and args.accept_ranges:
        mirror.renew(accept=True)
        findings, progress, lost = _look(mirror, args)
    state = _FlowState(
        source=args.flow,
        findings=findings,
        progress=progress,
        lost=lost,
        hidden=mirror.hidden,
        positions=mirror.position_findings(),
        unmatched=_unmatched(mirror),
        ranges=mirror.ranges(),
        unknown=mirror.unknown(),
        tasks=mirror.tasks(),
        workers=mirror.workers() if isinstance(mirror, BatchesReader) else [],
        ages=mirror.unread_ages(progress) if report_file.is_requested(args) else {},
    )
    return _renewed(mirror, state) if isinstance(mirror, MirrorReader) and not args.json else state


def _renewed(mirror: MirrorReader | ClassicReader, state: _FlowState) -> _FlowState:
    """Bind positions that fit to the ids of their topics; return the state with what that failed for."""
    try:
        mirror.renew()
    except Failed as error:  # such as a client that may only read
        unbound = labelled(
            error.id, f"The positions were checked, and not bound to their topics: {error.sentence}"
        )
        return replace(state, findings=[*state.findings, unbound])
    return state


def _report(state: _FlowState, args: argparse.Namespace, started: datetime) -> int:
    """Print the state, write it to the report, and return the exit code."""
    findings, warnings = state.findings, list[str]()
    if args.started:
        warnings = status.loss_findings(state.source, state.lost) + state.positions + state.unmatched
        warnings += state.unknown
    else:
        findings = findings + state.unmatched + state.unknown
    content = status.report(
        findings, state.progress, state.lost, state.ranges, state.ages, hidden=state.hidden
    )
    content["tasks"] = status.tasks_report(state.tasks)
    if args.engine == "batches":
        content |= _workers(state.workers)
    print(_table(state.progress, state.hidden))
    if state.workers != []:
        names = "unknown" if state.workers is None else ", ".join(map(str, state.workers))
        print(f"Workers: {names}.")
    for finding in findings:
        print(finding)
    for warning in [*warnings, *state.unbound]:
        print(f"aqueduct: {warning}", file=sys.stderr)
    code = ExitCode.INCOMPLETE if findings else ExitCode.DONE
    if report_file.is_requested(args):
        content["unknown"] = state.unknown + state.unbound
        report_file.deliver(args, "mirror", code, started, content)
    return code


def _workers(workers: list[FlowWorker] | None) -> dict[str, Any]:
    """Return what reports say of the processes that share a flow; null: they are unknown."""
    if workers is None:
        return {"workers": None}
    return {"workers": [{"host": worker.host, "tasks": list(worker.tasks)} for worker in workers]}


def _unmatched(mirror: FlowReader) -> list[str]:
    """Return the patterns that match no topic, a sentence each. `--wait` does not wait for their topics."""
    try:
        unmatched = mirror.unmatched(patterns.unmatched)
        of_groups = mirror.unmatched_groups(patterns.unmatched) if isinstance(mirror, MirrorReader) else []
    except PatternError as error:
        return [labelled("pattern-invalid", f"Whether each pattern matches is not known: {error}.")]
    except Failed as error:
        return [labelled(error.id, f"Whether each pattern matches is not known: {error.sentence}")]
    findings = [status.unmatched_finding(mirror.source, pattern) for pattern in unmatched]
    return findings + [status.unmatched_group_finding(mirror.source, pattern) for pattern in of_groups]


def _refuse(args: argparse.Namespace) -> None:
    is_batches = args.engine == "batches"
    if bool(args.group) and is_batches:
        raise Refused("option-conflict", "--group is for a classic mirror. Remove --engine.")
    if bool(args.group or is_batches) != bool(args.topics_pattern):
        raise Refused(
            "option-conflict",
            "A classic mirror needs --group and --topics-pattern, and --engine batches needs "
            "--topics-pattern. MirrorMaker 2 has neither.",
        )
    if (args.group or is_batches) and args.before_start:
        raise Refused("option-conflict", "--before-start is for MirrorMaker 2. Remove --group and --engine.")
    if is_batches and args.accept_ranges:
        raise Refused(
            "option-conflict", "--accept-ranges of --engine batches is an option of `aqueduct replicate`."
        )
    if args.started and (args.before_start or args.accept_ranges or args.begin_at_ends):
        raise Refused(
            "option-conflict",
            "--started checks whether the tasks run: leave --before-start, --accept-ranges and "
            "--begin-at-ends out.",
        )
    if args.json and (args.before_start or args.accept_ranges or args.begin_at_ends):
        raise Refused(
            "option-conflict",
            "--json changes nothing: remove --before-start, --accept-ranges and --begin-at-ends.",
        )
    if not args.group and (args.begin_at_ends or args.target_prefix):
        raise Refused(
            "option-required",
            "--begin-at-ends and --target-prefix are for a classic mirror, and need its --group.",
        )


def _begin(flow: ClassicReader, args: argparse.Namespace, started: datetime) -> int:
    begun = flow.begin_at_ends()
    if begun:
        print(f"Group {args.group} begins at the ends of {count(begun, 'partition')}.")
    else:
        print(f"Group {args.group} has positions and continues from them.")
    if report_file.is_requested(args):
        report_file.deliver(args, "mirror", ExitCode.DONE, started, {"begun": begun})
    return ExitCode.DONE


def _prepare(mirror: MirrorReader, args: argparse.Namespace, started: datetime) -> int:
    moved = mirror.prepare()
    for sentence in moved:
        print(sentence)
    if report_file.is_requested(args):
        report_file.deliver(args, "mirror", ExitCode.DONE, started, {"moved": moved})
    return ExitCode.DONE


def _look(
    flow: FlowReader, args: argparse.Namespace
) -> tuple[list[str], list[MirrorProgress], Collection[MirrorProgress]]:
    """Find what is not well, how far each partition is, and where records were lost.

    It looks again until all is well or the time is up. What was lost in one look is lost in the end, though
    the mirror has passed it.
    """
    deadline = time.monotonic() + args.wait
    lost: dict[TopicPartition, MirrorProgress] = {}
    while True:
        try:
            findings, progress = flow.look()
        except Failed:
            if time.monotonic() >= deadline:
                raise
        else:
            if not args.started:
                findings += flow.position_findings()
            if args.until_caught_up:
                findings += status.lag_findings(progress)
            lost |= {p.partition: p for p in progress if p.gone}
            if not findings or time.monotonic() >= deadline:
                if not args.started:
                    findings += status.loss_findings(flow.source, lost.values())
                return findings, progress, lost.values()
        time.sleep(POLL_SECONDS)


def _table(progress: Iterable[MirrorProgress], hidden: Collection[TopicPartition] = ()) -> str:
    """Return the partitions that are behind, a line each, and a line for all.

    `hidden`: partitions whose lag is unknown.
    """
    every = sorted(progress, key=lambda p: p.partition)
    behind = [p for p in every if p.behind]
    names = [shortened(p.partition.topic) for p in behind]
    width = max(map(len, ("topic", *names)))
    lines = [f"{'topic':<{width}}  partition  records behind"] if behind else []
    lines += [
        f"{name:<{width}}  {p.partition.partition:>9}  {p.behind:>14}"
        for name, p in zip(names, behind, strict=True)
    ]
    total = count(sum(p.behind for p in behind), "record")
    partitions = count(len(every) + len(hidden), "partition")
    unknown = f"; the lag of {len(hidden)} of them is unknown" if hidden else ""
    return "\n".join([*lines, f"{partitions}, {len(behind)} of them behind by {total}{unknown}."])
