"""Repair partitions whose brokers returned with other ids. Their logs exist, but no broker serves them.

inspect lists the logs in the data directories of a broker on this host: the broker id to which they belong,
and the end of each log. It reads the newest segment of each log that contains a batch, so it does not
detect damage in older segments.

plan compares the output of inspect on all hosts with the cluster. It shows which id each host had, and the
possible remedies, the best one first. --keep-plan stores the plan; a later --read-plan refuses another one.

assign assigns partitions to the ids that their brokers have now.

restore-logs, on the host of a stopped broker, restores the logs that the broker has set aside (folders that
end in -stray). With --node-id, it also gives the broker's data directories another id. Run it as the user
of the broker; root is refused in a directory of another user.

elect elects leaders for partitions without one. The first running replica becomes leader, but only if no
log of the partition is damaged, no other log is longer (by leader epoch, then offset), and each broker with
a replica was inspected within the last hour and has neither started nor stopped since, or is
declared with --lost.

Partitions without any log are created empty only if --empty lists them.

playbooks/repair_broker_ids.yml runs these commands in the right order.

Exit codes:
  0  done, and nothing is left to repair
  1  failed
  2  refused; nothing was changed
  3  something is left to repair; the output lists it
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from aqueduct.cli import common, report_file, selection
from aqueduct.common import strict_json, timestamps
from aqueduct.common.topic_names import LEGAL_NAME, TopicPartition
from aqueduct.common.whole_files import write_whole
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Failed, Refused
from aqueduct.kafka import client_config, data_folder
from aqueduct.kafka.admin.cluster import describe_by_controller
from aqueduct.kafka.admin.reassign import under_way
from aqueduct.kafka.client import connect
from aqueduct.kafka.cluster import Cluster
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.recovery import read_plan
from aqueduct.recovery.broker_ids import agreement, disk_logs, plan, run, stray_logs
from aqueduct.recovery.broker_ids.log_comparison import LogComparison, lost_without_replicas
from aqueduct.recovery.quorum import metadata

NO_LOG = "no inspected folder has a log of it"
STOPPED = "the broker with the longest log is stopped"
Inspected = TypeVar("Inspected", disk_logs.DiskLog, disk_logs.Folder)
NODE_ID = selection.whole(0, (1 << 31) - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    inspect = commands.add_parser(
        "inspect", help="list the logs in the data directories of a broker on this host, as JSON"
    )
    _add_folders(inspect)
    inspect.add_argument(
        "--lost-folder",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help=(
            "empty or missing data directory of the same broker, whose disk is permanently lost; may "
            "be repeated"
        ),
    )
    inspect.set_defaults(run=_inspect)

    planned = commands.add_parser("plan", help="show which broker ids changed, and the remedies")
    _add_inspections(planned)
    kept = planned.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep-plan", metavar="FILE", type=report_file.file, help="store this plan, for a later --read-plan"
    )
    kept.add_argument(
        "--read-plan",
        metavar="FILE",
        type=Path,
        help="refuse a plan that repairs or loses more than the one that --keep-plan stored",
    )
    planned.set_defaults(run=_plan)

    back = commands.add_parser(
        "restore-logs", help="restore logs that a stopped broker has set aside, or change its id"
    )
    _add_folders(back)
    back.add_argument(
        "--node-id",
        metavar="N",
        type=NODE_ID,
        help="new broker id of the data directories; default: unchanged",
    )
    back.set_defaults(run=_restore_logs)

    assign = commands.add_parser("assign", help="assign partitions to the ids that their brokers have now")
    _add_inspections(assign)
    _add_empty(assign)
    assign.set_defaults(run=_assign)

    elect = commands.add_parser("elect", help="elect leaders by the logs on the disks")
    _add_inspections(elect)
    _add_empty(elect)
    elect.set_defaults(run=_elect)


def _add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-folder",
        metavar="FOLDER",
        type=Path,
        action="append",
        required=True,
        help="data directory of the broker (log.dirs); repeat for each",
    )


def _add_inspections(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    add_inspections(parser)
    add_lost(parser)
    parser.add_argument(
        "--replaced",
        metavar="FILE",
        type=report_file.file,
        help="file in which assign stores the ids that it replaces; elect then needs no --lost for them",
    )


def add_inspections(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--inspection",
        metavar="FILE",
        type=Path,
        action="append",
        required=required,
        default=[],
        help="output of `aqueduct repair inspect` on a host, in a file named HOST.json; repeat for each host",
    )


def add_lost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lost",
        metavar="N[,N...]",
        type=lambda text: [NODE_ID(number) for number in text.split(",")],
        action="extend",
        default=[],
        help="ids of brokers whose disks are permanently lost, or have another broker id now",
    )


def all_seen(comparison: LogComparison) -> None:
    """Refuse metadata that are to fit logs that nobody inspected: one of them may go furthest."""
    if comparison.unseen:
        raise Refused(
            "broker-disks-unseen",
            f"The disks of brokers {some(comparison.unseen)} were not inspected, and records on them may "
            "be truncated. Pass their --inspection, or --lost for those whose disks are "
            "permanently lost. Nothing was done.",
        )


def _add_empty(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--empty",
        metavar="TOPIC:PARTITION,...",
        type=_partitions,
        default=(),
        help="create these partitions empty, if no log of them exists; all their records are lost",
    )


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions, for argparse's `type`."""
    partitions = []
    for name in text.split(","):
        topic, _, number = name.rpartition(":")
        if not (LEGAL_NAME.fullmatch(topic) and number.isdecimal()):
            raise argparse.ArgumentTypeError(f"{name!r} is not a partition; write TOPIC:PARTITION")
        partitions.append(TopicPartition(topic, int(number)))
    return tuple(partitions)


