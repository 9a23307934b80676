"""Back up the znodes of a ZooKeeper ensemble, compare an ensemble with a snapshot, and restore znodes.

backup adds a snapshot of all persistent znodes to a store: data, ACL and version, as of one moment.
Ephemeral znodes belong to sessions; they are listed and not stored.

restore creates the znodes of a snapshot that the ensemble lacks, parents first. Existing znodes that differ
are reported, and replaced only with --overwrite. If the brokers' logs may be newer than the snapshot, pass
the output of `aqueduct repair inspect` on each broker with --inspection. Partitions then start with
the broker whose log is longest, even if their znodes exist already, and topics that the snapshot does not
contain are listed. If a restore was interrupted, run it again.

diff compares an ensemble with a snapshot. snapshots lists the snapshots of a store. No command prints data
or passwords.

Exit codes of backup:
  0  done
  1  failed
  2  refused; no snapshot was added
  3  done, but znodes could not be read or kept changing, there are far fewer than before, or older
     snapshots could not be removed

Exit codes of restore:
  0  all znodes of the snapshot exist
  1  failed; some znodes may be restored
  2  refused; nothing was written
  3  done, except for the items in the output

Exit codes of diff and snapshots:
  0  equal; of snapshots: no snapshot is damaged
  1  failed; of snapshots: a snapshot is damaged
  2  an argument cannot be used
  3  different, or some znodes could not be compared
"""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common, repair, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common import timestamps
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Failed, Refused
from aqueduct.kafka import client_config
from aqueduct.recovery.broker_ids.log_comparison import sentences

PORT = 2181  # where brokers ask a server that is named without one
UNSEEN = (
    "The logs of brokers were not inspected. If a log is longer than in the snapshot, brokers may truncate "
    "records that were committed since then. Stop the brokers, and pass --inspection for each of them."
)

if TYPE_CHECKING:
    from aqueduct.recovery.zookeeper.client import Ensemble
    from aqueduct.recovery.zookeeper.restore import Restored
    from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot
    from aqueduct.recovery.zookeeper.znodes import TreeDifference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    backup = commands.add_parser("backup", help="add a snapshot of an ensemble to a store")
    _add_ensemble(backup)
    common.add_keep_newest(backup)
    common.add_trust(backup)
    common.add_signing_key(backup)
    report_file.add_arguments(backup)
    backup.set_defaults(run=_backup)

    restore = commands.add_parser("restore", help="create the znodes of a snapshot that an ensemble lacks")
    _add_ensemble(restore)
    common.add_snapshot(restore, "zookeeper snapshots")
    common.add_at_least(restore)
    common.add_trust(restore)
    restore.add_argument(
        "--prefix",
        metavar="/PATH",
        type=_znode,
        default="/",
        help="restore below this znode (a chroot), which is created if it is missing; default: /",
    )
    restore.add_argument(
        "--overwrite",
        metavar="/PATH",
        type=_znode,
        action="append",
        default=[],
        help="replace the data and ACL of this znode if they differ; may be repeated",
    )
    repair.add_inspections(restore, required=False)
    repair.add_lost(restore)
    restore.add_argument("--dry-run", action="store_true", help="show what would be written; write nothing")
    report_file.add_arguments(restore)
    restore.set_defaults(run=_restore)

    diff = commands.add_parser("diff", help="compare an ensemble with a snapshot")
    _add_ensemble(diff)
    common.add_snapshot(diff, "zookeeper snapshots")
    common.add_at_least(diff)
    common.add_trust(diff)
    report_file.add_arguments(diff)
    diff.set_defaults(run=_diff)

    snapshots = commands.add_parser("snapshots", help="list the snapshots of a store")
    common.add_store(snapshots)
    common.add_trust(snapshots)
    snapshots.set_defaults(run=_snapshots)


def _add_ensemble(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    parser.add_argument(
        "--connect",
        metavar="HOST:PORT,.../CHROOT",
        type=_connect,
        required=True,
        help="the ensemble, as in zookeeper.connect of the brokers; default port 2181",
    )
    parser.add_argument(
        "--command-config", metavar="FILE", help="Kafka client properties with TLS settings; SASL is refused"
    )


def _connect(text: str) -> str:
    """Return `host:port,host:port/chroot` with all ports, for argparse's `type`."""
    servers, slash, chroot = text.rstrip("/").partition("/")
    if slash:
        _znode("/" + chroot)
    named = [server if re.search(r":\d+$", server) else f"{server}:{PORT}" for server in servers.split(",")]
    try:
        return selection.servers(",".join(named)) + slash + chroot
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an ensemble; write HOST:PORT,HOST:PORT/CHROOT"
        ) from None


