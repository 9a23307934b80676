"""Move the positions of a flow from one mirror engine to the other: MirrorMaker 2 and `batches`.

Stop the flow on every host first. playbooks/switch_mirror.yml does that, runs this command, and starts the
flow with its other engine. With --dry-run, the command shows at which offset each partition would continue.
Nothing is changed then, and the flow may run.

Both engines commit records and positions in the same transactions at the target. So a position is exact while
no worker runs and no transaction is open: no record is lost or arrives twice. All positions are moved in one
transaction, or none. If one cannot be proven, for example because it is not bound to a topic ID, nothing is
moved, and it is listed with the remedy. If the other engine has the flow already, nothing is done.

The engine that had the flow refuses to start from then on. It would mirror the same records again.

Offsets of synchronised consumer groups at the target stay as they are. From the moved position on,
`batches` translates them exactly. A group that is behind the moved position keeps the offset that
MirrorMaker 2 has set, and may read records again. No group skips a record.

Exit code: 0 moved, or nothing is to be moved; 3 with --dry-run: a position cannot be moved, or offsets of
groups will be unknown; 1 a worker runs, or a cluster does not answer; 2 refused. Nothing is moved except with
0.
"""

import argparse
from datetime import UTC, datetime
from typing import Any

from aqueduct.cli import report_file, selection
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, labelled, left_out_entries
from aqueduct.kafka import client_config
from aqueduct.kafka.client import connect
from aqueduct.mirror import reading
from aqueduct.mirror.engine.position import BATCHES, MM2
from aqueduct.mirror.engine.switch import EngineSwitch, SwitchOrder
from aqueduct.mirror.engine.switch_plan import SwitchPlan
from aqueduct.mirror.engine.topics import MirroredTopics

CLIENT = "aqueduct-switch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--flow", metavar="NAME", required=True, help="name of the flow; default: that of its source")
    add("--to", choices=(MM2, BATCHES), required=True, help="the engine that gets the positions")
    for end in ("source", "target"):
        servers = f"--{end}-bootstrap-server"
        add(servers, metavar="HOST:PORT,...", type=selection.servers, required=True)
        add(f"--{end}-command-config", metavar="FILE", help="Kafka client properties")
    add(
        "--topics-pattern",
        metavar="REGEX",
        type=selection.pattern,
        required=True,
        help="topics of the flow, by whole name at the source",
    )
    add("--target-prefix", metavar="PREFIX", default="", help="prefix of the topics' names at the target")
    add(
        "--tasks",
        metavar="N",
        type=selection.whole(1, 1000),
        default=2,
        help="tasks of the engine batches, if it has never run the flow; default 2",
    )
    add(
        "--replication-factor",
        metavar="N",
        type=selection.whole(1, 1000),
        help="replication factor of new topics of positions; default: that of the target",
    )
    add("--dry-run", action="store_true", help="show the plan, and change nothing")
    report_file.add_arguments(parser)


def run(args: argparse.Namespace) -> ExitCode:
    started = datetime.now(UTC)
    order = SwitchOrder(
        flow=args.flow,
        to=args.to,
        topics=MirroredTopics(args.topics_pattern, args.target_prefix),
        tasks=args.tasks,
        replication_factor=args.replication_factor,
    )
    source_end = client_config.end("source", args.source_bootstrap_server, args.source_command_config)
    target_end = client_config.end("target", args.target_bootstrap_server, args.target_command_config)
    with (
        connect(source_end, CLIENT, timeout_seconds=reading.CONNECT_SECONDS) as source,
        connect(target_end, CLIENT, timeout_seconds=reading.CONNECT_SECONDS) as target,
    ):
        switch = EngineSwitch(order, source, target)
        plan = switch.plan() if args.dry_run else switch.run()
    print("\n".join(_lines(plan, is_dry=args.dry_run)))
    is_incomplete = bool(args.dry_run and (plan.refused or plan.groups_unchecked))
    code = ExitCode.INCOMPLETE if is_incomplete else ExitCode.DONE
    if report_file.is_requested(args):
        report_file.deliver(args, "switch", code, started, _report(plan))
    return code


def _lines(plan: SwitchPlan, *, is_dry: bool) -> list[str]:
    if plan.is_made:
        has = f"The flow {plan.flow} already uses the engine {plan.to}."
        new = f"No engine has mirrored a record of the flow {plan.flow}."
        sentence = f"{has if plan.holder else new} Nothing needs to be moved."
        return [labelled("mirror-switch-unneeded", sentence)]
    number = count(len(plan.moved), "position")
    verb = "would be moved" if is_dry else "moved"
    lines = [f"Flow {plan.flow}: {number} {verb} from {plan.holder} to {plan.to}."]
    lines += [f"{partition}: continues at {of.next}." for partition, of in sorted(plan.moved.items())]
    lines += [f"Not moved: {left}." for left in plan.left]
    for partition in plan.groups_unchecked:
        sentence = (
            f"{partition}: MirrorMaker 2 may translate offsets of groups by those of an earlier topic or "
            "log. Compare them at both ends, and run aqueduct mirror with --accept-ranges."
        )
        lines.append(labelled("synchronised-groups-unchecked", sentence))
    if plan.refused:
        sentence = f"{count(len(plan.refused), 'position')} cannot be moved, so none is."
        lines.append(labelled("mirror-switch-refused", sentence))
    return lines + [f"Cannot be moved: {refused}." for refused in plan.refused]


def _report(plan: SwitchPlan) -> dict[str, Any]:
    return {
        "flow": plan.flow,
        "from": plan.holder,
        "to": plan.to,
        "moved": [
            {"topic": partition.topic, "partition": partition.partition, "next": of.next}
            for partition, of in sorted(plan.moved.items())
        ],
        "groups_unchecked": [str(partition) for partition in plan.groups_unchecked],
        "left_out": left_out_entries(plan.left),
        "refused": left_out_entries(plan.refused),
    }
