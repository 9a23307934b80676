"""Removes old backups by a policy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aqueduct.errors import Failed
from aqueduct.recovery.file_backup import plan, verify
from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.snapshots.prune.policy import Dated, KeepPolicy


@dataclass(frozen=True, kw_only=True)
class FilesPruned:
    name: str
    stay: dict[str, str]  # the reason, by date
    go: tuple[str, ...]
    half: tuple[str, ...]  # incomplete backups


def prune(own: BackupsOf, keep: KeepPolicy, *, execute: bool) -> FilesPruned:
    """Remove backups that no rule keeps, and incomplete ones. Without `execute`, only list them.

    The newest backup stays, and the newest one without skipped files. Failed, with nothing removed, if a
    backup cannot be read, or a remaining one is damaged. The content of files is not read.
    """
    with own.locked_for_changes(), own.locked_for_reading(alone=True):
        snapshots = [own.snapshot(date) for date in own.dates()]
        stay = kept(snapshots, keep)
        go = tuple(snapshot.date for snapshot in snapshots if snapshot.date not in stay)
        half = own.incomplete()
        if go:
            _refuse_damaged(own, stay)
        if execute:
            for path in [*half, *(own.path / date for date in go)]:
                own.remove(path)
    return FilesPruned(name=own.name, stay=stay, go=go, half=tuple(leftover.name for leftover in half))


def _refuse_damaged(own: BackupsOf, stay: Iterable[str]) -> None:
    for date in stay:
        try:
            verify.check_outline(own, date)
        except Failed as error:
            raise Failed(
                error.id,
                f"Nothing of {own.name} was removed, because the remaining backup {date} cannot be used: "
                f"{error} "
                f"Run `aqueduct files verify`. If the backup cannot be repaired, move {own.path / date} to a "
                "place outside the folder of the backups.",
            ) from None


def kept(snapshots: Sequence[FileSnapshot], keep: KeepPolicy) -> dict[str, str]:
    """Return the reasons why backups stay, by date. `snapshots`: oldest first."""
    dates = [snapshot.date for snapshot in snapshots]
    reasons_by_number = keep.keeps(
        [Dated(number, plan.date_of(date) or 0) for number, date in enumerate(dates)]
    )
    whole = [number for number, snapshot in enumerate(snapshots) if not snapshot.left_out]
    for number in whole[-1:]:
        reasons_by_number.setdefault(number, []).append("newest without skipped files")
    return {dates[number]: ", ".join(reasons_by_number[number]) for number in sorted(reasons_by_number)}
