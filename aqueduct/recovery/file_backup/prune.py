"""Old backups removed, as a policy says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aqueduct.errors import Failed
from aqueduct.recovery.file_backup import plan, verify
from aqueduct.recovery.file_backup.folder import BackupsOf, FileSnapshot
from aqueduct.snapshots.prune.policy import Dated, KeepPolicy


@dataclass(frozen=True, kw_only=True)
class FilesPruned:
    name: str
    stay: dict[str, str]  # why, by date
    go: tuple[str, ...]
    half: tuple[str, ...]  # what was never completed


def prune(own: BackupsOf, keep: KeepPolicy, *, execute: bool) -> FilesPruned:
    """Remove backups that no rule keeps, and half ones; or tell which would go.

    The newest stays, and so does the newest that is whole. Failed, with nothing removed, if one can't be
    read, or one that would stay is damaged, as far as is seen without reading what is in all files.
    """
    with own.changing(), own.reading(alone=True):
        snapshots = [own.snapshot(date) for date in own.dates()]
        stay = kept(snapshots, keep)
        go = tuple(snapshot.date for snapshot in snapshots if snapshot.date not in stay)
        half = own.half()
        if go:
            _refuse_damaged(own, stay)
        if execute:
            for path in [*half, *(own.path / date for date in go)]:
                own.remove(path)
    return FilesPruned(name=own.name, stay=stay, go=go, half=tuple(leftover.name for leftover in half))


def _refuse_damaged(own: BackupsOf, stay: Iterable[str]) -> None:
    for date in stay:
        try:
            verify.look_through(own, date)
        except Failed as error:
            raise Failed(
                error.id,
                f"nothing of {own.name} is removed, for {date} would stay and can't be used: {error} "
                f"`aqueduct files verify` tells more; where it can't be repaired, move {own.path / date} "
                "out of the folder.",
            ) from None


def kept(snapshots: Sequence[FileSnapshot], keep: KeepPolicy) -> dict[str, str]:
    """Return why backups stay, by their dates. They come oldest first."""
    dates = [snapshot.date for snapshot in snapshots]
    reasons_by_number = keep.keeps(
        [Dated(number, plan.date_of(date) or 0) for number, date in enumerate(dates)]
    )
    whole = [number for number, snapshot in enumerate(snapshots) if not snapshot.left_out]
    for number in whole[-1:]:
        reasons_by_number.setdefault(number, []).append("newest that is whole")
    return {dates[number]: ", ".join(reasons_by_number[number]) for number in sorted(reasons_by_number)}
