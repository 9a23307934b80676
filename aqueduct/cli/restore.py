"""Restore a snapshot: topics, their settings and records, and the offsets of consumer groups.

Everything is checked first: the objects' digests, the target's partitions, and that it has no records yet.
The ID of the restore is printed first. If a run is interrupted, the same command resumes it and writes no
record twice. If the restore is complete, the command reports that and writes nothing.

Retention is disabled while a topic is restored. If retention would delete restored records at once, it stays
disabled. To enable it, run the command again with --release-retention.

Exit code: 0 done; 1 failed, or the store is damaged; 2 refused, nothing was written; 3 done, but some items
were skipped (listed in the output), such as groups with members.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.extra import spark_packages
from aqueduct.errors import Refused
from aqueduct.kafka import acls, client_config
from aqueduct.names import parse_renames

if TYPE_CHECKING:
    from aqueduct.restore.order import RestoreOrder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_cluster(parser)
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add("--topics", metavar="A,B:C", help="names; B:C restores B under the name C; default: all")
    common.add_window(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--groups-pattern", metavar="REGEX", help="restore only groups whose names match; default: all"
    )
    which.add_argument("--no-groups", action="store_true", help="restore no consumer groups")
    add(
        "--groups-only",
        action="store_true",
        help="restore only missing group offsets, in a cluster that still has its original records",
    )
    add(
        "--settings",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="restore topic settings (default)",
    )
    add("--acls", action="store_true", help="restore ACLs and quotas, too")
    add(
        "--acls-within",
        metavar="FILE",
        type=Path,
        help="JSON list of allowed ACLs, as the variable kafka_acls has them; default: all",
    )
    add(
        "--acls-of",
        metavar="PRINCIPAL,...",
        type=selection.names,
        default=(),
        help="restore all ACLs of these principals, whatever --acls-within allows",
    )
    add(
        "--append",
        action="store_true",
        help="accept topics that have records; after an earlier restore, write only the missing records",
    )
    add("--dry-run", action="store_true", help="check and report, write nothing")
    add(
        "--restore-id",
        metavar="ID",
        help="default: from store, snapshot, target, topics and times; with --append, a new ID writes "
        "all records again",
    )
    add("--skip-verify", action="store_true", help="write without verifying the objects' digests first")
    add(
        "--release-retention",
        action="store_true",
        help="enable retention again, which deletes records that are too old",
    )
    add(
        "--task-config",
        metavar="FILE",
        help="client properties of tasks, whose key Spark sends to all workers of a cluster; default: "
        "--client-config",
    )
    add(
        "--task-principal",
        metavar="NAME",
        type=_principal,
        help="principal of --task-config, which gets ACLs for the restored topics while they are restored; "
        "default: it has them",
    )
    add(
        "--mirror",
        metavar="NAME=HOST:PORT,...",
        type=_mirror,
        action="append",
        default=[],
        help="a stopped MirrorMaker flow that reads this cluster, and the brokers to which it writes; its "
        "offsets are adjusted",
    )
    add(
        "--mirror-config",
        metavar="FILE",
        help="client properties for the brokers of --mirror; default: --client-config",
    )
    add(
        "--link",
        metavar="GROUP",
        action="append",
        default=[],
        help="consumer group of a stopped one-way link that reads this cluster; its offsets are adjusted",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.backup.selection import GroupSelection, compiled
        from aqueduct.restore import report
        from aqueduct.restore import run as restore
        from aqueduct.restore.order import FollowingMirror, RestoreOrder, TaskClient
        from aqueduct.restore.request import Request, parse_id, parse_instance
        from aqueduct.work.workers import Workers

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    if args.groups_only:
        _refuse_beside_groups_only(args)
    if args.acls_within and not args.acls:
        raise Refused("option-required", "--acls-within requires --acls. Add --acls.")
    if args.acls_of and not args.acls_within:
        raise Refused(
            "option-required", "--acls-of requires --acls-within, without which all ACLs are restored."
        )
    if args.mirror_config and not args.mirror:
        raise Refused("option-required", "--mirror-config requires --mirror. Add --mirror.")
    if args.task_principal and not args.task_config:
        raise Refused("option-required", "--task-principal requires --task-config. Add --task-config.")
    tasks = args.task_config is not None
    order = RestoreOrder(
        end=client_config.end("target", args.bootstrap_servers, args.client_config, for_tasks=not tasks),
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
                name, client_config.end("lake", servers, args.mirror_config or args.client_config)
            )
            for name, servers in args.mirror
        ),
        links=tuple(args.link),
        task_client=TaskClient(
            client_config.end("target", args.bootstrap_servers, args.task_config, for_tasks=True),
            args.task_principal,
        )
        if tasks
        else None,
    )
    if args.groups_only:
        return _groups_only(args, order, started)
    with Workers("aqueduct restore", common.spark(args)) as workers:
        outcome = restore.main(order, workers)
    code = report.exit_code(outcome)
    print(report.text(outcome))
    if args.report:
        report_file.write(args.report, "restore", code, started, report.report(outcome) | workers.ran())
    return code


def _declared(path: Path | None) -> frozenset[acls.Acl] | None:
    """Read the ACLs that may be granted; Refused if they can't be."""
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
    """Refuse what is of records, settings or rights."""
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
        "task_config",
        "task_principal",
    )
    given = {name: getattr(args, name) for name in named}
    beside = [name for name, value in given.items() if value not in (None, [], ()) and value is not False]
    beside += ["release_retention"] * args.release_retention
    if args.topics is not None and any(old != new for old, new in parse_renames(args.topics).items()):
        beside.append("topics, with another name")
    if beside:
        options = ", ".join(f"--{option.replace('_', '-')}" for option in beside)
        raise Refused("option-conflict", f"--groups-only writes no records. Remove {options}.")


def _groups_only(args: argparse.Namespace, order: "RestoreOrder", started: datetime) -> int:
    from aqueduct.restore import groups_only

    outcome = groups_only.main(order)
    print("\n".join(groups_only.text(outcome)))
    code = groups_only.exit_code(outcome)
    if args.report:
        report_file.write(args.report, "restore", code, started, groups_only.report(outcome))
    return code


def _principal(text: str) -> str:
    """Parse a principal without its type, for argparse's `type`."""
    if not text or text.startswith(acls.USER):
        raise argparse.ArgumentTypeError(f"{text!r} is not a principal; write it without {acls.USER}")
    return text


def _mirror(text: str) -> tuple[str, str]:
    name, equals, servers = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a mirror; write NAME=HOST:PORT,HOST:PORT")
    return name, selection.servers(servers)
