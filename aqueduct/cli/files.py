"""Back up folders of files, such as configuration and keys, as incremental, dated copies; restore them.

backup copies one folder of this host, or of another host over SSH, with rsync. Each backup is a complete
tree; unchanged files are hard links to the newest complete backup. An incomplete backup is removed. With
--keep-* options, backups that no rule keeps are removed, if all files of the new one could be read. The SSH
key must be restricted to reading the folder: command="rrsync -ro /FOLDER",restrict in authorized_keys.
backup is refused:
  - if the SSH key has more rights, or is for another folder than --source
  - if the folder contains the data of a Kafka node that may be running
  - if the newest backup of the name is of another source (see --source-moved)

list shows the backups. du shows the additional disk space of each. verify compares all files with the
checksums of the backup, and lists files that could not be backed up. A hard link that was edited in place
is damaged in each backup that contains it.

restore verifies a backup, writes it or some of its paths to a folder of this host, and compares the result.
Without --overwrite, it is refused if existing files differ, or existing folders have another mode or owner.
It never changes the folder of --to itself, or folders above a --path, if they exist.

prune removes backups that no --keep-* option keeps, and incomplete ones. Without --execute, it only lists
them. It first checks the backups that stay, without reading the content of files. If one is unusable,
nothing is removed.

list, du, verify and restore also work on a read-only disk. Run backup and prune as the owner of the backups;
root is refused in a folder of another user.

Exit codes:
  0  done
  1  failed; of list, verify and prune: a backup is damaged
  2  refused; nothing was changed
  3  backup: some files could not be read, or older backups could not be removed
     verify: a name has no complete backup
     restore: done, but some files are missing in the backup, could not be compared, or have other owners,
       which only root can set
"""

import argparse
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common, report_file, selection
from aqueduct.common import timestamps
from aqueduct.common.folder_owners import refuse_root_beside_others
from aqueduct.common.wording import count, shown, some
from aqueduct.errors import AqueductError, ExitCode, Failed, Refused
from aqueduct.recovery.file_backup import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
    from aqueduct.recovery.file_backup.verify import FilesVerified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_backup(commands)

    list_ = _add(commands, "list", "list backups", _list)
    _add_name(list_)
    list_.add_argument("--json", action="store_true", help="print JSON")

    _add_name(_add(commands, "du", "show the additional disk space of each backup", _du))

    verify = _add(commands, "verify", "compare backups with their checksums", _verify)
    _add_name(verify)
    _add_at(verify, "default: all backups")
    report_file.add_arguments(verify)

    _add_restore(commands)

    prune = _add(commands, "prune", "remove old backups", _prune)
    _add_name(prune)
    common.add_keep(prune, "backup")
    prune.add_argument("--execute", action="store_true", help="remove them; default: only list them")
    report_file.add_arguments(prune)


def _add_backup(commands: Any) -> None:
    """Add the command that backs up a folder."""
    backup = _add(commands, "backup", "add a backup of a folder", _backup)
    _add_name(backup, required=True)
    backup.add_argument(
        "--source", metavar="[USER@HOST:]/FOLDER", type=_source, required=True, help="folder to back up"
    )
    backup.add_argument(
        "--ssh-key",
        metavar="FILE",
        type=_file,
        help="private SSH key that can read the folder and nothing else",
    )
    backup.add_argument(
        "--known-hosts",
        metavar="FILE",
        type=_file,
        help="known_hosts file of SSH with the host's key; default: that of the user",
    )
    backup.add_argument(
        "--ssh-port",
        metavar="N",
        type=selection.whole(1, selection.PORTS[-1]),
        default=22,
        help="SSH port; default 22",
    )
    backup.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        default=[],
        help="skip files that match this rsync pattern; may be repeated",
    )
    backup.add_argument("--xattrs", action="store_true", help="also back up extended attributes and ACLs")
    backup.add_argument(
        "--checksum",
        action="store_true",
        help="detect changed files by content; default: by size and time, which is faster",
    )
    backup.add_argument(
        "--allow-empty", action="store_true", help="accept a source that has no files any more"
    )
    backup.add_argument(
        "--source-moved",
        action="store_true",
        help="continue the backups of NAME, although they are of another host or folder",
    )
    common.add_keep(backup, "backup")
    report_file.add_arguments(backup)


