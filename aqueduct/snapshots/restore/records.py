"""Writes the records of partitions, and their progress, in transactions."""

import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.batches.batch import Batch, Unopened
from aqueduct.kafka.batches.cutting import Window, cut
from aqueduct.kafka.batches.produce import ready
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer, until_committed
from aqueduct.snapshots.restore import progress, topics
from aqueduct.snapshots.restore.job import Job, connected
from aqueduct.snapshots.restore.outcome import Written
from aqueduct.snapshots.restore.plan import RestoreLane, shares
from aqueduct.snapshots.restore.progress import RestoreProgress, UnopenedBatch
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.manifest import Segment
from aqueduct.store.objects import Objects
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.workers import Workers

TRANSACTION_BYTES = 64 << 20
TRANSACTION_SECONDS = 30
TIMEOUT_SECONDS = 300  # after which the coordinator aborts the transaction of a killed run
AHEAD_BYTES = 4 << 20  # of objects that are read while earlier ones are written
READERS = 8
MOST_UNOPENED = 50  # batches of a partition: more do not fit into the metadata of its position

StorePosition = tuple[int, RestoreProgress]  # the next offset in the store


@dataclass(frozen=True, kw_only=True)
class RestoreShare:
    """The lanes that one task restores, one after another."""

    end: End
    store: str
    restore_id: str
    run: str
    number: int
    lanes: tuple[RestoreLane, ...]
    window: Window  # of timestamps
    topics: Mapping[str, tuple[UUID | None, int]]  # id, max.message.bytes


BYTES: Size[RestoreShare] = Size(
    "MB, unpacked", lambda share: sum(lane.unpacked_bytes for lane in share.lanes), MEGABYTE
)


def write(job: Job, workers: Workers) -> dict[TopicPartition, Written]:
    """Write the records that no earlier run has written; return the results by partition of the target."""
    order = job.order
    with connected(order) as client:
        limits = topics.limits(client, client.topics(job.plan.topics))
    run = secrets.token_hex(4)
    tasks = [
        RestoreShare(
            end=order.tasks_end,
            store=order.store,
            restore_id=job.id,
            run=run,
            number=number,
            lanes=lanes,
            window=job.plan.window,
            topics={lane.topic: limits[lane.topic] for lane in lanes},
        )
        for number, lanes in enumerate(shares(job.lanes))
    ]
    work = Work(Verb.RESTORE, sum(lane.unpacked_bytes for lane in job.lanes), len(tasks))
    written_shares = workers.parallel(work)(restore, tasks, BYTES)
    return {partition: part for written in written_shares for partition, part in written.items()}


def left_out(written: Mapping[TopicPartition, Written]) -> LeftOut:
    """Return the batches that could not be restored as skipped items."""
    return tuple(
        Skipped(
            f"offsets {batch.first} to {batch.last} of the backup of {partition}",
            f"the batch with {count(batch.records, 'record')} decompresses to more than the limit",
            "decompression-limit-exceeded",
        )
        for partition, restored in written.items()
        for batch in restored.progress.unopened
    )


def restore(share: RestoreShare) -> dict[TopicPartition, Written]:
    """Write the missing records of a share, and return what this run wrote, in all attempts of the task.

    Failed (Fenced) if another process writes the same share.
    """
    objects = open_store(share.store)
    name = progress.group(share.restore_id)
    with connect(share.end, name) as client:
        producer = TransactionalProducer(client, f"{name}-{share.number}", TIMEOUT_SECONDS, keep_times=True)

        def attempt(progress: Callable[[], None]) -> dict[TopicPartition, Written]:
            producer.begin()
            task = _Task(client, producer, objects, share, progress)
            task.run()
            return {
                tp: Written(restored, *restored.by(share.run)) for tp, (_, restored) in task.positions.items()
            }

        return until_committed(client, attempt, "; run the command again to continue")


def positions(
    client: Client, restore_id: str, partitions: Iterable[TopicPartition], topics: Mapping[str, UUID | None]
) -> dict[TopicPartition, StorePosition]:
    """Return the progress in these partitions, if their topics still have these ids.

    Waits for open transactions: `begin` of a producer ends those of a killed run.
    """
    return _positions(groups.progress(client, progress.group(restore_id), partitions), topics)


def begun(client: Client, restore_id: str, topics: Mapping[str, UUID | None]) -> set[str]:
    """Return the topics, compared by id, with a committed transaction of this restore."""
    name = progress.group(restore_id)
    return {topic for topic, _ in _positions(groups.committed(client, [name])[name], topics)}


def _positions(
    committed: groups.CommittedOffsets, topics: Mapping[str, UUID | None]
) -> dict[TopicPartition, StorePosition]:
    stored_positions = {}
    for partition, (offset, metadata) in committed.items():
        restored = progress.loads(RestoreProgress, metadata)
        if restored is None:
            raise Failed(
                "restore-version-mismatch",
                f"Another version of Aqueduct began this restore of {partition}. Complete it with that "
                "version. Or delete its topics, which deletes their records, and run the command again.",
            )
        if partition.topic in topics and restored.topic_id == str(topics[partition.topic]):
            stored_positions[partition] = offset, restored
    return stored_positions


