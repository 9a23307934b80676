"""Joins small files of a table, and of its late rows: another entry of its log, which changes no row."""

import mmap
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import BinaryIO

import pyarrow as pa
from pyarrow import orc

from aqueduct.errors import Failed, Skipped
from aqueduct.kafka.requests import in_lists
from aqueduct.land import log, orc_times, table_log
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable, TableKind
from aqueduct.land.files import OrcFile, orc_writer
from aqueduct.land.log import COMPACT, COMPACTED, AddedFile, Commit, Staging, State, next_commit
from aqueduct.land.open_tables import opened
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import CompactedTable
from aqueduct.land.table_log import Overtaken, TableLog
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.objects import MissingObject, Objects
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.workers import Workers

TARGET_BYTES = 128 << 20  # of a file
SMALL = 0.75  # of the target: a file below is joined with others
EXCHANGED = 200  # files in one commit, at most: for as long as they are exchanged readers miss some
TARGETS = 2  # files in one commit for each task at once: a reset or another compaction makes it be vain
KEPT = timedelta(hours=6)  # longer than queries take
ATTEMPTS = 5  # one after another, beside others


@dataclass(frozen=True, kw_only=True)
class CompactShare:
    """Files of one folder that one task joins."""

    location: str
    table: LandTable
    staging: Staging
    share: int
    files: tuple[AddedFile, ...]


@dataclass(frozen=True)
class Unjoined:
    """The file for which a share's files could not be joined."""

    path: str
    gone: bool  # another compaction took it; else its times can't be read or written


BYTES: Size[CompactShare] = Size("MB", lambda share: _size(share.files), MEGABYTE)


def _size(files: Iterable[AddedFile]) -> int:
    return sum(file.bytes for file in files)


def groups(live: Iterable[AddedFile], target: int = TARGET_BYTES) -> list[tuple[AddedFile, ...]]:
    """Return the files of each folder that are to be one, in the order in which they landed."""
    small: dict[tuple[str | None, str], list[AddedFile]] = defaultdict(list)
    for file in live:
        if file.bytes < target * SMALL:
            small[file.table, file.path.rpartition("/")[0]].append(file)
    lists = (
        some
        for files in small.values()
        for some in in_lists(files, target, lambda file: file.bytes, most=EXCHANGED)
    )
    return [tuple(some) for some in lists if len(some) > 1]


def compact(order: LandOrder, workers: Workers) -> list[CompactedTable]:
    """Compact each table as it is now; one that fails is named, and the others are compacted.

    Refused, with nothing done, if a table can't become what is declared: its kind says which files may go.
    """
    objects = open_editable(order.location)
    catalogue = Catalogue(order.metastores, order.location) if order.metastores else None
    outcomes = [CompactedTable(table=table.full_name) for table in order.tables]
    for table, of_table, mine in opened(order, objects, catalogue, outcomes):
        try:
            _compact(order, table, of_table, workers, mine)
            _expire(table, of_table, catalogue, mine)
            mine.buried = of_table.bury() if mine.landed else 0
        except Failed as error:
            mine.failed = error
    return outcomes


def _expire(
    table: LandTable, of_table: TableLog, catalogue: Catalogue | None, outcome: CompactedTable
) -> None:
    """Remove files that were replaced long ago; of an Iceberg table, those that no snapshot names now."""
    if not outcome.landed:
        return
    if not of_table.state.is_iceberg:
        outcome.expired = of_table.expire(_ago(KEPT))
        return
    subject = f"{table.full_name} in the metastore"
    if not catalogue:
        reason = (
            "the metastore was not passed with --metastore; only the snapshots in the metastore show "
            "which replaced files may be removed"
        )
        outcome.left_out = (Skipped(subject, reason, "catalogue-not-given"),)
    else:
        try:
            named = catalogue.tidied(table, of_table.state)
        except Failed as error:
            outcome.left_out = (Skipped.because_of(subject, error),)
        else:
            outcome.expired = of_table.expire(_ago(KEPT), named)


