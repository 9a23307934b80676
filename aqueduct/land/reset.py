"""Sets tables back to earlier offsets, or ahead: what was landed from there on goes, and lands again.

One commit takes the rows away and moves the positions, so nothing is there twice when it lands again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, LeftOut, Refused, Skipped
from aqueduct.kafka import offsets
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.requests import in_lists
from aqueduct.land import log, table_log
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import OrcFile, orc_of
from aqueduct.land.log import BAD, FILTERED, RESET, AddedFile, Positions, Staging, State, next_commit
from aqueduct.land.orc_times import Unwritable
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import ResetMove, ResetTable
from aqueduct.land.plan import absent, next_schema
from aqueduct.land.table_log import Overtaken, TableLog
from aqueduct.land.task import CLIENT
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.objects import MissingObject, Objects
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.workers import Workers

TASK_BYTES = 256 << 20  # of files that a task reads
COMPACTED = (
    "the topic is compacted, so the reset would permanently remove rows whose records no longer exist in "
    "the topic; declare a new table, which lands the present records"
)
KEYS = ["k_topic", "k_partition", "k_offset"]

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ResetOrder:
    """The request for a reset: to these offsets, or to the first ones of a time (milliseconds since 1970)."""

    to: Offsets | int
    execute: bool  # else it is only told what would be done


@dataclass(frozen=True, kw_only=True)
class CutShare:
    """Files of which one task takes away the rows from some offsets on."""

    location: str
    table: LandTable
    staging: Staging
    share: int
    files: tuple[AddedFile, ...]
    starts: Offsets
    execute: bool


@dataclass(frozen=True)
class CutFile:
    """A file that goes, and the one with the rows of it that stay."""

    file: AddedFile
    gone: int  # rows
    kept: AddedFile | None


BYTES: Size[CutShare] = Size("MB", lambda share: sum(file.bytes for file in share.files), MEGABYTE)


def reset(order: LandOrder, reset_order: ResetOrder, workers: Workers) -> list[ResetTable]:
    """Plan the reset of each table, and do it if that is wanted.

    Refused, with nothing done, if an offset is not in its topic's log, or a table can't become what is
    declared. A table that fails is named, and the
    others are reset.
    """
    objects = open_editable(order.location)
    catalogue = (
        Catalogue(order.metastores, order.location) if order.metastores and reset_order.execute else None
    )
    logs = [TableLog(objects, table.full_name) for table in order.tables]
    states = [of_table.follow() for of_table in logs]
    for table, state in zip(order.tables, states, strict=True):
        next_schema(state, log.definition(table, state.definition), table)
    with connect(order.end, CLIENT) as client:
        targets = _targets(client, order, reset_order.to, states)
    todo = list(zip(order.tables, logs, targets, strict=True))
    for table, of_table, target in todo:
        if reset_order.execute and target.moves and not of_table.state.number:
            of_table.own(table.beside)
    outcomes = []
    for table, of_table, target in todo:
        mine = ResetTable(table=table.full_name, moves=target.moves, left_out=target.left_out)
        try:
            if target.moves:
                _reset(order, table, of_table, target, reset_order, workers=workers, outcome=mine)
        except Failed as error:
            mine.failed = error
        if catalogue and mine.done and not mine.failed:  # else files may not have their names yet
            mine.left_out += _told(catalogue, table, of_table)
        outcomes.append(mine)
    return outcomes


def _told(catalogue: Catalogue, table: LandTable, of_table: TableLog) -> LeftOut:
    """Bring the catalogue up to a reset; return what it stays behind of, and why."""
    behind = catalogue.follow([(table, of_table.state)], drop=lambda _: of_table.is_newest())
    return tuple(Skipped.because_of(f"{name} in the metastore", error) for name, error in behind.items())


@dataclass(frozen=True, kw_only=True)
class _ResetTarget:
    """Where a table is to land on from."""

    next: Positions
    topic_ids: Mapping[str, str]  # of topics that are new to it, or were made again
    moves: Mapping[TopicPartition, ResetMove]
    goes: Offsets  # from where on rows go
    left_out: LeftOut


@dataclass(frozen=True)
class _Log:
    """A partition as it is now."""

    start: int
    end: int
    compacted: bool  # records between may be gone


Logs = Mapping[TopicPartition, _Log]


def _targets(client: Client, order: LandOrder, to: Offsets | int, states: list[State]) -> list[_ResetTarget]:
    topics = client.topics()
    names = {name for name in topics if any(table.takes(name) for table in order.tables)}
    if not isinstance(to, int):
        asked = {topic for topic, _ in to}
        for name in sorted(asked - names):
            if name in topics:
                raise Refused(
                    "topic-not-landed",
                    f"No selected table lands the topic {name}. Check --to-offsets and --tables.",
                )
            raise Refused(
                "topic-unknown", f"The {order.end} has no topic {name}, so its records cannot land again."
            )
        names = asked
    taken = [topics[name] for name in sorted(names)]
    every = [partition for topic in taken for partition in topic.topic_partitions]
    starts, ends = offsets.log_starts(client, every), offsets.ends(client, every)
    policies = setting(client, sorted(names), "cleanup.policy")
    logs = {
        partition: _Log(starts[partition], ends[partition], "compact" in policies[partition.topic].split(","))
        for partition in every
    }
    if by_time := isinstance(to, int):
        since = offsets.since(client, every, to)
        to = {partition: offset if offset >= 0 else ends[partition] for partition, offset in since.items()}
    else:
        _check(to, logs)
    targets = []
    for table, state in zip(order.tables, states, strict=True):
        mine = [topic for topic in taken if table.takes(topic.name)]
        left_out = [] if not by_time else [*_not_by_time(table, state, mine, topics.keys(), to, logs)]
        out = {name for name, _ in left_out}
        target = _target(state, [topic for topic in mine if topic.name not in out], to, logs)
        skipped = tuple(skipped_topic for _, skipped_topic in left_out)
        skipped += absent(table, state, topics) if by_time else ()
        targets.append(replace(target, left_out=skipped))
    return targets


def _not_by_time(
    table: LandTable, state: State, topics: Iterable[Topic], every: Set[str], to: Offsets, logs: Logs
) -> Iterator[tuple[str, Skipped]]:
    """Yield topics that are left alone where a time is given, and why."""
    for name in sorted(filter(table.takes, state.positions.keys() - every)):
        yield (
            name,
            Skipped(f"topic {name}", "the topic no longer exists in the cluster", "landed-topic-missing"),
        )
    for topic in topics:
        landed = state.positions.get(topic.name, {})
        if landed and str(topic.id) != state.topic_ids[topic.name]:
            reason = (
                "the topic was deleted and re-created; pass an offset of each partition with --to-offsets"
            )
            yield topic.name, Skipped(f"topic {topic.name}", reason, "landed-topic-recreated")
        elif any(
            logs[partition].compacted and to[partition] < landed.get(str(partition.partition), 0)
            for partition in topic.topic_partitions
        ):
            yield topic.name, Skipped(f"topic {topic.name}", COMPACTED, "landed-topic-compacted")


def _check(offset_by_partition: Offsets, logs: Logs) -> None:
    for partition, offset in offset_by_partition.items():
        if partition not in logs:
            raise Refused("partition-unknown", f"{partition} does not exist: its topic has fewer partitions.")
        log = logs[partition]
        if not log.start <= offset <= log.end:
            raise Refused(
                "reset-offset-unavailable",
                f"{partition} has the offsets {log.start} to {log.end}, but not {offset}. Records that the "
                "topic no longer has cannot land again, so their rows stay in the table. Pass an offset in "
                "this range.",
            )


def _target(state: State, topics: Iterable[Topic], to: Offsets, logs: Logs) -> _ResetTarget:
    after = {topic: dict(positions) for topic, positions in state.positions.items()}
    moves: dict[TopicPartition, ResetMove] = {}
    goes: dict[TopicPartition, int] = {}
    topic_ids: dict[str, str] = {}
    for topic in topics:
        landed = state.positions.get(topic.name, {})
        if same := str(topic.id) == state.topic_ids.get(topic.name):
            positions = after[topic.name]
        else:
            lacking = [partition for partition in topic.topic_partitions if partition not in to]
            if landed and lacking:
                raise Refused(
                    "landed-topic-recreated",
                    f"The topic {topic.name} was deleted and re-created. Pass an offset of each partition, "
                    f"also of {lacking[0]}.",
                )
            topic_ids[topic.name] = str(topic.id)
            positions = {str(partition.partition): logs[partition].start for partition in lacking}
            after[topic.name] = positions
            # Of the topic that had the name before nothing stays: its offsets are other records.
            goes |= {TopicPartition(topic.name, int(number)): 0 for number in landed}
        for partition in topic.topic_partitions:
            if partition not in to:
                continue
            before, offset = landed.get(str(partition.partition)), to[partition]
            positions[str(partition.partition)] = offset
            if same and before == offset:
                continue
            reached = before if same and before is not None else logs[partition].start
            moves[partition] = ResetMove(before, offset, (reached, offset - 1) if offset > reached else None)
            if same and offset < reached:
                if logs[partition].compacted:
                    raise Refused(
                        "landed-topic-compacted", f"The topic {topic.name} cannot land again: {COMPACTED}."
                    )
                goes[partition] = offset
    return _ResetTarget(next=after, topic_ids=topic_ids, moves=moves, goes=goes, left_out=())


def _reset(
    order: LandOrder,
    table: LandTable,
    of_table: TableLog,
    target: _ResetTarget,
    reset_order: ResetOrder,
    *,
    workers: Workers,
    outcome: ResetTable,
) -> None:
    state = of_table.state
    staging = of_table.begin(ahead=1)
    files = list(_after(of_table, target.goes)) if target.goes else []
    shares = [
        CutShare(
            location=order.location,
            table=table,
            staging=staging,
            share=share,
            files=tuple(some),
            starts=target.goes,
            execute=reset_order.execute,
        )
        for share, some in enumerate(in_lists(files, TASK_BYTES, lambda file: file.bytes))
    ]
    cut = [cut_file for some in workers.parallel(None)(cut_files, shares, BYTES) for cut_file in some]
    gone = Counter[str]()
    for cut_file in cut:
        gone[log.ending(cut_file.file.path)] += cut_file.gone
    outcome.bad, outcome.filtered = gone[BAD], gone[FILTERED]
    outcome.rows = gone.total() - outcome.bad - outcome.filtered
    outcome.files = len(cut)
    if not reset_order.execute:
        return
    added = tuple(cut_file.kept for cut_file in cut if cut_file.kept)
    removed = tuple(cut_file.file.path for cut_file in cut)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        commit = next_commit(
            state, RESET, now, target.next, added=added, removed=removed, topic_ids=target.topic_ids
        )
        of_table.commit(commit, staging)
    except Overtaken:
        of_table.discard(staging)
        raise Failed(
            "table-changed-meanwhile",
            f"{table.full_name} was changed by a landing or a compaction at the same time, so the table was "
            "not reset. Stop the landing of the table, and run the command again.",
        ) from None
    outcome.done = True
    of_table.publish(staging)


def _after(of_table: TableLog, goes: Offsets) -> Iterator[AddedFile]:
    """Yield the files that may have rows from these offsets on: those of commits that went beyond."""
    every = of_table.state.files
    reached = of_table.positions_after({table_log.commit_number(file.path) for file in every})
    for file in every:
        positions = reached[table_log.commit_number(file.path)]
        if any(
            positions.get(topic, {}).get(str(number), 0) > first for (topic, number), first in goes.items()
        ):
            yield file


def cut_files(share: CutShare) -> list[CutFile]:
    """Find the rows that go; stage what stays of their files, if that is wanted."""
    objects = open_store(share.location)
    cut = []
    for number, file in enumerate(share.files):
        try:
            content = table_log.committed(objects, share.table.full_name, file)
        except MissingObject:
            raise Failed(
                "table-changed-meanwhile",
                f"{file.path} of {share.table.full_name} was replaced by another run, or is missing. Run "
                "the command again while no other run changes the table.",
            ) from None
        goes = _goes(orc.read_table(pa.BufferReader(content), columns=KEYS), share.starts)
        if not (gone := pc.sum(goes).as_py() or 0):
            continue
        kept = None
        if share.execute and gone < file.rows:
            kept = _stage(objects, share, number, file, content, pc.invert(goes))
        cut.append(CutFile(file, gone, kept))
    return cut


def _stage(
    objects: Objects,
    share: CutShare,
    number: int,
    file: AddedFile,
    original: memoryview,
    stays: pa.ChunkedArray,
) -> AddedFile:
    try:
        rows = orc.read_table(pa.BufferReader(original)).filter(stays)
        content = orc_of(rows, share.table.kind)
    except pa.ArrowInvalid as error:
        raise Failed(
            "table-times-unreadable",
            f"{file.path} of {share.table.full_name} cannot be rewritten, because the file contains times "
            f"before 1677 or after 2262: {error}.",
        ) from None
    except Unwritable as error:
        raise Failed(
            "table-file-misread",
            f"{file.path} of {share.table.full_name} cannot be rewritten: {error}. Reset the table to the "
            "first offset in this file.",
        ) from None
    name = share.staging.file_name(share.share, number, "-reset")
    at_folder, ending = file.path.rpartition("/")[0], log.ending(file.path)
    kept = OrcFile(folder=at_folder, rows=rows.num_rows, data=content, table=file.table, ending=ending)
    return table_log.stage(objects, share.table, share.staging, name, kept)


def _goes(keys: pa.Table, starts: Offsets) -> pa.ChunkedArray:
    """Return which rows are of these partitions, from these offsets on."""
    goes = pa.chunked_array([pa.repeat(pa.scalar(False), len(keys))])
    for (topic, partition), start in starts.items():
        goes = pc.or_(
            goes,
            pc.and_(
                pc.and_(pc.equal(keys["k_topic"], topic), pc.equal(keys["k_partition"], partition)),
                pc.greater_equal(keys["k_offset"], start),
            ),
        )
    return goes