def _inspect(args: argparse.Namespace) -> int:
    folders = [disk_logs.inspect_folder(path, running=disk_logs.is_in_use(path)) for path in args.data_folder]
    folders += [disk_logs.lost_folder(path, folders) for path in args.lost_folder]
    print(json.dumps([asdict(folder) for folder in folders]))
    return ExitCode.DONE


def _plan(args: argparse.Namespace) -> int:
    seen = _seen(args.inspection)
    with connect(_end(args), "aqueduct-repair") as client:
        state = describe_by_controller(client)
        moving = under_way(client)
        replaced = _replaced(args.replaced, state)
    repair = plan.plan(state, seen, args.lost, moving, replaced)
    sentences = plan.sentences(state, repair)
    _say_nowhere(args, state)
    for sentence in sentences or ["No id was changed."]:
        print(sentence)
    made = agreement.read_repair(state.cluster_id, repair, seen)
    if args.read_plan:
        read = read_plan.load(agreement.ReadRepair, args.read_plan, unreadable=agreement.RepairPlanUnreadable)
        if read:
            read_plan.refuse(agreement.changes(read, made, repair.lead), changed=agreement.RepairPlanChanged)
    if args.keep_plan:
        try:
            write_whole(args.keep_plan, strict_json.dumps(made))
        except OSError as error:
            sentence = f"Cannot write {args.keep_plan}: {error.strerror}. Nothing was done."
            raise Failed("repair-plan-unwritable", sentence) from None
    return ExitCode.INCOMPLETE if sentences else ExitCode.DONE


def _restore_logs(args: argparse.Namespace) -> int:
    if args.node_id is not None:
        _refuse_voters(args.data_folder, args.node_id)
    taken = stray_logs.restore_logs(args.data_folder, args.node_id)
    for disk in taken:
        print(
            f"{disk.path} belongs to broker {disk.now}"
            + (f", before to broker {disk.before}" if disk.before != disk.now else "")
            + f"; {count(len(disk.logs), 'log')} restored, {count(len(disk.emptied), 'empty log')} removed "
            "for them."
        )
        for name, reason in disk.left:
            print(f"{disk.path}/{name} was not restored: {reason}.")
    return ExitCode.INCOMPLETE if any(disk.left for disk in taken) else ExitCode.DONE


