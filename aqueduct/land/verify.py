"""Verifies tables against their topics: every offset that landed is there once, and nothing else.

The files are those of the log, each read whole and compared with its digest; others that readers of the
folders see are named, and so is what readers by the catalogue miss. Nothing is changed.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kafka.errors import KafkaError
from pyarrow import orc

from aqueduct.common import offset_ranges, offset_sets
from aqueduct.common.offset_ranges import Range
from aqueduct.common.offset_sets import Span, Spans
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import fetch, offsets
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.batches.batch import Unopened
from aqueduct.kafka.batches.varints import Numbers
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import in_lists
from aqueduct.land import iceberg_table, orc_times, survey
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import AddedFile, State
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import Placed, VerifiedTable, placed
from aqueduct.land.plan import UnopenedRange, absent, epochs_to_ask, plan, progress
from aqueduct.land.table_log import TableLog
from aqueduct.land.task import CLIENT, read_batches
from aqueduct.store.backends import open_editable, open_store
from aqueduct.store.objects import DamagedObject, MissingObject, Objects
from aqueduct.work import sampling
from aqueduct.work.crossover import Verb
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.runner import Runner
from aqueduct.work.workers import Workers

TASK_BYTES = 256 << 20  # of files that a task reads
TASK_OFFSETS = 2_000_000
PATIENCE, AGAIN = 30, 1  # seconds: for a lander that has committed and not told the catalogue yet

REMEDY = "to land its records again, reset the table to the first offset of the file with aqueduct land reset"

OwnOffsets = dict[TopicPartition, list[Numbers]]


@dataclass(frozen=True)
class PlacedFile:
    """A file, and where it is."""

    file: AddedFile
    paths: tuple[str, ...]  # as it moves on: where it was staged, its own, where a compaction put it


@dataclass(frozen=True)
class FilesShare:
    """Files that one task reads."""

    location: str
    files: tuple[PlacedFile, ...]
    iceberg: bool  # they are an Iceberg table's


@dataclass(frozen=True, kw_only=True)
class TopicShare:
    """Ranges of a topic that one task reads."""

    end: End
    ranges: tuple[Range, ...]
    topic_ids: tuple[str, ...]
    tombstones: bool  # they are rows, too


@dataclass(kw_only=True)
class Found:
    """Offsets that a task found, in pieces of which some may overlap."""

    pieces: dict[TopicPartition, list[Span]] = field(default_factory=lambda: defaultdict(list))
    doubled: dict[TopicPartition, list[Span]] = field(default_factory=lambda: defaultdict(list))
    unread: dict[TopicPartition, list[Span]] = field(default_factory=lambda: defaultdict(list))
    unopened: dict[TopicPartition, list[Span]] = field(default_factory=lambda: defaultdict(list))
    gone: tuple[PlacedFile, ...] = ()  # files that are not there
    left_out: LeftOut = ()  # files that are damaged, or partitions that can't be read

    def add(self, own: OwnOffsets) -> None:
        """Add offsets in any order; those that a task reads together make few pieces."""
        for partition, parts in own.items():
            ordered = np.sort(np.concatenate(parts))
            self.doubled[partition] += _pieces(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
            self.pieces[partition] += _pieces(np.unique(ordered))

    def join(self, other: "Found") -> None:
        for mine, others in (
            (self.pieces, other.pieces),
            (self.doubled, other.doubled),
            (self.unread, other.unread),
            (self.unopened, other.unopened),
        ):
            for partition, pieces in others.items():
                mine[partition] += pieces
        self.gone += other.gone
        self.left_out += other.left_out


BYTES: Size[FilesShare] = Size(
    "MB", lambda share: sum(placed_file.file.bytes for placed_file in share.files), MEGABYTE
)
OFFSETS: Size[TopicShare] = Size("offsets", lambda share: sum(map(len, share.ranges)))


@dataclass(frozen=True)
class _There:
    """What of the topics landed, as far as the cluster has it still."""

    ranges: list[Range]
    compacted: set[str]  # topics
    left_out: LeftOut  # which can't be compared


def verify(order: LandOrder, workers: Workers) -> list[VerifiedTable]:
    """Verify each table as it is committed now."""
    objects = open_editable(order.location)
    catalogue = Catalogue(order.metastores, order.location) if order.metastores else None
    newest = catalogue.newest((table, State()) for table in order.tables) if catalogue else {}
    logs = [TableLog(objects, table.full_name) for table in order.tables]
    verified = [
        _verify(order, table, of_table, objects, workers, newest.get(table.full_name, 0))
        for table, of_table in zip(order.tables, logs, strict=True)
    ]
    until = time.monotonic() + PATIENCE
    return [
        replace(verified_table, readers=_otherwise(table, of_table, verified_table, catalogue, until))
        for table, of_table, verified_table in zip(order.tables, logs, verified, strict=True)
    ]


def _verify(
    order: LandOrder,
    table: LandTable,
    of_table: TableLog,
    objects: Objects,
    workers: Workers,
    newest: int,
) -> VerifiedTable:
    state = of_table.read()
    in_cluster = _there(order.end, table, state)
    runner = workers.parallel(sampling.reading(Verb.RECONCILE, order.end, in_cluster.ranges, workers))
    files = list(_placed(of_table))
    strays = _strays(objects, of_table)
    in_table = _read_table(order.location, of_table, state, files, runner)
    in_topic = _read_topics(order.end, table, state, in_cluster, runner)
    unopened = placed(state.unopened)
    comparison = _compare(in_cluster, in_topic, in_table, passed_over=placed(state.passed), unopened=unopened)
    return VerifiedTable(
        table=table.full_name,
        rows=sum(placed_file.file.rows for placed_file in files),
        files=len(files),
        missing=_some(comparison.missing),
        doubled=_some(comparison.doubled),
        unknown=_some(comparison.unknown),
        passed=_some(comparison.passed),
        deleted=placed(state.deleted),
        unopened=unopened,
        commits=state.number,
        damaged=in_table.left_out,
        strays=strays,
        left_out=(*in_cluster.left_out, *in_topic.left_out, *_not_opened(in_topic, in_table)),
        ahead=iceberg_table.ahead(table, newest, state),
    )


def _read_table(
    location: str, of_table: TableLog, state: State, files: Sequence[PlacedFile], runner: Runner
) -> Found:
    """Read the offsets in a table's files; those that are gone from where a compaction put them meanwhile."""
    in_table = _read(location, files, state, runner)
    if gone := in_table.gone:
        replaced = of_table.replaced_since(state.number)
        again = [
            PlacedFile(placed_file.file, (*placed_file.paths, *replaced.get(placed_file.file.path, ())))
            for placed_file in gone
        ]
        found_later = _read(location, again, state, runner)
        in_table.join(found_later)
        reason = "the store has no object with this name"
        in_table.left_out += tuple(
            Skipped(placed_file.paths[-1], reason, "table-file-missing") for placed_file in found_later.gone
        )
    return in_table


