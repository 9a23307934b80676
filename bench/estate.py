"""An estate that is made up: its topics as a survey finds them, and what runs over it would have read.

All of it follows from a partition's and a run's number, so that the same estate has the same objects. Nothing
is asked of a broker, and no data is written: manifests alone are made, by the code that commits a backup's.
"""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from unittest.mock import patch

from aqueduct.common import timestamps
from aqueduct.kafka.client_config import ClientConfig, End
from aqueduct.snapshots.backup import commit
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import Generations, PlannedReading, ReadingResult, Source, plan, settle
from aqueduct.snapshots.backup.selection import GroupSelection, TopicSelection
from aqueduct.snapshots.backup.survey import Surveyed
from aqueduct.store import names
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import GroupOffset, Manifest, Segment, StoredGroup
from aqueduct.store.objects import Entry

BEGAN = 1_767_225_600_000  # 2026-01-01
RECORD_BYTES = 500
STORED_SHARE = 4  # zstd makes it so many times smaller
BATCHES_BYTES = 16 << 10
INDEX_BYTES = 25  # of a batch in a segment's index, about, as it is stored
TOPICS_PER_GROUP = 10


@dataclass(frozen=True)
class Estate:
    """Topics, what they hold at first, and how many of their partitions each run finds changed."""

    topics: int
    partitions: int  # of each
    segments: int = 0  # that the first run finds to read, over all partitions
    segment_bytes: int = 64 << 20
    busy: float = 0  # the share of partitions that have something new in each later run
    busy_bytes: int = 1 << 20  # ... so many bytes of it
    minutes: int = 60  # from run to run

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"team-{at % 97:02}.orders.event-{at:06}" for at in range(self.topics))

    @property
    def all_partitions(self) -> int:
        return self.topics * self.partitions

    @property
    def first_segments(self) -> int:
        return -(-self.segments // self.all_partitions)  # of each partition

    def end(self, partition: int, run: int) -> int:
        """Return the end of the log of one of all partitions, when that run reads it."""
        first = self.first_segments * (self.segment_bytes // RECORD_BYTES)
        return first + self._grown(partition, run) * (self.busy_bytes // RECORD_BYTES)

    def _grown(self, partition: int, run: int) -> int:
        """Return how many runs from the second to that one had something new in the partition.

        In turn, those follow each other with `1 / busy` runs between.
        """
        if not self.busy:
            return 0
        every = round(1 / self.busy)
        return (run - 2 - partition % every) // every + 1 if run - 2 >= partition % every else 0

    def sources(self, run: int) -> Iterator[Source]:
        for at, name in enumerate(self.names):
            ends = tuple(
                self.end(partition, run)
                for partition in range(at * self.partitions, (at + 1) * self.partitions)
            )
            yield Source(
                name=name,
                topic_id=_topic_id(name),
                replication_factor=3,
                compacted=False,
                settings={"min.insync.replicas": "2", "retention.ms": str(86_400_000 * (1 + at % 30))},
                starts=(0,) * self.partitions,
                ends=ends,
                epochs=(at % 7,) * self.partitions,
                epoch_ends=dict(enumerate(ends)),
            )

    def survey(self, run: int) -> Surveyed:
        """Return what a run finds; each topic is read by one group, up to its end."""
        sources = tuple(self.sources(run))
        groups = tuple(
            StoredGroup(
                f"readers-{at:05}",
                "classic",
                tuple(
                    GroupOffset(each.name, partition, end, "")
                    for each in sources[at : at + TOPICS_PER_GROUP]
                    for partition, end in enumerate(each.ends)
                ),
            )
            for at in range(0, len(sources), TOPICS_PER_GROUP)
        )
        return Surveyed(
            cluster="made-up",
            sources=sources,
            groups=groups,
            acls=(),
            quotas=(),
            open_transactions=(),
            groups_ahead=(),
            left_out=(),
        )

    def read(self, reading: PlannedReading, run: int) -> ReadingResult:
        """Return what reading that would have written."""
        size = self.segment_bytes if run == 1 else self.busy_bytes
        step = size // RECORD_BYTES
        segments = tuple(
            _segment(reading, start, start + step, size, run)
            for start in range(reading.start, reading.stop, step)
        )
        return ReadingResult(reading=reading, reached=reading.stop, segments=segments, gaps=())

    def objects(self, runs: int, written: float) -> Iterator[Entry]:
        """Yield all segments and indexes of so many runs, in the order of their paths."""
        for at, name in sorted(enumerate(self.names), key=lambda each: each[1]):
            for partition in sorted(range(self.partitions), key=str):
                for start, run, size in self._pieces(at * self.partitions + partition, runs):
                    stored, index = _stored(size), _index(size)
                    stem = names.stem(name, partition, start, _run(run), None)
                    yield Entry(f"{stem}.index", index, written)
                    yield Entry(f"{stem}.log.zst", stored, written)

    def _pieces(self, partition: int, runs: int) -> Iterator[tuple[int, int, int]]:
        step = self.segment_bytes // RECORD_BYTES
        for at in range(self.first_segments):
            yield at * step, 1, self.segment_bytes
        if self.busy:
            every = round(1 / self.busy)
            for run in range(2 + partition % every, runs + 1, every):
                yield self.end(partition, run - 1), run, self.busy_bytes


ORDER = BackupOrder(
    end=End("cluster", "localhost:9092", ClientConfig()),
    store="the store",
    topics=TopicSelection(),
    groups=GroupSelection(),
)


def run(catalog: Catalog, estate: Estate, survey: Surveyed, number: int) -> Manifest:
    """Do what a run does that found this, without reading any data; return what it committed."""
    parent = catalog.parent()
    now = BEGAN + number * estate.minutes * 60_000
    todo = plan(parent.manifest, survey.sources, now=now, generations=Generations(86_400_000))
    added = settle(todo, [estate.read(each, number) for each in todo.readings])
    with patch.object(timestamps, "now", lambda: now):
        return commit.snapshot(catalog, parent.follow(), ORDER, survey, added, run=_run(number), started=now)


def _topic_id(name: str) -> str:
    return base64.urlsafe_b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()[:22]


def _run(number: int) -> str:
    return f"{number:08x}"


def _stored(size: int) -> int:
    return size // STORED_SHARE


def _index(size: int) -> int:
    return 100 + INDEX_BYTES * (size // BATCHES_BYTES)


def _segment(reading: PlannedReading, start: int, stop: int, size: int, run: int) -> Segment:
    digest = hashlib.sha256(f"{reading.stored_partition}{start}.{run}".encode()).hexdigest()
    return Segment(
        *reading.stored_partition,
        start=start,
        stop=stop,
        first_offset=start,
        last_offset=stop - 1,
        records=stop - start,
        unpacked_bytes=size,
        stored_bytes=_stored(size),
        sha256=digest,
        index_bytes=_index(size),
        index_sha256=hashlib.sha256(digest.encode()).hexdigest(),
        min_time=None,
        max_time=BEGAN + 7 * stop,
        run=_run(run),
        compressed=True,
        generation=False,
    )
