"""Tries rejected records again by the declarations of now: those that fit become rows, the others stay bad.

The bad table has all of a record but its headers, so no topic is read. For each batch of its files one commit
of the table's log takes them away and adds the rows and what stays bad: who is killed has done nothing, or
something that whoever comes next finishes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka.requests import in_lists
from aqueduct.land import log, registry, table_log
from aqueduct.land.avro_values import no_registry
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import HEADER, LandTable
from aqueduct.land.files import RowBuffer
from aqueduct.land.log import REPLAY, AddedFile, Staging, State, next_commit
from aqueduct.land.open_tables import opened
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import ReplayedTable
from aqueduct.land.plan import next_schema
from aqueduct.land.records import RecordArrays
from aqueduct.land.registry import RegistryAway
from aqueduct.land.rows import RowReader, TableRows
from aqueduct.land.table_log import Overtaken, TableLog
from aqueduct.land.task import RECORDS
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.objects import MissingObject, Objects
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.progress import Size
from aqueduct.work.workers import Workers

TASK_RECORDS = 20_000  # that a task tries, or one file's
EXCHANGED = 200  # bad files in one commit, at most: for as long as they are exchanged readers miss some
SHARES = 2  # of one commit for each task at once: a reset or another replay makes it be vain
ATTEMPTS = 5  # one after another, beside others
ERRORS = 100  # that are told apart of a table, at most
OTHER_ERRORS = "other errors"
NO_TIMESTAMP = np.iinfo(np.int64).max  # no year has it: a column that takes Kafka's time refuses it


@dataclass(frozen=True, kw_only=True)
class ReplayShare:
    """Files of a bad table whose records one task tries again."""

    location: str
    table: LandTable
    staging: Staging
    share: int
    files: tuple[AddedFile, ...]
    execute: bool


@dataclass(kw_only=True)
class TriedFiles:
    """What one task found, and staged if that is wanted."""

    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)  # as of ReplayedTable
    late: int = 0  # of those that fit
    added: list[AddedFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # files with times that Arrow can't read
    gone: list[str] = field(default_factory=list)  # files that are not there
    failed: str = ""


REJECTED_RECORDS: Size[ReplayShare] = Size(
    "rejected records", lambda share: sum(file.rows for file in share.files)
)


def replay(order: LandOrder, *, execute: bool, workers: Workers) -> list[ReplayedTable]:
    """Try the rejected records of each table again; make rows of those that fit, if that is wanted.

    Refused, with nothing done, if a table takes headers, or can't become what is declared. A table that fails
    is named, and the others are tried.
    """
    for table in order.tables:
        _check(table)
    objects = open_editable(order.location)
    catalogue = Catalogue(order.metastores, order.location) if order.metastores and execute else None
    outcomes = [ReplayedTable(table=table.full_name) for table in order.tables]
    todo = opened(order, objects, catalogue, outcomes)
    for table, of_table, _ in todo:
        if execute and of_table.state.bad:
            of_table.own(table.beside)
    for table, of_table, mine in todo:
        try:
            _replay(order, table, of_table, mine, execute, workers)
        except Failed as error:
            mine.failed = error
        if catalogue and mine.commits and not mine.failed:  # else files may not have their names yet
            for name, failure in catalogue.follow([(table, of_table.state)], drop=lambda _: False).items():
                mine.left_out += (Skipped.because_of(f"{name} in the metastore", failure),)
    return outcomes


def _check(table: LandTable) -> None:
    if table.by_sql:
        raise Refused(
            "table-not-replayable",
            f"{table.full_name}: the table uses SQL, which a replay does not support. Land these records "
            "again with aqueduct land reset, or select other tables with --tables.",
        )
    for column in table.columns:
        if column.path[0].startswith(HEADER):
            raise Refused(
                "table-not-replayable",
                f"{table.full_name}: the column {column.name} comes from record headers, but the bad table "
                "has no headers. Land these records again with aqueduct land reset, or select other tables "
                "with --tables.",
            )


def _replay(
    order: LandOrder,
    table: LandTable,
    of_table: TableLog,
    outcome: ReplayedTable,
    execute: bool,
    workers: Workers,
) -> None:
    waiting = set(of_table.state.bad)  # what lands meanwhile was judged by its lander
    work = Work(Verb.LAND, sum(file.bytes for file in of_table.state.bad.values()))
    failures = 0
    while waiting:
        files = _waiting_files(table, of_table, waiting)
        staging = of_table.begin()
        shares = _shares(order, table, staging, files, execute=execute, most=SHARES * workers.at_once(work))
        results = workers.parallel(work)(try_again, shares, REJECTED_RECORDS)
        try:
            is_committed = _commit_results(table, of_table, staging, results)
        except Overtaken:
            of_table.discard(staging)
            failures += 1
            if failures == ATTEMPTS:
                raise
            continue
        failures = 0
        _count(outcome, results)
        waiting -= {file.path for share in shares for file in share.files}
        if is_committed:
            outcome.commits += 1
            of_table.publish(staging)


def _waiting_files(table: LandTable, of_table: TableLog, waiting: Set[str]) -> list[AddedFile]:
    """Return the bad files that were not tried yet; Failed if another run took some of them."""
    files = [file for path, file in of_table.follow().bad.items() if path in waiting]
    if len(files) < len(waiting):
        raise Failed(
            "table-changed-meanwhile",
            f"Another reset or replay changed the rejected records of {table.full_name} at the same time. "
            "Run the command again.",
        )
    return files


def _shares(
    order: LandOrder,
    table: LandTable,
    staging: Staging,
    files: Sequence[AddedFile],
    *,
    execute: bool,
    most: int,
) -> list[ReplayShare]:
    """Return the shares of the tasks for one commit, at most so many."""
    by_task = in_lists(files[:EXCHANGED], TASK_RECORDS, lambda file: file.rows)
    return [
        ReplayShare(
            location=order.location,
            table=table,
            staging=staging,
            share=number,
            files=tuple(task_files),
            execute=execute,
        )
        for number, task_files in enumerate(islice(by_task, most))
    ]


def _commit_results(
    table: LandTable, of_table: TableLog, staging: Staging, results: Sequence[TriedFiles]
) -> bool:
    """Commit what tasks staged; return whether it was anything. Failed if a task failed."""
    for tried in results:
        if tried.failed:
            of_table.discard(staging)
            raise Failed("schema-registry-unreachable", f"{table.full_name}: {tried.failed}")
        for path in tried.gone:
            of_table.let_go(path)
    added = tuple(file for tried in results for file in tried.added)
    if added:
        of_table.commit_beside(staging, partial(_commit, table, results, added))
    return bool(added)


def _count(outcome: ReplayedTable, results: Sequence[TriedFiles]) -> None:
    """Add to a table's outcome what tasks found."""
    for tried in results:
        outcome.late += tried.late
        outcome.counts = _most(outcome.counts + tried.counts)
        outcome.left_out += tuple(
            Skipped(
                path,
                "the file contains times before 1677 or after 2262, which Arrow cannot read",
                "table-times-unreadable",
            )
            for path in tried.unread
        )


