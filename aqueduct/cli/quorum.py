"""Back up the metadata of a KRaft cluster, and form a new quorum if all controllers have lost their disks.

backup adds a snapshot of a node's metadata to a store: topics, partitions, settings, ACLs, users, quotas
and voters, up to the last record. The node can be a controller, or a broker, which has a copy. snapshots
lists the snapshots of a store.

The other commands form a new quorum, if no controller has its disk any more and the brokers have theirs:

copy prints the metadata of a broker.

plan takes the newest metadata among these copies and the snapshots of a store. It compares them with the
output of `aqueduct repair inspect` of all brokers, and lists what will differ from before. --seed writes
the seed, which is the metadata with which the new controllers start. --keep-plan stores the plan; a later
--read-plan refuses a plan with other metadata or more losses than the stored one.

restore writes the seed to the data directory of a controller. It is refused if the directory has other
metadata or belongs to another cluster.

set-aside moves the old metadata of a stopped broker away, so that the broker follows the new controllers.

Run restore and set-aside as the user of the node. Root is refused in a directory of another user.

check compares the topics, their ids, their partitions and the ends of their logs with the plan.

playbooks/restore_quorum.yml runs these commands in the right order.

Exit codes:
  0  done
  1  failed; of snapshots: a snapshot is damaged
  2  refused; nothing was changed
  3  backup: done, but the metadata of the node are old, or have far fewer topics than before, or older
     snapshots could not be removed
     plan: something will differ from before; the output lists it
     check: something is missing; the output lists it
"""

import argparse
import base64
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common, duration, repair, report_file
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common import strict_json, timestamps
from aqueduct.common.whole_files import write_whole
from aqueduct.common.wording import count, some
from aqueduct.errors import AqueductError, ExitCode, Failed, Refused, labelled
from aqueduct.kafka import client_config
from aqueduct.kafka.client import connect
from aqueduct.recovery import read_plan
from aqueduct.recovery.quorum import agreement, check, metadata, plan, seed, snapshots
from aqueduct.recovery.quorum.snapshots import QuorumSnapshot, QuorumSnapshots

if TYPE_CHECKING:
    from aqueduct.store.numbered_snapshots import Kept

SEED = "seed that `aqueduct quorum plan` wrote"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    _add_backup(commands)

    listed = commands.add_parser("snapshots", help="list the snapshots of a store")
    common.add_store(listed)
    common.add_trust(listed)
    listed.set_defaults(run=_snapshots)

    copy = commands.add_parser("copy", help="print the metadata of a node, which contain users' credentials")
    _add_folder(copy)
    copy.set_defaults(run=_copy)

    _add_plan(commands)

    _add_restore(commands)

    checked = commands.add_parser("check", help="compare the running brokers with the plan")
    common.add_cluster(checked)
    repair.add_inspections(checked)
    repair.add_lost(checked)
    checked.add_argument("--seed", metavar="FILE", type=Path, required=True, help=SEED)
    checked.set_defaults(run=_check)

    aside = commands.add_parser("set-aside", help="move the old metadata of a stopped broker out of the way")
    _add_folder(aside)
    aside.add_argument(
        "--broker-only",
        action="store_true",
        help="process.roles of the node is only broker: move the metadata even if they do not show that",
    )
    aside.set_defaults(run=_set_aside)


def _add_backup(commands: Any) -> None:
    """Add the command that backs up the metadata of a node."""
    backup = commands.add_parser("backup", help="add a snapshot of a node's metadata to a store")
    _add_folder(backup)
    common.add_store(backup)
    common.add_keep_newest(backup)
    backup.add_argument(
        "--within",
        metavar="D",
        type=duration.parse,
        default=15 * 60,
        help="exit with 3 if the newest record of the metadata is older; default 15m. 0s: accept any age, "
        "for controllers with metadata.max.idle.interval.ms=0, which write nothing while nothing changes",
    )
    common.add_trust(backup)
    common.add_signing_key(backup)
    report_file.add_arguments(backup)
    backup.set_defaults(run=_backup)


def _add_plan(commands: Any) -> None:
    """Add the command that plans a new quorum."""
    planned = commands.add_parser("plan", help="show what a new quorum will contain, and write its seed")
    planned.add_argument("--store", metavar="URL", help="store of `aqueduct quorum backup`")
    common.add_snapshot(planned, "quorum snapshots")
    common.add_at_least(planned)
    common.add_trust(planned)
    planned.add_argument(
        "--copy",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="output of `aqueduct quorum copy` on a broker; repeat for each broker",
    )
    repair.add_inspections(planned)
    repair.add_lost(planned)
    planned.add_argument("--seed", metavar="FILE", type=report_file.file, help="write the seed for restore")
    planned.add_argument(
        "--keep-plan", metavar="FILE", type=report_file.file, help="store this plan, for a later --read-plan"
    )
    planned.add_argument(
        "--read-plan",
        metavar="FILE",
        type=Path,
        help="refuse a plan with other metadata or more losses than the one that --keep-plan stored",
    )
    planned.set_defaults(run=_plan)