def _refuse_voters(folders: Sequence[Path], node_id: int) -> None:
    """Refuse another id for a controller's folder: its vote goes by its id and the folder's (KIP-853)."""
    for folder in (folder for folder in folders if (folder / metadata.FOLDER).exists()):
        voters = metadata.voters(folder)
        if voters is None:
            raise Refused(
                "controller-vote-unknown",
                f"{folder / metadata.FOLDER} does not show whether the node is a controller. If it "
                "is only a broker, run `aqueduct quorum set-aside --broker-only` first. Nothing "
                "was done.",
            )
        now = data_folder.read(folder).node_id
        if now != node_id and (had := voters & {now, node_id}):
            raise Refused(
                "controller-has-vote",
                f"{folder} belongs to node {now}, and {some(sorted(had))} has a vote in the "
                "quorum, which depends on the id and the folder. Another id would end the vote. "
                "Set the former id in the host's server.properties. Nothing was done.",
            )


def _assign(args: argparse.Namespace) -> int:
    seen = _seen(args.inspection)
    with connect(_end(args), "aqueduct-repair") as client:
        state = describe_by_controller(client)
        replaced = _replaced(args.replaced, state)
        repair = plan.plan(state, seen, args.lost, under_way(client), replaced)
        if repair.damaged:
            damage = some(f"{log.partition} on broker {node} ({log.damage})" for node, log in repair.damaged)
            raise Refused(
                "broker-log-damaged",
                f"{damage}: brokers would truncate these damaged logs. Restore the partitions from a backup, "
                "or move the logs away. Nothing was assigned.",
            )
        empty = plan.emptied(state, repair, args.empty)
        if args.replaced and repair.changed:
            ids = {**replaced.ids, **{str(change.before): change.now for change in repair.changed}}
            _keep(args.replaced, plan.ReplacedIds(state.cluster_id, ids))
        run.assign(client, {**repair.move, **empty})
    print(
        f"{count(len(repair.move), 'partition')} assigned to the present ids of the brokers; "
        f"{len(repair.lead):,} without a leader yet; {count(len(empty), 'partition')} to be "
        "created empty."
    )
    _say_nowhere(args, state)
    for change in repair.changed:
        by = "the same --replaced" if args.replaced else f"--lost {change.before}"
        print(f"Broker {change.before} is broker {change.now} now: run `aqueduct repair elect` with {by}.")
    return _left(
        [*repair.unseen.items()]
        + [(partition, NO_LOG) for partition in repair.empty if partition not in empty]
        + [(partition, STOPPED) for partition in repair.stopped]
    )


def _elect(args: argparse.Namespace) -> int:
    seen = _seen(args.inspection)
    with connect(_end(args), "aqueduct-repair") as client:
        state = describe_by_controller(client)
        replaced = _replaced(args.replaced, state)
        electable, left = plan.electable(state, seen, args.empty, args.lost, replaced)
        run.lead(client, electable)
        run.end_reassignments(client)
    print(f"{count(len(electable), 'partition')} got leaders.")
    _say_nowhere(args, state)
    if any(partition.topic == GROUPS for partition in set(electable) & set(args.empty)):
        print("`aqueduct restore --groups-only` restores the lost offsets of groups from a backup.")
    if args.replaced and not left:
        args.replaced.unlink(missing_ok=True)  # the ids may be given to other brokers now
    return _left(left)