def _add_restore(commands: Any) -> None:
    """Add the command that writes files of a backup to a folder."""
    restore = _add(commands, "restore", "write files of a backup to a folder", _restore)
    _add_name(restore, required=True)
    _add_at(restore, "default: the newest backup")
    restore.add_argument(
        "--path",
        metavar="PATH",
        action="append",
        default=[],
        help="file or folder to restore, relative to the source; may be repeated; default: all",
    )
    restore.add_argument(
        "--to",
        metavar="FOLDER",
        type=_here,
        required=True,
        help="target folder; it is created if it is missing",
    )
    restore.add_argument(
        "--overwrite",
        action="store_true",
        help="replace files that differ, and set mode and owner of existing folders",
    )
    restore.add_argument("--dry-run", action="store_true", help="show what would be written; write nothing")
    report_file.add_arguments(restore)


def _add(commands: Any, name: str, help_: str, run: Any) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=help_)
    command.add_argument(
        "--backups", metavar="FOLDER", type=_here, required=True, help="folder of the backups, on this host"
    )
    command.set_defaults(run=run)
    return command


def _add_name(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    help_ = "name of the backups of one source" + ("" if required else "; default: all")
    parser.add_argument("--name", metavar="NAME", type=_name, required=required, help=help_)


def _add_at(parser: argparse.ArgumentParser, default: str) -> None:
    help_ = f"use the newest backup of this day or time, or before; {default}"
    parser.add_argument("--at", metavar="TIME", type=_until, help=help_)


def _name(text: str) -> str:
    if not plan.NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name; write up to 100 letters, digits, '.', '_' and '-'"
        )
    return text


def _here(text: str) -> Path:
    """Parse a folder of this host. rsync takes relative ones from elsewhere, and `a:b` for a host's."""
    if re.match("[^/]*:", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is another host's; name a folder of this one, as ./{text} if it is called so"
        )
    return Path(text).absolute()


def _file(text: str) -> Path:
    """Parse a file of this host; rsync and ssh run in another folder."""
    return Path(text).absolute()