def _znode(text: str) -> str:
    """Check a znode's path, for argparse's `type`."""
    from aqueduct.recovery.zookeeper.znodes import is_path

    if not is_path(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the path of a znode; write /a/b")
    return text


def _backup(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.recovery.zookeeper import snapshots
        from aqueduct.recovery.zookeeper.backup import backup

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    kept = backup(_ensemble(args), args.store, args.keep, common.trust(args), common.signing_key(args))
    whole = kept.snapshot.complete and not kept.not_removed and not kept.less
    code = ExitCode.DONE if whole else ExitCode.INCOMPLETE
    print("\n".join(_told(kept.snapshot)))
    if kept.less:
        print(f"FAR LESS than before: {kept.less}. Check whether the others were deleted on purpose.")
    if kept.removed:
        print(f"Removed: {count(len(kept.removed), 'older snapshot')}, {some(kept.removed)}.")
    if kept.not_removed:
        print(f"Older snapshots stay: {kept.not_removed}.")
    content = {"removed": list(kept.removed), "not_removed": kept.not_removed, "less": kept.less}
    _report(args, "backup", code, started, snapshots.report_fields(kept.snapshot) | content)
    return code


def _told(snapshot: "ZnodeSnapshot") -> list[str]:
    of = f"cluster {snapshot.cluster}" if snapshot.cluster else "no Kafka cluster"
    when = (
        f"as they were at zxid {snapshot.zxid:#x}"
        if not snapshot.moving
        else "NOT consistent: some znodes changed meanwhile"
    )
    lines = [
        f"Snapshot {snapshot.number} of {snapshot.connect} ({of}): {count(len(snapshot.znodes), 'znode')}, "
        f"{snapshot.bytes:,} bytes, {when}."
    ]
    if snapshot.ephemeral:
        number = count(len(snapshot.ephemeral), "ephemeral znode")
        lines.append(f"Not kept, because they are ephemeral: {number}, {some(snapshot.ephemeral)}.")
    if snapshot.counters:
        lines.append(
            "After a restore, ZooKeeper numbers sequential children from 0 again, below "
            f"{some(snapshot.counters)}."
        )
    lines += [f"NOT kept: {path}: {reason}." for path, reason in snapshot.left_out]
    if snapshot.moving:
        lines.append(
            f"NOT consistent, because they changed while they were read: {some(snapshot.moving)}. "
            "Run the command again."
        )
    return lines


def _restore(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.recovery.zookeeper import topics
        from aqueduct.recovery.zookeeper.restore import ZnodeOrder, data, restore
        from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshots
        from aqueduct.store.backends import open_store

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    kept = ZnodeSnapshots.open(open_store(args.store), common.trust(args))
    snapshot = kept.read(args.snapshot, args.at_least)
    order = ZnodeOrder(
        snapshot=snapshot,
        ensemble=_ensemble(args),
        prefix=args.prefix.rstrip("/"),
        overwrite=tuple(args.overwrite),
        dry_run=args.dry_run,
    )
    fits = True
    if args.inspection or args.lost:
        data_by_path = data(order.target, topics.correctable_znodes(snapshot))
        fit, fitted = topics.correct_snapshot(
            snapshot, repair.hosts(args.inspection), args.lost, data_by_path
        )
        for sentence in filter(None, (*sentences(fit, topics.FATE), topics.kept_deletions(snapshot, fitted))):
            print(sentence)
        repair.all_seen(fit)
        if stale := sorted(
            path for path, before in data_by_path.items() if fitted.znodes[path].data != before
        ):
            written = "would be" if args.dry_run else "are"
            print(f"Existing znodes {written} overwritten to match the logs: {some(stale)}.")
        order = replace(order, snapshot=fitted, overwrite=(*order.overwrite, *stale))
        fits = not fit.differs
    outcome = restore(order)
    whole = snapshot.complete and fits and not outcome.left and not outcome.failed
    code = ExitCode.DONE if whole else ExitCode.INCOMPLETE
    print(_restored(args, snapshot, outcome))
    if not (args.inspection or args.lost) and any(map(topics.is_state, (*outcome.created, *outcome.missing))):
        print(UNSEEN)
    if outcome.stopped:
        print(f"aqueduct: {outcome.stopped.labelled}", file=sys.stderr)
        code = ExitCode.FAILED
    content = {
        "snapshot": snapshot.number,
        "dry_run": args.dry_run,
        "there": outcome.there,
        "missing": outcome.missing,
        "created": outcome.created,
        "overwritten": outcome.overwritten,
        "left": _listed(outcome.left),
        "failed": _listed(outcome.failed),
    }
    _report(args, "restore", code, started, content)
    return code


def _restored(args: argparse.Namespace, snapshot: "ZnodeSnapshot", znodes: "Restored") -> str:
    where = args.connect + args.prefix.rstrip("/")
    if args.dry_run:
        which = f" ({some(znodes.missing)})" if znodes.missing else ""
        missing = count(len(znodes.missing), "znode")
        lines = [
            f"Snapshot {snapshot.number} would create {missing} at {where}{which}, "
            f"and overwrite {len(znodes.overwritten):,}; {znodes.there:,} are equal."
        ]
    else:
        lines = [
            f"Snapshot {snapshot.number} at {where}: {count(len(znodes.created), 'znode')} created, "
            f"{len(znodes.overwritten):,} overwritten, {znodes.there:,} were equal before."
        ]
    if znodes.left:
        lines += [f"NOT changed, because it differs: {path}: {mismatch}." for path, mismatch in znodes.left]
        lines.append("To replace the data and the ACL of such a znode, pass --overwrite /PATH.")
    lines += [f"NOT restored: {path}: {reason}." for path, reason in znodes.failed]
    lines += [f"NOT in the snapshot: {path}: {reason}." for path, reason in snapshot.left_out]
    if snapshot.moving:
        lines.append(
            f"NOT consistent in the snapshot, because they changed meanwhile: {some(snapshot.moving)}."
        )
    return "\n".join(lines)


def _diff(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.recovery.zookeeper.restore import difference
        from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshots
        from aqueduct.store.backends import open_store

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    kept = ZnodeSnapshots.open(open_store(args.store), common.trust(args))
    snapshot = kept.read(args.snapshot, args.at_least)
    tree_difference = difference(snapshot, _ensemble(args))
    code = ExitCode.INCOMPLETE if tree_difference else ExitCode.DONE
    print(_differs(args, snapshot, tree_difference))
    content = {
        "missing": list(tree_difference.missing),
        "changed": _listed(tree_difference.changed),
        "added": list(tree_difference.added),
    }
    content["not_compared"] = _listed(tree_difference.unread)
    _report(args, "diff", code, started, {"snapshot": snapshot.number, **content})
    return code


def _differs(args: argparse.Namespace, snapshot: "ZnodeSnapshot", paths: "TreeDifference") -> str:
    if not paths:
        return (
            f"{args.connect} is equal to snapshot {snapshot.number}: {count(len(snapshot.znodes), 'znode')}."
        )
    return "\n".join(
        [
            f"{args.connect} is NOT equal to snapshot {snapshot.number}: {len(paths.missing):,} missing, "
            f"{len(paths.changed):,} changed, {len(paths.added):,} added, "
            f"{len(paths.unread):,} not compared.",
            *(f"- {path}" for path in paths.missing),
            *(f"~ {path} ({change})" for path, change in paths.changed),
            *(f"+ {path}" for path in paths.added),
            *(f"? {path} ({reason})" for path, reason in paths.unread),
        ]
    )


def _snapshots(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshots
        from aqueduct.store.backends import open_store

    kept = ZnodeSnapshots.open(open_store(args.store), common.trust(args))
    code = ExitCode.DONE
    row = "{:>10}  {:<24}  {:>10}  {:>15}  {:>9}  {:>8}  {}"
    print(row.format("id", "created", "znodes", "bytes", "ephemeral", "not kept", "cluster"))
    for snapshot in kept.all():
        if isinstance(snapshot, Failed):
            print(f"aqueduct: {snapshot.labelled}", file=sys.stderr)
            code = ExitCode.FAILED
            continue
        figures = (
            f"{len(snapshot.znodes):,}",
            f"{snapshot.bytes:,}",
            f"{len(snapshot.ephemeral):,}",
            len(snapshot.left_out),
        )
        print(
            row.format(snapshot.number, timestamps.text(snapshot.created), *figures, snapshot.cluster or "-")
        )
    return code


def _ensemble(args: argparse.Namespace) -> "Ensemble":
    from aqueduct.recovery.zookeeper.client import Ensemble

    config = client_config.load(args.command_config)
    if config.login:
        raise Refused(
            "client-config-invalid",
            f"{args.command_config} has a SASL login. Use client properties with a certificate for "
            "ZooKeeper.",
        )
    return Ensemble(args.connect, config)


def _listed(paths: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "what": note} for path, note in paths]


def _report(
    args: argparse.Namespace, command: str, code: ExitCode, started: datetime, content: dict[str, Any]
) -> None:
    if report_file.is_requested(args):
        report_file.deliver(args, f"zookeeper {command}", code, started, content)
