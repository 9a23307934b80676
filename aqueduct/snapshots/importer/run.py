"""Reads the files of another backup program into segments of a new store, and commits its first snapshot.

The segments do not count before the commit. Each task reads partitions, file by file.
"""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np

from aqueduct import DISTRIBUTION
from aqueduct.common import timestamps
from aqueduct.common.wording import count
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.importer import kafka_backup, s3_binary
from aqueduct.snapshots.importer.fields import batches
from aqueduct.snapshots.importer.layout import ForeignPartition, ForeignStore
from aqueduct.snapshots.importer.outcome import ImportedPartition, ImportOutcome
from aqueduct.store import url, validation
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import (
    Gap,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredPartition,
    StoredTopic,
)
from aqueduct.store.objects import Exists, MissingObject, Objects
from aqueduct.store.segments import SegmentLimits, Writer
from aqueduct.store.snapshots import Fold
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.progress import MEGABYTE, Size, note
from aqueduct.work.workers import Workers

READERS = {"kafka-backup": kafka_backup.read, "s3-binary": s3_binary.read}
SHARE_BYTES = 64 << 20
SHARE_PARTITIONS = 500
MOST_FILE_BYTES = 2 << 30  # of a file, which is in memory; the default of the programs is 128 MB
FIRST = 1  # the only instance
UNKNOWN = "unknown"  # the id of a topic, or of a cluster


@dataclass(frozen=True, kw_only=True)
class ImportOrder:
    """The request for an import: the other program's files, and the new store."""

    source: str  # URL
    layout: str
    store: str  # URL
    replication_factor: int = 3
    limits: SegmentLimits = field(default_factory=SegmentLimits)


@dataclass(frozen=True, kw_only=True)
class ImportShare:
    """The partitions that one task imports."""

    source: str
    layout: str
    store: str
    run: str
    partitions: tuple[ForeignPartition, ...]
    limits: SegmentLimits


SIZE: Size[ImportShare] = Size(
    "MB", lambda share: sum(partition.size for partition in share.partitions), MEGABYTE
)


def bring_in(order: ImportOrder, workers: Workers) -> ImportOutcome:
    """Import once. Refused if the layout is unknown, or the store already has snapshots.

    Failed, with nothing committed, if a file is damaged or missing.
    """
    began, started = time.monotonic(), timestamps.now()
    _refuse_nested(order)
    foreign = _read_source(open_store(order.source), order)
    catalog = Catalog.open_or_make(open_store(order.store))
    if catalog.numbers():
        raise Refused(
            "import-store-not-empty",
            f"{order.store} already has snapshots. Import into a new store, and restore from it.",
        )
    run = secrets.token_hex(4)
    note(
        f"Importing {count(len(foreign.partitions), 'partition')} of {count(len(foreign.topics), 'topic')}, "
        f"{sum(partition.size for partition in foreign.partitions) / 1e6:,.1f} MB."
    )
    tasks = _shares(order, foreign, run)
    size = sum(partition.size for partition in foreign.partitions)
    work = Work(Verb.EXPORT, size, len(tasks))  # an import opens every record, too
    task_lists = workers.parallel(work)(import_share, tasks, SIZE)
    imported = tuple(partition for of_task in task_lists for partition in of_task)
    manifest = _manifest(order, foreign, imported, catalog, run, started)
    _check(manifest, order)
    _commit(catalog, manifest, order)
    stored = sum(segment.stored_bytes + segment.index_bytes for segment in manifest.segments)
    left_out = foreign.lacks + tuple(_unexplained(imported))
    return ImportOutcome(
        foreign=foreign,
        manifest=manifest,
        imported=imported,
        stored_bytes=stored,
        left_out=left_out,
        seconds=time.monotonic() - began,
    )


def _refuse_nested(order: ImportOrder) -> None:
    for one, other in ((order.source, order.store), (order.store, order.source)):
        if f"{url.parse(one)}/".startswith(f"{url.parse(other)}/"):
            raise Refused(
                "folder-inside-store",
                f"One of --from {order.source} and --store {order.store} is inside the other. Pass another "
                "--store.",
            )


