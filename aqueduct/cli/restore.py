"""Restore a snapshot: topics, their settings and records, and consumer groups, each at its very next record.

Everything is checked first: the objects' digests, the target's partitions, and that it has no records yet.
The restore has an id, which is printed first; the same command after a crash resumes and writes nothing
twice, and after the end it says that it was done. While a topic is restored its retention is off; where
retention would delete at once what was restored it stays off, until the same command is run with
--release-retention.

Exit code: 0 done, 3 done but for what it names (groups with members), 1 failed or damage found, 2 refused
before anything was written.
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
    add("--topics", metavar="A,B:C", help="by name; B:C is B restored as C; default: all")
    common.add_window(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--groups-pattern", metavar="REGEX", help="only groups of these names; default: all")
    which.add_argument("--no-groups", action="store_true", help="no consumer groups")
    add(
        "--groups-only",
        action="store_true",
        help="give groups the positions that they lack, in the cluster whose records were never lost",
    )
    add(
        "--settings",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="give topics the settings that were backed up (default)",
    )
    add("--acls", action="store_true", help="restore ACLs and quotas, too")
    add(
        "--acls-within",
        metavar="FILE",
        type=Path,
        help="grant no more than these allow: JSON, entries as those of kafka_acls; default: grant all",
    )
    add(
        "--acls-of",
        metavar="PRINCIPAL,...",
        type=selection.names,
        default=(),
        help="whose ACLs come back whatever they allow",
    )
    add(
        "--append",
        action="store_true",
        help="restore also to topics that have records; after an earlier restore, only what it lacks",
    )
    add("--dry-run", action="store_true", help="check and report, write nothing")
    add(
        "--restore-id",
        metavar="ID",
        help="default: by store, snapshot, target, topics and times; with --append: write all records",
    )
    add("--skip-verify", action="store_true", help="don't read the objects' digests before the first write")
    add("--release-retention", action="store_true", help="let retention delete what is too old")
    add(
        "--mirror",
        metavar="NAME=HOST:PORT,...",
        type=_mirror,
        action="append",
        default=[],
        help="a MirrorMaker flow that reads the target and stands still, and where it arrives: move it, too",
    )
    add(
        "--mirror-config",
        metavar="FILE",
        help="client properties for where mirrors arrive; default: the same",
    )
    add(
        "--link",
        metavar="GROUP",
        action="append",
        default=[],
        help="group of a one-way link that reads the target and stands still: move its position, too",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.backup.selection import GroupSelection, compiled
        from aqueduct.restore import report
        from aqueduct.restore import run as restore
        from aqueduct.restore.order import FollowingMirror, RestoreOrder
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
    order = RestoreOrder(
        end=client_config.end("target", args.bootstrap_servers, args.client_config),
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
    )
    given = {name: getattr(args, name) for name in named}
    beside = [name for name, value in given.items() if value not in (None, [], ()) and value is not False]
    beside += ["release_retention"] * args.release_retention
    if args.topics is not None and any(old != new for old, new in parse_renames(args.topics).items()):
        beside.append("topics, with another name")
    if beside:
        told = ", ".join(f"--{each.replace('_', '-')}" for each in beside)
        raise Refused("option-conflict", f"--groups-only writes no records. Remove {told}.")


def _groups_only(args: argparse.Namespace, order: "RestoreOrder", started: datetime) -> int:
    from aqueduct.restore import groups_only

    done = groups_only.main(order)
    print("\n".join(groups_only.text(done)))
    code = groups_only.exit_code(done)
    if args.report:
        report_file.write(args.report, "restore", code, started, groups_only.report(done))
    return code


def _mirror(text: str) -> tuple[str, str]:
    name, equals, servers = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a mirror; write NAME=HOST:PORT,HOST:PORT")
    return name, selection.servers(servers)