def _commit(
    table: LandTable, results: Sequence[TriedFiles], added: tuple[AddedFile, ...], state: State
) -> log.Commit:
    declared = log.definition(table, state.definition)
    schema = next_schema(state, declared, table)
    removed = tuple(path for tried in results for path in tried.removed)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    commit = next_commit(state, REPLAY, now, state.positions, added=added, removed=removed)
    return replace(commit, schema=schema, definition=declared if schema != state.schema else None)


def _most(counts: Counter[tuple[str, bool]]) -> Counter[tuple[str, bool]]:
    """Return the counts of the commonest errors, and of the others as one."""
    errors: Counter[str] = Counter()
    for (error, _), number in counts.items():
        errors[error] += number
    named = {error for error, _ in errors.most_common(ERRORS)}
    kept: Counter[tuple[str, bool]] = Counter()
    for (error, fits), number in counts.items():
        kept[error if error in named else OTHER_ERRORS, fits] += number
    return kept


def try_again(share: ReplayShare) -> TriedFiles:
    """Read rejected records as if they were new; stage rows and what stays bad, if that is wanted.

    A file of which no record fits stays as it is.
    """
    objects = open_store(share.location)
    of = share.table.registry
    reader = RowReader(share.table, registry.TaskSchemas(of) if of else no_registry)
    buffer = RowBuffer(share.table)
    outcome = TriedFiles()
    try:
        for file in share.files:
            try:
                bad = orc.read_table(
                    pa.BufferReader(table_log.committed(objects, share.table.full_name, file))
                )
            except MissingObject:
                outcome.gone.append(file.path)
                continue
            except pa.ArrowInvalid:
                outcome.unread.append(file.path)
                continue
            tried = list(_tried(reader, bad, share, outcome))
            if not share.execute or not any(rows.table.num_rows for rows in tried):
                continue
            outcome.removed.append(file.path)
            for rows in tried:
                buffer.add(rows)
                if buffer.full:
                    _stage(objects, share, buffer, outcome)
    except RegistryAway as error:
        outcome.failed = str(error)
        return outcome
    _stage(objects, share, buffer, outcome)
    outcome.counts = _most(outcome.counts)
    return outcome


def _tried(reader: RowReader, bad: pa.Table, share: ReplayShare, outcome: TriedFiles) -> Iterator[TableRows]:
    """Yield what bad rows come to now, and count it."""
    for row in bad.group_by(["k_topic", "k_partition"]).aggregate([]).to_pylist():
        partition = TopicPartition(row["k_topic"], row["k_partition"])
        mine = bad.filter(
            (pc.field("k_topic") == partition.topic) & (pc.field("k_partition") == partition.partition)
        )
        for first in range(0, len(mine), RECORDS):
            some = mine.slice(first, RECORDS)
            records = _records(some)
            rows = reader.read(partition, records)
            if rows.table.num_rows + rows.bad.num_rows != len(records):
                raise Failed(
                    "replayed-records-missing",
                    f"{share.table.full_name}: a replay of rejected records of {partition} returned fewer "
                    "rows than records. Nothing was committed.",
                )
            stay = np.isin(records.offsets, rows.bad.column("k_offset").to_numpy())
            outcome.counts.update(zip(some.column("error").to_pylist(), (~stay).tolist(), strict=True))
            outcome.late += rows.table.num_rows - rows.on_time
            yield rows


def _records(bad: pa.Table) -> RecordArrays:
    """Return bad rows as the records that they were, without headers."""
    timestamps = bad.column("k_timestamp").cast(pa.timestamp("ms")).combine_chunks().view(pa.int64())
    return RecordArrays(
        offsets=bad.column("k_offset").to_numpy(),
        times=timestamps.fill_null(NO_TIMESTAMP).to_numpy(),
        keys=bad.column("key").combine_chunks(),
        values=bad.column("value").combine_chunks(),
        places=None,
    )


def _stage(objects: Objects, share: ReplayShare, buffer: RowBuffer, outcome: TriedFiles) -> None:
    for file in buffer.files():
        name = share.staging.file_name(share.share, len(outcome.added), "-replay")
        outcome.added.append(table_log.stage(objects, share.table, share.staging, name, file))