def _shares(order: ImportOrder, foreign: ForeignStore, run: str) -> list[ImportShare]:
    return [
        ImportShare(
            source=order.source,
            layout=order.layout,
            store=order.store,
            run=run,
            partitions=tuple(partitions),
            limits=order.limits,
        )
        for partitions in in_lists(
            foreign.partitions, SHARE_BYTES, lambda partition: partition.size, most=SHARE_PARTITIONS
        )
    ]


def _commit(catalog: Catalog, manifest: Manifest, order: ImportOrder) -> None:
    try:
        catalog.commit(manifest)
    except Exists:
        raise Failed(
            "snapshot-number-taken",
            f"Another run committed to {order.store} first, so this one committed nothing. Import into a new "
            "store.",
        ) from None


def _read_source(objects: Objects, order: ImportOrder) -> ForeignStore:
    if order.layout == "s3-binary":
        return s3_binary.store(objects.list(""), order.source)
    try:
        content = objects.read(kafka_backup.MANIFEST, at_most=kafka_backup.MOST_MANIFEST_BYTES)
    except MissingObject:
        raise Refused(
            "import-source-unknown",
            f"{order.source} has no {kafka_backup.MANIFEST}. Pass the folder of one backup with --from: its "
            "name is the backup_id.",
        ) from None
    try:
        groups = objects.read(kafka_backup.GROUPS, at_most=kafka_backup.MOST_MANIFEST_BYTES)
    except MissingObject:
        groups = None
    return kafka_backup.store(content, groups, order.source)


def import_share(share: ImportShare) -> list[ImportedPartition]:
    source, store = open_store(share.source), open_store(share.store)
    return [_import(source, store, share, partition) for partition in share.partitions]


def _import(
    source: Objects, store: Objects, share: ImportShare, partition: ForeignPartition
) -> ImportedPartition:
    read = READERS[share.layout]
    begun: _Import | None = None
    todo = list(partition.missing)
    for file in partition.files:
        records, stop = read(_file(source, share, file.path, file.size), file, share.source)
        if not len(records):
            continue
        first = int(records.offsets[0])
        begun = begun or _Import(
            store, share, partition, min([first, *(missing.start for missing in todo[:1])])
        )
        while todo and todo[0].start < first:
            begun.miss(todo[0].start, min(todo.pop(0).stop, first))
        begun.add(records, stop)
        while todo and todo[0].stop <= begun.reached:
            todo.pop(0)  # reported as missing, but a file contains these offsets
    if todo and begun is None:
        begun = _Import(store, share, partition, todo[0].start)
    for missing in todo:
        if begun:
            begun.miss(*missing)
    return (
        begun.done()
        if begun
        else ImportedPartition(
            partition=partition, start=0, stop=0, segments=(), gaps=(), twice=0, holes=0, others=0
        )
    )


class _Import:
    """The import of one partition, file by file."""

    def __init__(self, store: Objects, share: ImportShare, partition: ForeignPartition, start: int) -> None:
        self._partition = partition
        self._place = StoredPartition(partition.topic, FIRST, partition.partition)
        self._writer = Writer(store, self._place, share.run, start, generation=False, limits=share.limits)
        self._made: list[Segment | None] = []
        self._gaps: list[Gap] = []
        self._start = self.reached = start
        self._twice = self._holes = self._others = 0
        self._last: Records | None = None  # of the previous file

    def add(self, records: Records, stop: int) -> None:
        """Add the records of a file, without those of offsets that earlier files had."""
        again = int(np.searchsorted(records.offsets, self.reached))
        self._twice += again
        if again and self._last:
            self._others += _count_differing(records[:again], self._last)
        self._last = records
        if again < len(records):
            kept = records[again:]
            self._holes += int(kept.offsets[-1]) + 1 - self.reached - len(kept)
            self._made += self._writer.add(list(batches(kept)), stop)
            self.reached = stop

    def miss(self, start: int, stop: int) -> None:
        """Add offsets that are reported as missing, unless a file contained them."""
        if stop <= self.reached:
            return
        if start > self.reached:
            self._holes += start - self.reached
            self._made += self._writer.add([], start)
        self._gaps.append(Gap(*self._place, max(start, self.reached), stop))
        self._made.append(self._writer.skip(stop))
        self.reached = stop

    def done(self) -> ImportedPartition:
        self._made.append(self._writer.finish())
        return ImportedPartition(
            partition=self._partition,
            start=self._start,
            stop=self.reached,
            segments=tuple(filter(None, self._made)),
            gaps=tuple(self._gaps),
            twice=self._twice,
            holes=self._holes,
            others=self._others,
        )