def _compact(
    order: LandOrder, table: LandTable, of_table: TableLog, workers: Workers, outcome: CompactedTable
) -> None:
    made: dict[str, AddedFile] = {}  # by this run, and live
    unreadable: set[str] = set()
    failures = 0
    while todo := groups(file for file in _rows(of_table.follow()) if file.path not in unreadable):
        staging = of_table.begin()
        chosen = next(in_lists(todo, EXCHANGED, len))
        room = TARGETS * workers.at_once(None) * TARGET_BYTES
        shares = [
            CompactShare(location=order.location, table=table, staging=staging, share=share, files=files)
            for share, files in enumerate(next(in_lists(chosen, room, _size)))
        ]
        results = workers.parallel(None)(join, shares, BYTES)
        unreadable |= {file.path for file in results if isinstance(file, Unjoined) and not file.gone}
        outcome.left = len(unreadable)
        joined = [
            (share, file) for share, file in zip(shares, results, strict=True) if isinstance(file, AddedFile)
        ]
        try:
            for file in results:
                if isinstance(file, Unjoined) and file.gone:
                    of_table.let_go(file.path)
            if not joined:
                continue
            files = tuple(file for _, file in joined)
            removed = tuple(file.path for share, _ in joined for file in share.files)
            commit = of_table.commit_beside(staging, partial(_commit, files, removed))
        except Overtaken:
            of_table.discard(staging)
            failures += 1
            if failures == ATTEMPTS:
                raise
            continue
        failures = 0
        outcome.commits += 1
        outcome.before += sum(path not in made for path in removed)
        made = {path: file for path, file in made.items() if path not in removed}
        made |= {file.path: file for file in commit.added}
        outcome.after, outcome.bytes = len(made), _size(made.values())
        of_table.publish(staging)


def _commit(added: tuple[AddedFile, ...], removed: tuple[str, ...], state: State) -> Commit:
    return next_commit(state, COMPACT, _ago(timedelta(0)), state.positions, added=added, removed=removed)


def _rows(state: State) -> Iterable[AddedFile]:
    return (*state.live.values(), *state.late.values(), *state.filtered.values())


def _ago(time: timedelta) -> str:
    return (datetime.now(UTC) - time).isoformat(timespec="milliseconds")


def join(share: CompactShare) -> AddedFile | Unjoined:
    """Stage one file with all rows of the share's files, in their order, stripe by stripe.

    Arrow's reader knows times from 1677 to 2262 only, and former versions wrote times that readers take for
    others: a file with such times is named instead. Failed if one is not what landed.
    """
    # Into a file without a name: in memory, a file takes up to three times its size while it grows.
    try:
        with tempfile.TemporaryFile() as joined, tempfile.TemporaryFile() as written:
            return _join(share, open_store(share.location), joined, written)
    except OSError as error:
        megabytes = 2 * (1 + (_size(share.files) >> 20))
        raise Failed(
            "compaction-disk-full",
            f"Files of {share.table.full_name} cannot be joined in {tempfile.gettempdir()} of this host: "
            f"{error.strerror}. Free {megabytes:,} MB in this folder, or set TMPDIR to another folder.",
        ) from None


def _join(share: CompactShare, objects: Objects, joined: BinaryIO, written: BinaryIO) -> AddedFile | Unjoined:
    path = share.files[0].path
    rows, early = 0, False
    iceberg = share.table.kind is TableKind.ICEBERG
    try:
        whole = pa.unify_schemas([_read(objects, share, file).schema for file in share.files])
        with orc_writer(pa.PythonFile(joined, "w")) as writer:
            for file in share.files:
                path = file.path
                opened = _read(objects, share, file)
                for stripe in range(opened.nstripes):
                    part = pa.table(opened.read_stripe(stripe))
                    orc_times.check(part, iceberg=iceberg)
                    early = early or orc_times.has_early_fractions(part)
                    writer.write(_with_all(part, whole))
                    rows += part.num_rows
    except _Gone as gone:
        return Unjoined(str(gone), gone=True)
    except (pa.ArrowInvalid, orc_times.Unwritable):
        return Unjoined(path, gone=False)
    if rows != (expected := sum(file.rows for file in share.files)):
        raise Failed(
            "table-file-damaged",
            f"Files of {share.table.full_name} have {rows} rows instead of {expected}. Check {path} with "
            "aqueduct land verify.",
        )
    joined.flush()
    with mmap.mmap(joined.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as content:
        written.writelines(orc_times.readable(content, early_fractions=early, iceberg=iceberg))
    written.flush()
    name = share.staging.file_name(share.share, suffix=COMPACTED)
    with mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as content:
        file_ = OrcFile(
            folder=path.rpartition("/")[0],
            rows=rows,
            data=content,
            table=share.files[0].table,
            ending=log.ending(path),
        )
        return table_log.stage(objects, share.table, share.staging, name, file_)


class _Gone(Exception):
    """The end of a join one of whose files is not there, with its path."""


def _read(objects: Objects, share: CompactShare, file: AddedFile) -> orc.ORCFile:
    try:
        content = table_log.committed(objects, share.table.full_name, file)
    except MissingObject:
        raise _Gone(file.path) from None
    return orc.ORCFile(pa.BufferReader(content))


def _with_all(part: pa.Table, whole: pa.Schema) -> pa.Table:
    """Return the table with columns that were added later, as null."""
    arrays = [
        part.column(field.name) if field.name in part.schema.names else pa.nulls(len(part), field.type)
        for field in whole
    ]
    return pa.table(arrays, schema=whole)