def _read_topics(end: End, table: LandTable, state: State, in_cluster: _There, runner: Runner) -> Found:
    """Read the offsets that the table's topics still have."""
    parts = [
        part for landed_range in in_cluster.ranges for part in offset_ranges.split(landed_range, TASK_OFFSETS)
    ]
    shares = [
        TopicShare(
            end=end,
            ranges=some,
            topic_ids=tuple(state.topic_ids[part.topic] for part in some),
            tombstones=table.keeps_tombstones,
        )
        for some in offset_ranges.shares(parts, TASK_OFFSETS)
    ]
    in_topic = Found()
    for in_share in runner(read_topic, shares, OFFSETS):
        in_topic.join(in_share)
    return in_topic


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Offsets that a table and its topics do not share, by partition."""

    missing: Placed  # in the topic alone
    passed: Placed  # in the topic alone, as a reset asked for
    unknown: Placed  # in the table alone
    doubled: Placed  # more than once in the table


def _not_opened(in_topic: Found, in_table: Found) -> Iterator[Skipped]:
    """Yield what can't be compared, for the topic has it in batches that unpack to too much."""
    for partition, pieces in sorted(in_topic.unopened.items()):
        spans = offset_sets.spans_of(pieces)
        own = offset_sets.spans_of(in_table.pieces.get(partition, ()))
        if spans := offset_sets.without(spans, own):
            offsets = f"{count(offset_sets.size(spans), 'offset')} from {spans[0][0]} to {spans[-1][1]}"
            reason = "their batches are too large after decompression"
            yield Skipped(f"{partition}, {offsets}", reason, Unopened.id)