def _count_differing(some: Records, others: Records) -> int:
    """Return the number of records that differ from the other record at the same offset."""
    _, mine, theirs = np.intersect1d(some.offsets, others.offsets, assume_unique=True, return_indices=True)
    return sum(
        bool(some.times[one] != others.times[other]) or some.bodies[one] != others.bodies[other]
        for one, other in zip(mine.tolist(), theirs.tolist(), strict=True)
    )


def _file(source: Objects, share: ImportShare, path: str, size: int) -> memoryview:
    try:
        content = source.read(path, at_most=MOST_FILE_BYTES)
    except MissingObject:
        raise Failed(
            "import-file-missing",
            f"{path} is missing in {share.source}. Nothing was committed. Restore the file, or import "
            "another backup.",
        ) from None
    if size and len(content) != size:
        raise Failed(
            "import-file-damaged",
            f"{share.source}/{path} has {len(content)} bytes, but its listed size is {size}.",
        )
    return content


def _manifest(
    order: ImportOrder,
    foreign: ForeignStore,
    imported: Sequence[ImportedPartition],
    catalog: Catalog,
    run: str,
    started: int,
) -> Manifest:
    starts = {name: [0] * partitions for name, partitions in foreign.topics.items()}
    positions = {name: [0] * partitions for name, partitions in foreign.topics.items()}
    for part in imported:
        starts[part.partition.topic][part.partition.partition] = part.start
        positions[part.partition.topic][part.partition.partition] = part.stop
    now = timestamps.now()
    return Manifest(
        chain=catalog.parent().follow(),
        store=catalog.id,
        run=run,
        created=now,
        started=started,
        ended=now,
        cluster=foreign.cluster or UNKNOWN,
        version=version(DISTRIBUTION),
        options={"import": foreign.program, "from": order.source},
        starts={(name, FIRST): tuple(offsets) for name, offsets in starts.items()},
        positions={(name, FIRST): tuple(offsets) for name, offsets in positions.items()},
        topics=tuple(
            StoredTopic(
                name=name,
                topic_id=UNKNOWN,
                partitions=partitions,
                replication_factor=order.replication_factor,
                compacted=False,
                settings={},
                instances=(Instance(FIRST, UNKNOWN, InstanceState.ACTIVATE, started),),
            )
            for name, partitions in sorted(foreign.topics.items())
        ),
        segments=tuple(segment for part in imported for segment in part.segments),
        gaps=tuple(gap for part in imported for gap in part.gaps),
        groups=foreign.groups,
        acls=(),
        quotas=(),
        open_transactions=(),
        groups_ahead=(),
    )


def _check(manifest: Manifest, order: ImportOrder) -> None:
    """Raise Failed if the other program's store contains something that a snapshot cannot contain."""
    try:
        Fold().add(manifest)
        if fault := validation.fault(manifest):
            raise Failed("import-manifest-invalid", f"{fault}.")
    except Failed as error:
        raise Failed(
            "import-manifest-invalid",
            f"{order.source} cannot be converted to a snapshot. Nothing was committed. {error}",
        ) from None


def _unexplained(imported: Sequence[ImportedPartition]) -> Iterator[Skipped]:
    for part in imported:
        if part.others:
            yield Skipped(
                f"{count(part.others, 'record')} of {part.partition}",
                "the previous file has other records at the same offsets, and those were imported. The topic "
                "may have been re-created, and backed up to the same folder",
                "import-records-differ",
            )
        if part.holes:
            yield Skipped(
                f"{count(part.holes, 'offset')} of {part.partition} between {part.start} and {part.stop - 1}",
                "the files contain no record at these offsets; possible reasons are transaction markers, "
                "compaction and loss",
                "import-offsets-unexplained",
            )