def _source(text: str) -> plan.FileSource:
    try:
        return plan.source(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; write {error}") from None


def _until(text: str) -> int:
    try:
        return plan.end_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write {error}") from None


def _backup(args: argparse.Namespace) -> int:
    from aqueduct.recovery.file_backup.backup import FileBackupOrder, backup
    from aqueduct.recovery.file_backup.folder import head
    from aqueduct.recovery.file_backup.rsync import SshOptions

    _outside(args)
    started = datetime.now(UTC)
    refuse_root_beside_others(args.backups / args.name, "files backup")
    for file in filter(None, (args.ssh_key, args.known_hosts)):
        if not file.is_file():
            raise Refused(
                "file-unreadable",
                f"{file} does not exist. Pass files of this host as --ssh-key and --known-hosts.",
            )
    made = backup(
        FileBackupOrder(
            backups=args.backups,
            name=args.name,
            source=args.source,
            ssh=SshOptions(args.ssh_key, args.known_hosts, args.ssh_port),
            excludes=tuple(args.exclude),
            with_attributes=args.xattrs,
            by_content=args.checksum,
            may_be_empty=args.allow_empty,
            source_moved=args.source_moved,
        ),
        timestamps.now(),
    )
    removed, stay = _kept(args, made)
    code = ExitCode.INCOMPLETE if made.left_out or stay else ExitCode.DONE
    print(
        f"Backup {made.date} of {shown(made.source)}: {count(made.files, 'file')}, {made.bytes:,} bytes; "
        f"{made.new_files:,} of them ({made.new_bytes:,} bytes) are new"
        + (
            ", for it is the first."
            if not made.base
            else f", the others are shared with {made.base}."
            if made.new_files < made.files
            else "."
        )
    )
    for path, reason in made.left_out:
        print(f"NOT in it: {shown(path)}: {reason}.")
    if removed:
        print(f"Removed: {count(len(removed), 'older backup')}, {some(removed)}.")
    if stay:
        print(f"Older backups were not removed: {stay}")
    content = {"date": made.date} | head(made) | {"removed": list(removed), "not_removed": stay}
    _report(args, "backup", code, started, content)
    return code


def _kept(args: argparse.Namespace, made: "FileSnapshot") -> tuple[tuple[str, ...], str]:
    """Remove what no rule keeps; return the dates, and why nothing was removed where something should be."""
    from aqueduct.recovery.file_backup.folder import BackupsOf
    from aqueduct.recovery.file_backup.prune import prune

    keep = common.kept(args)
    if keep is None:
        return (), ""
    if made.left_out:
        return (), "the new backup is incomplete."
    try:
        return prune(BackupsOf(args.backups / args.name), keep, execute=True).go, ""
    except AqueductError as error:
        return (), error.labelled


def _list(args: argparse.Namespace) -> int:
    faults: list[str] = []
    rows = list(_listed(args, faults))
    if args.json:
        from aqueduct.recovery.file_backup.folder import head

        print(json.dumps([{"name": name, "date": made.date} | head(made) for name, made in rows], indent=2))
        return _told(faults)
    row = "{:<24}  {:<18}  {:>10}  {:>17}  {:>10}  {:>17}  {:>8}"
    print(row.format("name", "date", "files", "bytes", "new files", "new bytes", "not in it"))
    for name, made in rows:
        figures = (f"{figure:,}" for figure in (made.files, made.bytes, made.new_files, made.new_bytes))
        print(row.format(name, made.date, *figures, len(made.left_out)))
    return _told(faults)


def _told(faults: list[str]) -> ExitCode:
    for fault in faults:
        print(f"aqueduct: {fault}", file=sys.stderr)
    return ExitCode.FAILED if faults else ExitCode.DONE


def _listed(args: argparse.Namespace, faults: list[str]) -> "Iterator[tuple[str, FileSnapshot]]":
    """Yield backups by names; add what can't be read to the faults."""
    for own in _opened(args):
        try:
            dates = own.dates()
        except Failed as error:
            faults.append(error.labelled)
            continue
        for date in dates:
            try:
                yield own.name, own.snapshot(date)
            except Failed as error:
                faults.append(error.labelled)
        if not args.json and (half := own.incomplete()):
            print(f"{own.path}: {count(len(half), 'backup')} that {_is(half)} not complete.", file=sys.stderr)


def _is(things: list[Any]) -> str:
    return "is" if len(things) == 1 else "are"


def _du(args: argparse.Namespace) -> int:
    from aqueduct.recovery.file_backup.rsync import sizes

    row = "{:<24}  {:<18}  {:>19}  {:>19}"
    print(row.format("name", "date", "new bytes on disk", "bytes of the tree"))
    for own in _opened(args):
        folders = [own.path / date for date in own.dates()]
        # du tells each inode once, where it comes first.
        for folder, new in zip(folders, sizes(folders), strict=True):
            print(row.format(own.name, folder.name, f"{new:,}", f"{sizes([folder])[0]:,}"))
        print(row.format(own.name, "all", f"{sizes([own.path])[0]:,}", ""))
    return ExitCode.DONE


def _verify(args: argparse.Namespace) -> int:
    from aqueduct.recovery.file_backup.verify import FilesVerified, verify

    _outside(args)
    started = datetime.now(UTC)
    verified = []
    for own in _opened(args):
        try:
            verified.append(verify(own, own.dates() if args.at is None else [_at(own, args.at)]))
        except Failed as error:
            verified.append(
                FilesVerified(
                    name=own.name, backups=0, files=0, bytes=0, damage=(), unusable=(error.labelled,)
                )
            )
    bad = any(outcome.damage or outcome.unusable for outcome in verified)
    for outcome in verified:
        print(_verified(outcome))
    none = any(not outcome.backups for outcome in verified)
    code = ExitCode.FAILED if bad else ExitCode.INCOMPLETE if none else ExitCode.DONE
    content = [
        {
            "name": outcome.name,
            "backups": outcome.backups,
            "files": outcome.files,
            "damage": [vars(one) | {"dates": list(one.dates)} for one in outcome.damage],
            "unusable": list(outcome.unusable),
            "left_out": [list(one) for one in outcome.left_out],
        }
        for outcome in verified
    ]
    _report(args, "verify", code, started, {"names": content})
    return code


def _verified(outcome: "FilesVerified") -> str:
    if not outcome.backups and not outcome.unusable:
        return f"{outcome.name}: NO complete backup exists."
    lines = [f"{outcome.name}: {reason}" for reason in outcome.unusable]
    lines += [
        f"{outcome.name}: {shown(damage.path)}: {damage.what}; in {', '.join(damage.dates)}."
        for damage in outcome.damage
    ]
    figures = (
        f"{count(outcome.backups, 'backup')}, {count(outcome.files, 'file')}, {outcome.bytes:,} bytes read"
    )
    if lines:
        lines.append(
            f"{outcome.name} is DAMAGED: {figures}. Where the source still has these files, `aqueduct files "
            "backup --checksum` backs them up again."
        )
    else:
        lines.append(f"{outcome.name}: {figures}: all files are as they were backed up.")
    lines += [
        f"{outcome.name}: NOT in {date}: {shown(path)}: {reason}." for date, path, reason in outcome.left_out
    ]
    return "\n".join(lines)


def _restore(args: argparse.Namespace) -> int:
    from aqueduct.recovery.file_backup.restore import FileRestoreOrder, restore

    _outside(args)
    started = datetime.now(UTC)
    [own] = _opened(args)
    order = FileRestoreOrder(
        backups=own,
        date=_at(own, args.at),
        target=args.to,
        paths=tuple(args.path),
        overwrite=args.overwrite,
        dry_run=args.dry_run,
    )
    tree = restore(order)
    lacks = tree.left_out or tree.unread or (tree.without_owners and not args.dry_run)
    code = ExitCode.INCOMPLETE if lacks else ExitCode.DONE
    date, figures = tree.snapshot.date, f"{count(tree.files, 'file')}, {tree.bytes:,} bytes"
    source, but = shown(tree.snapshot.source), ", except for the items below" if lacks else ""
    over = f", {len(tree.overwritten):,} of them replaced existing files" if tree.overwritten else ""
    if tree.changed_folders:
        over += f"; {count(len(tree.changed_folders), 'folder')} had another mode or owner"
    if args.dry_run:
        print(f"Backup {date} of {source} would go to {args.to}: {figures}{over}.")
    else:
        print(f"Backup {date} of {source} is at {args.to} as it was{but}: {figures}{over}.")
    if tree.without_owners:
        print(
            f"{tree.without_owners:,} files and folders do NOT have their former owners, which only root can "
            "set."
        )
    if tree.top:
        print(f"{args.to} itself existed, and was not changed: it has {tree.top} than in the backup.")
    if tree.unread:
        print(
            f"NOT compared, because only root can read them: {some(map(shown, tree.unread))}. They "
            "are written."
        )
    for path, reason in tree.left_out:
        print(f"NOT in the backup: {shown(path)}: {reason}.")
    content = {
        "date": date,
        "files": tree.files,
        "bytes": tree.bytes,
        "overwritten": list(tree.overwritten),
    }
    content["left_out"] = [list(skipped) for skipped in tree.left_out]
    content |= {"changed_folders": list(tree.changed_folders), "unread": list(tree.unread)}
    _report(
        args,
        "restore",
        code,
        started,
        content | {"dry_run": args.dry_run, "without_owners": tree.without_owners},
    )
    return code


def _prune(args: argparse.Namespace) -> int:
    from aqueduct.recovery.file_backup.prune import prune

    _outside(args)
    started = datetime.now(UTC)
    keep = common.keep(args, "files prune")
    opened_names = _opened(args)
    if args.execute:
        for own in opened_names:
            refuse_root_beside_others(own.path, "files prune")
    pruned = [prune(own, keep, execute=args.execute) for own in opened_names]
    row = "{:<24}  {:<18}  {}"
    print(row.format("name", "date", "fate"))
    for outcome in pruned:
        for date in sorted({**outcome.stay, **dict.fromkeys(outcome.go)}):
            print(
                row.format(
                    outcome.name, date, f"keep: {outcome.stay[date]}" if date in outcome.stay else "remove"
                )
            )
    gone, half = (sum(len(getattr(outcome, fate)) for outcome in pruned) for fate in ("go", "half"))
    left = count(sum(len(outcome.stay) for outcome in pruned), "backup")
    print(
        f"{'Removed' if args.execute else 'Would remove'} {count(gone, 'backup')} and {half:,} that were "
        f"never complete; {left} kept."
        + ("" if args.execute else " Nothing was removed. To remove them, pass --execute.")
    )
    content = [
        {"name": outcome.name, "stay": outcome.stay, "go": list(outcome.go), "half": list(outcome.half)}
        for outcome in pruned
    ]
    _report(args, "prune", ExitCode.DONE, started, {"executed": args.execute, "names": content})
    return ExitCode.DONE


def _opened(args: argparse.Namespace) -> "list[BackupsOf]":
    from aqueduct.recovery.file_backup.folder import existing_backups

    return existing_backups(args.backups, args.name)


def _at(own: "BackupsOf", time_: int | None) -> str:
    dates = own.dates()
    date = plan.newest_at(dates, time_)
    if date is None:
        of = f"the first is of {dates[0]}" if dates else "there is none"
        when = "" if time_ is None else f" of {timestamps.text(time_)} or before"
        raise Refused("file-backup-missing", f"{own.path} has no complete backup{when}; {of}.")
    return date


def _outside(args: argparse.Namespace) -> None:
    report_file.outside(args.report, f"file://{args.backups.resolve()}")


def _report(
    args: argparse.Namespace, command: str, code: ExitCode, started: datetime, content: dict[str, Any]
) -> None:
    if report_file.is_requested(args):
        report_file.deliver(args, f"files {command}", code, started, content)