def _compare(
    in_cluster: _There, in_topic: Found, in_table: Found, *, passed_over: Placed, unopened: Placed
) -> _Comparison:
    have = {partition: offset_sets.spans_of(pieces) for partition, pieces in in_table.pieces.items()}
    missing, unknown, passed = {}, {}, {}
    for landed_range in in_cluster.ranges:
        partition = landed_range.topic_partition
        should = offset_sets.spans_of(in_topic.pieces.get(partition, ()))
        accounted = offset_sets.spans_of([*have.get(partition, ()), *unopened.get(partition, ())])
        absent = offset_sets.without(should, accounted)
        missing[partition] = offset_sets.without(absent, passed_over.get(partition, ()))
        passed[partition] = offset_sets.without(absent, missing[partition])
        # What compaction removes of a topic stays in the table; so does what retention does meanwhile.
        if landed_range.topic not in in_cluster.compacted:
            not_read = [*in_topic.unread.get(partition, ()), *in_topic.unopened.get(partition, ())]
            read = [(0, landed_range.start - 1), *should, *not_read]
            unknown[partition] = offset_sets.without(have.get(partition, []), offset_sets.spans_of(read))
    doubled = {
        partition: offset_sets.spans_of(
            [
                *offset_sets.overlaps(pieces),
                *offset_sets.overlaps([*have[partition], *unopened.get(partition, ())]),
                *in_table.doubled.get(partition, ()),
            ]
        )
        for partition, pieces in in_table.pieces.items()
    }
    return _Comparison(missing=missing, passed=passed, unknown=unknown, doubled=doubled)


def _otherwise(
    table: LandTable, of_table: TableLog, verified: VerifiedTable, catalogue: Catalogue | None, until: float
) -> str:
    """Return why readers may see something else than the log has; a lander has time to end its round.

    Where one commits again before the table could be compared, it is enough that the catalogue was told of
    all that was verified.
    """
    while not verified.ahead:
        try:
            state = of_table.read()
        except Failed as error:
            return str(error).rstrip(".")
        reason = f"Hive metastore: {lacks}" if catalogue and (lacks := catalogue.lacks(table, state)) else ""
        if unnamed := of_table.unnamed():
            files = count(unnamed, "file")
            reason = (
                f"{files} of commit {state.number} are not published yet; run aqueduct land or aqueduct "
                "land compact"
            )
        if not reason:
            return ""
        if time.monotonic() > until:
            newest = catalogue.newest([(table, State())]).get(table.full_name, 0) if catalogue else 0
            return "" if state.number > verified.commits <= newest and not unnamed else reason
        time.sleep(AGAIN)
    return ""


def _read(location: str, files: Sequence[PlacedFile], state: State, runner: Runner) -> Found:
    in_files = Found()
    by_task = in_lists(files, TASK_BYTES, lambda placed_file: placed_file.file.bytes)
    shares = [FilesShare(location, tuple(some), state.is_iceberg) for some in by_task]
    for part in runner(read_files, shares, BYTES):
        in_files.join(part)
    return in_files


def _placed(of_table: TableLog) -> Iterable[PlacedFile]:
    newest = of_table.newest
    staged = {file.path: of_table.places(newest, file)[0] for file in newest.added} if newest else {}
    for file in of_table.state.files:
        yield PlacedFile(file, (*([staged[file.path]] if file.path in staged else []), of_table.place(file)))


def _strays(objects: Objects, of_table: TableLog) -> tuple[str, ...]:
    """Return the files that readers of the table's folders see, and that no commit added.

    Readers of an Iceberg table look at no folder.
    """
    number = of_table.state.number
    if not number or of_table.state.is_iceberg:
        return ()
    its_own = of_table.seen_since(number)
    strays = [path for folder in of_table.folders() for path in _seen(objects, folder) if path not in its_own]
    if strays:  # it may have been committed meanwhile
        of_table.read()
        its_own = of_table.seen_since(number)
    return tuple(path for path in strays if path not in its_own)


def _seen(objects: Objects, folder: str) -> Iterator[str]:
    """Yield the files of a folder that readers look at: they pass over names that begin with _ or a dot.

    One of no bytes has no row; in S3 it may stand for a folder.
    """
    for entry in objects.list(folder):
        if entry.size and not any(
            name.startswith(("_", ".")) for name in entry.path.removeprefix(f"{folder}/").split("/")
        ):
            yield entry.path