def _add_restore(commands: Any) -> None:
    """Add the command that writes the seed of a new quorum."""
    restore = commands.add_parser("restore", help="write the seed to the data directory of a controller")
    _add_folder(restore)
    restore.add_argument("--seed", metavar="FILE", type=Path, required=True, help=SEED)
    restore.add_argument(
        "--node-id", metavar="N", type=repair.NODE_ID, required=True, help="id of the controller"
    )
    restore.add_argument(
        "--dry-run", action="store_true", help="check whether restore is possible; write nothing"
    )
    restore.set_defaults(run=_restore)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-folder",
        metavar="FOLDER",
        type=Path,
        required=True,
        help="directory with the node's metadata: metadata.log.dir, or the first of log.dirs",
    )


def _backup(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.store.backends import open_editable
        from aqueduct.store.numbered_snapshots import keep_snapshot

    report_file.outside(args.report, args.store)
    started = datetime.now(UTC)
    snapshot = snapshots.snapshot_of(metadata.read(args.data_folder))
    objects = open_editable(args.store, private=True)
    kept = keep_snapshot(
        QuorumSnapshots, objects, snapshot, args.keep, common.trust(args), common.signing_key(args)
    )
    stale = snapshots.staleness_warning(kept.snapshot, args.within)
    code = ExitCode.INCOMPLETE if kept.not_removed or kept.less or stale else ExitCode.DONE
    print(_told(kept))
    for warning in filter(None, (_less(kept.less), stale)):
        print(f"Warning: {warning}")
    if report_file.is_requested(args):
        content = {
            "snapshot": kept.snapshot.number,
            "cluster": kept.snapshot.cluster,
            "node": snapshot.metadata.node,
            "offset": snapshot.metadata.end,
            "epoch": snapshot.metadata.end_epoch,
            "topics": len(snapshot.metadata.image.topics),
            "removed": list(kept.removed),
            "not_removed": kept.not_removed,
            "less": kept.less,
            "stale": stale,
        }
        report_file.deliver(args, "quorum backup", code, started, content)
    return code


def _less(less: str) -> str:
    """Return the warning that a snapshot has far fewer topics than the one before; empty if not."""
    if not less:
        return ""
    return labelled(
        "snapshot-far-less",
        f"FAR LESS than before: {less}. Check whether the topics were deleted on purpose.",
    )


def _told(kept: "Kept[QuorumSnapshot]") -> str:
    of = kept.snapshot.metadata
    lines = [
        f"Snapshot {kept.snapshot.number} of cluster {of.cluster}, by node {of.node}: "
        f"{count(len(of.image.topics), 'topic')}, as they were at {timestamps.text(of.time)} (offset "
        f"{of.end:,} of epoch {of.end_epoch})."
    ]
    if kept.removed:
        lines.append(f"Removed: {count(len(kept.removed), 'older snapshot')}, {some(kept.removed)}.")
    if kept.not_removed:
        lines.append(f"Older snapshots stay: {kept.not_removed}.")
    return "\n".join(lines)


def _snapshots(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.store.backends import open_store

    kept = QuorumSnapshots.open(open_store(args.store), common.trust(args))
    code = ExitCode.DONE
    row = "{:>10}  {:<24}  {:<24}  {:>4}  {:>12}  {:>6}  {:>8}  {}"
    print(row.format("id", "created", "as it was at", "node", "offset", "epoch", "topics", "cluster"))
    for snapshot in kept.all():
        if isinstance(snapshot, Failed):
            print(f"aqueduct: {snapshot.labelled}", file=sys.stderr)
            code = ExitCode.FAILED
            continue
        of = snapshot.metadata
        times = timestamps.text(snapshot.created), timestamps.text(of.time)
        figures = of.node, f"{of.end:,}", of.end_epoch, f"{len(of.image.topics):,}"
        print(row.format(snapshot.number, *times, *figures, of.cluster))
    return code


def _copy(args: argparse.Namespace) -> int:
    packed = snapshots.encode(snapshots.snapshot_of(metadata.read(args.data_folder)))
    print(base64.b64encode(packed).decode())
    return ExitCode.DONE


def _plan(args: argparse.Namespace) -> int:
    sources = [*_sources(args)]
    if not sources:
        raise Refused("option-required", "A plan needs metadata: pass --store, --copy, or both.")
    clusters = {candidate.cluster for _, candidate in sources}
    if len(clusters) > 1:
        raise Refused(
            "quorum-clusters-differ",
            f"The store and the copies are of {len(clusters)} clusters: {some(sorted(clusters))}. Pass those "
            "of one cluster. Nothing was done.",
        )
    name, newest = max(sources, key=lambda candidate: candidate[1].epoch_and_end)
    if args.copy and args.snapshot is None and name.startswith("snapshot "):
        raise Refused(
            "quorum-copies-behind",
            f"S{name[1:]} is newer than the copy of every broker, though brokers follow within seconds. To "
            "use it all the same, pass --snapshot. Nothing was done.",
        )
    quorum_plan = plan.plan(newest, repair.hosts(args.inspection), args.lost)
    print(f"Used: {name}, the newest of {len(sources)}: {some(source for source, _ in sources)}.")
    lines = plan.sentences(quorum_plan)
    print("\n".join(lines))
    if args.read_plan:
        _compare(args.read_plan, quorum_plan)
    if args.keep_plan:
        _write(args.keep_plan, strict_json.dumps(agreement.read_plan(quorum_plan)).decode())
    if args.seed:
        repair.all_seen(quorum_plan.comparison)
        _write(
            args.seed, base64.b64encode(snapshots.encode(snapshots.snapshot_of(quorum_plan.seed()))).decode()
        )
    return ExitCode.INCOMPLETE if quorum_plan.comparison.differs else ExitCode.DONE


def _compare(path: Path, quorum_plan: plan.QuorumPlan) -> None:
    """Refuse a plan that is not the one that was read; a file that does not exist is reported alone."""
    read = read_plan.load(agreement.ReadPlan, path, unreadable=agreement.QuorumPlanUnreadable)
    if read:
        read_plan.refuse(agreement.changes(read, quorum_plan), changed=agreement.QuorumPlanChanged)


def _write(path: Path, text: str) -> None:
    """Write a file that its owner alone may read."""
    try:
        write_whole(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        raise Failed("file-unwritable", f"Cannot write {path}: {error.strerror}.") from None


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, metadata.Metadata]]:
    """Yield all metadata that were named, each with its name; Refused where none of a store is there."""
    for path in args.copy:
        copied = _packed(path, "copy")
        yield f"the copy of node {copied.node} (offset {copied.end:,})", copied
    if args.store:
        with spark_packages():
            from aqueduct.store.backends import open_store

        try:
            stored = QuorumSnapshots.open(open_store(args.store), common.trust(args))
            snapshot = stored.read(args.snapshot, args.at_least)
        except AqueductError as error:
            if args.snapshot is not None or not args.copy:
                raise
            print(f"No backup is used: {error.labelled}")
            return
        yield f"snapshot {snapshot.number} (offset {snapshot.metadata.end:,})", snapshot.metadata


def _restore(args: argparse.Namespace) -> int:
    begun = _seed(args.seed)
    if args.dry_run:
        has_already = seed.check_folder(args.data_folder, args.node_id, begun)
        print(f"{args.data_folder} {'has them already' if has_already else 'can take them'}.")
        return ExitCode.DONE
    is_written = seed.write_seed(args.data_folder, args.node_id, begun)
    verb = "begins with" if is_written else "had already"
    print(
        f"Controller {args.node_id} {verb} the metadata of cluster {begun.cluster} up to offset "
        f"{begun.end:,}, in {args.data_folder}."
    )
    return ExitCode.DONE


def _check(args: argparse.Namespace) -> int:
    promised = plan.plan(_seed(args.seed), repair.hosts(args.inspection), args.lost)
    end = client_config.end("cluster", args.bootstrap_server, args.command_config)
    with connect(end, "aqueduct-quorum") as client:
        left = check.check(client, promised)
    for sentence in left:
        print(sentence)
    if not left:
        topics = promised.metadata.image.topics.values()
        partitions = sum(len(topic.partitions) for topic in topics)
        print(
            f"{count(len(topics), 'topic')} with the ids that they had, and {count(partitions, 'partition')} "
            "with all that was committed."
        )
        if silent := sorted(
            partition for partition, offset in promised.comparison.committed.items() if not offset
        ):
            print(f"No disk shows for {count(len(silent), 'partition')} what was committed: {some(silent)}.")
    return ExitCode.INCOMPLETE if left else ExitCode.DONE


def _set_aside(args: argparse.Namespace) -> int:
    to = seed.set_aside(args.data_folder, broker_only=args.broker_only)
    print(f"The old metadata are in {to}." if to else f"{args.data_folder} has none.")
    return ExitCode.DONE


def _seed(path: Path) -> metadata.Metadata:
    seed_metadata = _packed(path, "plan --seed")
    if not plan.is_seed(seed_metadata):
        raise Refused(
            "file-content-invalid",
            f"{path} has metadata, but is not a file of `aqueduct quorum plan --seed`: it lacks which logs "
            "go further. Nothing was done.",
        )
    return seed_metadata


def _packed(path: Path, by: str) -> metadata.Metadata:
    try:
        packed = base64.b64decode(path.read_text(encoding="ascii").strip(), validate=True)
        return snapshots.decode(packed).metadata
    except OSError as error:
        raise Refused("file-unreadable", f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            "file-content-invalid",
            f"{path} is damaged, or is not a file of `aqueduct quorum {by}` ({error}).",
        ) from None
