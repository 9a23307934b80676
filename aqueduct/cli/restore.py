"""Restore a snapshot to a cluster: topics, their settings and records, and the offsets of consumer groups.

Before anything is written, the command verifies the stored objects, and checks that the target topics are
empty or do not exist (see --append). It prints the ID of the restore first. If a run is interrupted, run the
same command again: it resumes, and writes no record twice. If the restore is complete, the command reports
that and writes nothing.

Retention is disabled while a topic is restored. If retention would delete restored records at once, it stays
disabled. To enable it, run the command again with --release-retention.

Exit code: 0 done; 3 done, but some items were skipped, which the output lists, such as groups with members;
1 failed, or the store is damaged; 2 refused, nothing was written.
"""

import argparse
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common.topic_names import parse_renames
from aqueduct.errors import Refused, labelled
from aqueduct.kafka import acls, client_config

if TYPE_CHECKING:
    from aqueduct.snapshots.restore.order import RestoreOrder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_cluster(parser, "Kafka brokers of the target cluster")
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    _add_selection(parser)
    _add_settings(parser)
    add(
        "--append",
        action="store_true",
        help="accept topics that have records; after an earlier restore, write only the missing records",
    )
    add("--dry-run", action="store_true", help="check and report, but write nothing")
    add(
        "--restore-id",
        metavar="ID",
        help="name of this restore; default: derived from store, snapshot, target, topics, instance and "
        "times; with --append, a new ID writes all records again",
    )
    add("--skip-verify", action="store_true", help="do not verify the stored objects before writing")
    add(
        "--release-retention",
        action="store_true",
        help="enable retention again, which deletes records that are too old",
    )
    _add_tasks(parser)
    _add_flows(parser)
    common.add_run(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose topics, times and groups."""
    add = parser.add_argument
    add(
        "--topics",
        metavar="A,B:C",
        help="exact names of topics; B:C restores B under the name C; default: all",
    )
    common.add_window(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--groups-pattern", metavar="REGEX", help="consumer groups whose whole names match; default: all"
    )
    which.add_argument("--no-groups", action="store_true", help="do not restore consumer groups")
    add(
        "--groups-only",
        action="store_true",
        help="set only the offsets that groups lack, in a cluster that still has its original records",
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options of settings, ACLs and quotas."""
    add = parser.add_argument
    add(
        "--settings",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="restore topic settings (default), or keep those of the target cluster",
    )
    add("--acls", action="store_true", help="restore ACLs and quotas, too")
    add(
        "--acls-within",
        metavar="FILE",
        type=Path,
        help="JSON list of ACLs that may be granted, in the format of the variable kafka_acls; default: all",
    )
    add(
        "--acls-of",
        metavar="PRINCIPAL,...",
        type=selection.names,
        default=(),
        help="principals whose ACLs are all restored, even if --acls-within excludes them",
    )


def _add_tasks(parser: argparse.ArgumentParser) -> None:
    """Add the options of the client of Spark tasks."""
    add = parser.add_argument
    add(
        "--task-command-config",
        metavar="FILE",
        help="client properties for Spark tasks (Spark sends the key to all workers); default: "
        "--command-config, with a warning on a cluster",
    )
    add(
        "--task-principal",
        metavar="NAME",
        type=_principal,
        help="principal of --task-command-config: grant it ACLs on the topics during the restore; default: "
        "none",
    )


def _add_flows(parser: argparse.ArgumentParser) -> None:
    """Add the options of flows that read the restored cluster."""
    add = parser.add_argument
    add(
        "--mirror",
        metavar="NAME=HOST:PORT,...",
        type=_mirror,
        action="append",
        default=[],
        help="adjust the offsets of a stopped MirrorMaker flow that reads this cluster: its name, and the "
        "brokers to which it writes; may be repeated",
    )
    add(
        "--mirror-command-config",
        metavar="FILE",
        help="client properties for the brokers of --mirror; default: --command-config",
    )
    add(
        "--link",
        metavar="GROUP",
        action="append",
        default=[],
        help="adjust the offsets of a stopped one-way link that reads this cluster: its consumer group; "
        "may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.restore import report, task_rights
        from aqueduct.snapshots.restore import run as restore
        from aqueduct.work.workers import Workers

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    _refuse_conflicts(args)
    order = _order(args)
    if args.groups_only:
        return _groups_only(args, order, started)
    with Workers("aqueduct restore", common.spark(args)) as workers:
        sent = task_rights.key_sent(order) if workers.on_other_hosts else None
        if sent:  # before the key is sent, and in the report
            print(f"aqueduct: {labelled(sent.id, sent.message)}", file=sys.stderr, flush=True)
        outcome = restore.main(order, workers)
    if sent:
        outcome = replace(outcome, warnings=(sent, *outcome.warnings))
    code = workers.exit_code(report.exit_code(outcome))
    print(report.text(outcome))
    if report_file.is_requested(args):
        report_file.deliver(args, "restore", code, started, workers.reported(report.report(outcome)))
    return code


def _refuse_conflicts(args: argparse.Namespace) -> None:
    """Refuse options that require or exclude other ones."""
    if args.groups_only:
        _refuse_beside_groups_only(args)
    if args.acls_within and not args.acls:
        raise Refused("option-required", "--acls-within requires --acls. Add --acls.")
    if args.acls_of and not args.acls_within:
        raise Refused(
            "option-required", "--acls-of requires --acls-within, without which all ACLs are restored."
        )
    if args.mirror_command_config and not args.mirror:
        raise Refused("option-required", "--mirror-command-config requires --mirror. Add --mirror.")
    if args.task_principal and not args.task_command_config:
        raise Refused(
            "option-required", "--task-principal requires --task-command-config. Add --task-command-config."
        )


def _order(args: argparse.Namespace) -> "RestoreOrder":
    from aqueduct.snapshots.backup.selection import GroupSelection, compiled
    from aqueduct.snapshots.restore.order import FollowingMirror, RestoreOrder, TaskClient
    from aqueduct.snapshots.restore.request import Request, parse_id, parse_instance

    tasks = args.task_command_config is not None
    return RestoreOrder(
        end=client_config.end("target", args.bootstrap_server, args.command_config, for_tasks=not tasks),
        store=args.store,
        request=Request(
            names=tuple(parse_renames(args.topics).items()) if args.topics is not None else (),
            instance=parse_instance(args.instance),
            window=common.window(args),
        ),
        snapshot=args.snapshot,
        at_least=args.at_least,
        trust=common.trust(args),
        private_keys=common.private_keys(args),
        restore_id=parse_id(args.restore_id) if args.restore_id is not None else None,
        groups=None if args.no_groups else GroupSelection(compiled(args.groups_pattern, "--groups-pattern")),
        settings=args.settings,
        acls=args.acls,
        acls_within=_declared(args.acls_within),
        acls_of=frozenset(args.acls_of),
        append=args.append,
        dry_run=args.dry_run,
        skip_verify=args.skip_verify,
        release_retention=args.release_retention,
        mirrors=tuple(
            FollowingMirror(
                name, client_config.end("lake", servers, args.mirror_command_config or args.command_config)
            )
            for name, servers in args.mirror
        ),
        links=tuple(args.link),
        task_client=TaskClient(
            client_config.end("target", args.bootstrap_server, args.task_command_config, for_tasks=True),
            args.task_principal,
        )
        if tasks
        else None,
    )


def _declared(path: Path | None) -> frozenset[acls.Acl] | None:
    """Read the ACLs that may be granted; Refused if the file is unreadable or invalid."""
    if path is None:
        return None
    try:
        return acls.parse(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Refused("acl-file-unreadable", f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(
            "acl-file-invalid",
            f"{path} is not a JSON list of ACLs. Write entries as those of the module kafka_acls.",
        ) from None


def _refuse_beside_groups_only(args: argparse.Namespace) -> None:
    """Refuse the options of records, settings and ACLs beside --groups-only."""
    named = (
        "no_groups",
        "from_time",
        "to_time",
        "acls",
        "acls_within",
        "acls_of",
        "append",
        "restore_id",
        "skip_verify",
        "mirror",
        "link",
        "task_command_config",
        "task_principal",
    )
    given = {name: getattr(args, name) for name in named}
    beside = [name for name, value in given.items() if value not in (None, [], ()) and value is not False]
    beside += ["release_retention"] * args.release_retention
    beside += ["instance"] * (args.instance.lower() != "activate")
    if args.topics is not None and any(old != new for old, new in parse_renames(args.topics).items()):
        beside.append("topics OLD:NEW")
    if beside:
        options = ", ".join(f"--{option.replace('_', '-')}" for option in beside)
        raise Refused("option-conflict", f"--groups-only writes no records. Remove {options}.")


def _groups_only(args: argparse.Namespace, order: "RestoreOrder", started: datetime) -> int:
    from aqueduct.snapshots.restore import groups_only

    outcome = groups_only.main(order)
    print("\n".join(groups_only.text(outcome)))
    code = groups_only.exit_code(outcome)
    if report_file.is_requested(args):
        report_file.deliver(args, "restore", code, started, groups_only.report(outcome))
    return code


def _principal(text: str) -> str:
    """Parse a principal without its type, for argparse's `type`."""
    if not text or text.startswith(acls.USER):
        raise argparse.ArgumentTypeError(f"{text!r} is not a principal; write it without {acls.USER}")
    return text


def _mirror(text: str) -> tuple[str, str]:
    name, equals, servers = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not a mirror; write NAME=HOST:PORT,HOST:PORT")
    return name, selection.servers(servers)