def _replaced(path: Path | None, state: Cluster) -> plan.ReplacedIds:
    """Read the ids that `assign` replaced; none without a file. Refused if it is of another cluster."""
    if path is None:
        return plan.NOTHING_REPLACED
    try:
        replaced = strict_json.loads(plan.ReplacedIds, path.read_bytes())
    except FileNotFoundError:
        return plan.NOTHING_REPLACED
    except OSError as error:
        raise Refused("replaced-ids-unreadable", f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise Refused(
            "replaced-ids-unreadable",
            f"{path} is damaged, or is not a file of `aqueduct repair assign --replaced` "
            f"({error}). Move it away, and pass the replaced ids with --lost. Nothing was done.",
        ) from None
    if replaced.cluster != state.cluster_id:
        raise Refused(
            "replaced-ids-unreadable",
            f"{path} belongs to the cluster {replaced.cluster}, but this cluster is "
            f"{state.cluster_id}. Move the file away. Nothing was done.",
        )
    return replaced


def _keep(path: Path, replaced: plan.ReplacedIds) -> None:
    """Write the ids before they are replaced."""
    try:
        write_whole(path, strict_json.dumps(replaced))
    except OSError as error:
        raise Failed(
            "replaced-ids-unwritable", f"Cannot write {path}: {error.strerror}. Nothing was assigned."
        ) from None


def _say_nowhere(args: argparse.Namespace, state: Cluster) -> None:
    if sentence := lost_without_replicas(
        args.lost, {node for partition in state.partitions for node in partition.replicas}
    ):
        print(sentence)


def _left(left: Sequence[tuple[object, str]]) -> int:
    for partition, reason in left:
        print(f"{partition} has no leader: {reason}.")
    return ExitCode.INCOMPLETE if left else ExitCode.DONE


def _end(args: argparse.Namespace) -> client_config.End:
    return client_config.end("cluster", args.bootstrap_server, args.command_config)


def _seen(paths: Sequence[Path]) -> dict[str, list[disk_logs.Folder]]:
    """Read what inspect printed on each host; Refused if that is long ago."""
    folders_by_host = hosts(paths)
    plan.refuse_old(folders_by_host, timestamps.now())
    return folders_by_host


def hosts(paths: Sequence[Path]) -> dict[str, list[disk_logs.Folder]]:
    """Read what inspect printed on each host; Refused if a file is not that, or two are of one broker."""
    folders_by_host: dict[str, list[disk_logs.Folder]] = {}
    brokers: dict[int, Path] = {}
    for path in paths:
        host = path.name.removesuffix(".json")
        try:
            folders = [_folder(document) for document in json.loads(path.read_text(encoding="utf-8"))]
            if not folders:
                raise ValueError(f"{path} lists no data directory")
        except OSError as error:
            raise Refused("file-unreadable", f"Cannot read {path}: {error.strerror}.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Refused(
                "file-content-invalid", f"{path} is not a file of `aqueduct repair inspect`."
            ) from None
        if host in folders_by_host:
            raise Refused(
                "broker-inspected-twice",
                f"Two files of --inspection are called {host}. Name each file after its host.",
            )
        for node in {folder.node_id for folder in folders}:
            if brokers.setdefault(node, path) != path:
                raise Refused(
                    "broker-inspected-twice",
                    f"{brokers[node]} and {path} both have folders of broker {node}. Pass one file "
                    "for each host. If two hosts have one id, pass only the file of the broker.",
                )
        folders_by_host[host] = folders
    return folders_by_host


def _folder(document: dict[str, Any]) -> disk_logs.Folder:
    return _typed(disk_logs.Folder, document, logs=tuple(_log(log) for log in document["logs"]))


def _log(document: dict[str, Any]) -> disk_logs.DiskLog:
    topic, number = document["partition"]
    if not isinstance(topic, str) or type(number) is not int:
        raise TypeError(f"{document['partition']} is no partition")
    return _typed(disk_logs.DiskLog, document, partition=TopicPartition(topic, number))


def _typed(kind: type[Inspected], document: dict[str, Any], **made: object) -> Inspected:
    """Make one of what a file says; TypeError where that is of another type, as a text for a number."""
    for name, annotation in get_type_hints(kind).items():
        if name in document.keys() - made.keys() and type(document[name]) not in (
            get_args(annotation) or (annotation,)
        ):
            raise TypeError(f"{name} is {document[name]!r}")
    return kind(**(document | made))