def read_files(share: FilesShare) -> Found:
    """Read which offsets files hold, and name those that are not as they were written."""
    objects = open_store(share.location)
    in_files = Found()
    own: OwnOffsets = defaultdict(list)
    for placed_file in share.files:
        try:
            content = _content(objects, placed_file)
            table = _own_columns(content, placed_file.file)
            if reason := orc_times.fault(content, rows=table.num_rows, iceberg=share.iceberg):
                in_files.left_out += (
                    Skipped(placed_file.paths[-1], f"{reason}; {REMEDY}", "table-file-misread"),
                )
        except MissingObject:
            in_files.gone += (placed_file,)
            continue
        except (_Damaged, DamagedObject, pa.ArrowInvalid) as error:
            in_files.left_out += (Skipped.because_of(placed_file.paths[-1], error),)
            continue
        for row in table.group_by(["k_topic", "k_partition"]).aggregate([]).to_pylist():
            partition = TopicPartition(row["k_topic"], row["k_partition"])
            mine = (pc.field("k_topic") == partition.topic) & (pc.field("k_partition") == partition.partition)
            own[partition].append(table.filter(mine).column("k_offset").to_numpy())
    in_files.add(own)
    return in_files


class _Damaged(Failed):
    """A file that isn't what was committed."""

    id = "table-file-damaged"


def _content(objects: Objects, placed: PlacedFile) -> memoryview:
    for path in placed.paths:
        try:
            return objects.read(path, at_most=placed.file.bytes)
        except MissingObject:
            if path == placed.paths[-1]:
                raise
    raise AssertionError


def _own_columns(content: memoryview, file: AddedFile) -> pa.Table:
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise _Damaged("the file was changed after its commit: its digest differs")
    table = orc.read_table(pa.BufferReader(content), columns=["k_topic", "k_partition", "k_offset"])
    if table.num_rows != file.rows:
        raise _Damaged(f"the file has {table.num_rows} rows instead of {file.rows}")
    return table


def read_topic(share: TopicShare) -> Found:
    """Read which offsets of ranges are records that land."""
    in_topic = Found()
    own: OwnOffsets = defaultdict(list)
    unopened: list[UnopenedRange] = []
    with connect(share.end, CLIENT) as client:
        for landed_range, topic_id in zip(share.ranges, share.topic_ids, strict=True):
            partition, reached = landed_range.topic_partition, landed_range.start
            try:
                for piece in fetch.read(client, landed_range, topic_id=UUID(topic_id), whole_batches=True):
                    if piece.lost:
                        in_topic.unread[partition].append((piece.lost[0], piece.lost[1] - 1))
                    for records in read_batches(piece.batches, landed_range, unopened.append):
                        lands = records.values.is_valid().to_numpy(zero_copy_only=False) | share.tombstones
                        own[partition].append(records.offsets[lands])
                    reached = piece.next_offset
            except (Failed, KafkaError) as error:
                in_topic.unread[partition].append((reached, landed_range.stop - 1))
                in_topic.left_out += (Skipped.because_of(f"{partition} from offset {reached} on", error),)
    for skipped in unopened:
        in_topic.unopened[skipped.range.topic_partition].append((skipped.range.start, skipped.range.stop - 1))
    in_topic.add(own)
    return in_topic


def _there(end: End, table: LandTable, state: State) -> _There:
    with connect(end, CLIENT) as client:
        topics = client.topics()
        landed = survey.source_topics(client, topics, sorted(state.positions.keys() & topics.keys())).values()
        epoch_ends = offsets.ends_of_epochs(client, epochs_to_ask(state, landed))
        comparable = {
            partition: of_partition
            for partition, of_partition in progress(state, landed, epoch_ends).items()
            if of_partition.end is not None and of_partition.has_begun
        }
        policies = setting(client, sorted({partition.topic for partition in comparable}), "cleanup.policy")
    skipped = plan(state, landed, topics.keys(), stops={}, epoch_ends=epoch_ends).left_out
    return _There(
        [
            Range(*partition, of_partition.start, of_partition.landed)
            for partition, of_partition in comparable.items()
            if of_partition.start < of_partition.landed
        ],
        {name for name, policy in policies.items() if "compact" in policy.split(",")},
        absent(table, state, topics) + skipped,
    )


def _pieces(ordered: Numbers) -> list[Span]:
    """Return different offsets in their order as spans."""
    if not len(ordered):
        return []
    ends = np.flatnonzero(np.diff(ordered) != 1)
    firsts = ordered[np.concatenate([[0], ends + 1])].tolist()
    lasts = ordered[np.concatenate([ends, [len(ordered) - 1]])].tolist()
    return list(zip(firsts, lasts, strict=True))


def _some(placed: Mapping[TopicPartition, Spans]) -> Placed:
    return {partition: partition_spans for partition, partition_spans in placed.items() if partition_spans}