class _Task:
    """One attempt of a task: from the start of its producer to the next error, or to the end."""

    def __init__(
        self,
        client: Client,
        producer: TransactionalProducer,
        objects: Objects,
        share: RestoreShare,
        committed: Callable[[], None],
    ) -> None:
        self._client = client
        self._producer = producer
        self._objects = objects
        self._share = share
        self._committed = committed
        ids = {topic: topic_id for topic, (topic_id, _) in share.topics.items()}
        stored_positions = positions(client, share.restore_id, (lane.target for lane in share.lanes), ids)
        self._fresh = {lane.target for lane in share.lanes} - stored_positions.keys()
        ends = offsets.ends(client, self._fresh, "read_uncommitted")
        self.positions: dict[TopicPartition, StorePosition] = {
            lane.target: stored_positions.get(lane.target)
            or (
                lane.start,
                RestoreProgress(
                    topic_id=str(ids[lane.topic]), start=ends[lane.target], records=0, bytes=0, producers=()
                ),
            )
            for lane in share.lanes
        }
        stable = offsets.ends(client, stored_positions)
        for partition in stored_positions:
            self._hole(partition, stable[partition] - self.positions[partition][1].end)
        self._begin()

    def _hole(self, partition: TopicPartition, size: int) -> None:
        """Count offsets after the written ones that are no records: those of a killed run."""
        offset, now = self.positions[partition]
        if size > 0 and not topics.visible(self._client, Range(*partition, now.end, now.end + size)):
            self.positions[partition] = offset, replace(now, holes=now.holes + size)

    def _begin(self) -> None:
        self._changed: set[TopicPartition] = set()
        self._bytes = 0
        self._began = time.monotonic()

    def run(self) -> None:
        # Also for an empty partition, because the former end of its log must be stored.
        behind = [
            lane
            for lane in self._share.lanes
            if lane.target in self._fresh or self.positions[lane.target][0] < lane.stop
        ]
        unwritten = (
            (lane, segment)
            for lane in behind
            for segment in lane.segments
            if segment.stop > self.positions[lane.target][0]
        )
        self._producer.enlist(lane.target for lane in behind if lane.segments)
        for lane, reads in groupby(_read_ahead(self._objects, unwritten), key=itemgetter(0)):
            self._write(lane, ((segment, stored) for _, segment, stored in reads))
        for lane in behind:
            self._reached(lane, lane.stop, self.positions[lane.target][1])
        self._commit()

    def _write(self, lane: RestoreLane, stored: Iterable[tuple[Segment, memoryview]]) -> None:
        batches = self._batches(lane, stored)
        max_bytes = self._share.topics[lane.topic][1]
        try:
            for batch in ready(batches, max_bytes=max_bytes, leave_out=partial(self._leave_out, lane)):
                self._producer.send(*lane.target, batch)
                self._bytes += len(batch.data)
                _, before = self.positions[lane.target]
                producers = dict.fromkeys((*before.producers, self._producer.producer_id))
                written = replace(
                    before.written(self._share.run, batch.count, len(batch.data)),
                    producers=tuple(producers),
                    oldest=min(self._oldest, self._oldest if before.oldest is None else before.oldest),
                )
                self._reached(lane, batch.next_offset, written)
                if self._due():
                    self._commit()
        except Failed as error:
            raise error.concerning(lane) from error

    def _batches(self, lane: RestoreLane, stored: Iterable[tuple[Segment, memoryview]]) -> Iterator[Batch]:
        """Yield the batches to write, cut if a part of them is outside the range."""
        self._oldest = sys.maxsize
        window = replace(self._share.window, start=self.positions[lane.target][0])
        for segment, content in stored:
            for batch in segments.batches(segment, content, check_crc=False):  # its SHA-256 was checked
                try:
                    kept = cut(batch, window)
                except Unopened as error:
                    self._leave_out(lane, batch, error)
                    continue
                if kept:
                    self._oldest = min(self._oldest, kept.max_time)
                    yield kept

    def _leave_out(self, lane: RestoreLane, batch: Batch, error: Unopened) -> None:
        """Store a batch that cannot be decompressed; the position passes it with the next records."""
        offset, now = self.positions[lane.target]
        unopened = UnopenedBatch(batch.base_offset, batch.last_offset, batch.count)
        if unopened in now.unopened:  # by an earlier attempt
            return
        if len(now.unopened) == MOST_UNOPENED:
            raise error
        self.positions[lane.target] = offset, replace(now, unopened=(*now.unopened, unopened))

    def _reached(self, lane: RestoreLane, offset: int, now: RestoreProgress) -> None:
        self.positions[lane.target] = offset, now
        self._changed.add(lane.target)

    def _due(self) -> bool:
        long = time.monotonic() > self._began + TRANSACTION_SECONDS
        return long or self._bytes >= TRANSACTION_BYTES

    def _commit(self) -> None:
        if not self._changed:
            return
        for partition in self._producer.enlisted:
            offset, now = self.positions[partition]
            self.positions[partition] = offset, replace(now, holes=now.holes + 1)
        changed = {partition: self.positions[partition] for partition in self._changed}
        committed = {
            partition: (offset, progress.dumps(now, str(partition)))
            for partition, (offset, now) in changed.items()
        }
        self._producer.commit_offsets(progress.group(self._share.restore_id), committed)
        self._producer.commit()
        self._committed()
        self._producer.begin()
        self._begin()


def _read_ahead(
    objects: Objects, unwritten: Iterable[tuple[RestoreLane, Segment]]
) -> Iterator[tuple[RestoreLane, Segment, memoryview]]:
    """Yield each segment with its object, in order, and read the next ones at the same time."""
    coming: deque[tuple[RestoreLane, Segment, Future[memoryview]]] = deque()
    ahead = 0
    with ThreadPoolExecutor(READERS) as pool:
        todo = iter(unwritten)
        following = next(todo, None)
        while following or coming:
            while following and (not coming or ahead < AHEAD_BYTES):
                lane, segment = following
                coming.append((lane, segment, pool.submit(segments.read, objects, segment)))
                ahead += segment.stored_bytes
                following = next(todo, None)
            lane, segment, reading = coming.popleft()
            stored = reading.result()
            ahead -= segment.stored_bytes
            del reading
            yield lane, segment, stored
            del stored
