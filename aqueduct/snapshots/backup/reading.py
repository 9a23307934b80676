"""Reads offset ranges of partitions into segments, which do not count until the driver commits them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kafka.errors import KafkaError

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed, Skipped
from aqueduct.kafka import fetch
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import PlannedReading, ReadingResult, shares
from aqueduct.snapshots.backup.survey import CLIENT
from aqueduct.store import keyring, segments
from aqueduct.store.backends import open_store
from aqueduct.store.encryption import DataKey
from aqueduct.store.manifest import Gap, Segment
from aqueduct.store.objects import Objects
from aqueduct.store.segments import SegmentLimits
from aqueduct.work import sampling
from aqueduct.work.crossover import Verb
from aqueduct.work.pace import Pace
from aqueduct.work.progress import Size
from aqueduct.work.workers import Workers

TASK_OFFSETS = 20_000, 5_000_000  # minimum and maximum for each task


@dataclass(frozen=True, kw_only=True)
class BackupShare:
    """The readings of one task, one after another."""

    end: End
    store: str
    run: str
    readings: tuple[PlannedReading, ...]
    limits: SegmentLimits
    bytes_per_second: float | None
    encrypted: bool = False  # with a key that is passed to the tasks


OFFSETS: Size[BackupShare] = Size("offsets", lambda share: sum(map(len, share.readings)))


def read_all(
    order: BackupOrder, readings: Sequence[PlannedReading], run: str, workers: Workers
) -> list[ReadingResult]:
    """Read in as many tasks as keep all workers busy until the end."""
    work = sampling.reading(Verb.BACKUP, order.end, [_range(reading) for reading in readings], workers)
    at_most = workers.task_size(sum(map(len, readings)), TASK_OFFSETS, work)
    rate = workers.per_task(order.bytes_per_second, work)
    tasks = [
        BackupShare(
            end=order.end,
            store=order.store,
            run=run,
            readings=some,
            limits=order.limits,
            bytes_per_second=rate,
            encrypted=bool(order.recipients),
        )
        for some in shares(readings, at_most)
    ]
    return [result for results in workers.parallel(work)(write_share, tasks, OFFSETS) for result in results]


def _range(reading: PlannedReading) -> Range:
    return Range(
        reading.stored_partition.topic, reading.stored_partition.partition, reading.start, reading.stop
    )


def write_share(share: BackupShare) -> list[ReadingResult]:
    """Read the share's readings in order. Partitions that cannot be read further are skipped items."""
    objects = open_store(share.store)
    pace = Pace(share.bytes_per_second)
    results: list[ReadingResult] = []
    away: Failed | None = None
    with connect(share.end, CLIENT) as client:
        for reading in share.readings:
            if away:
                skipped = Skipped.because_of(
                    f"{_range(reading).topic_partition} from offset {reading.start} on", away
                )
                results.append(
                    ReadingResult(
                        reading=reading, reached=reading.start, segments=(), gaps=(), left_out=(skipped,)
                    )
                )
                continue
            results.append(_read(client, objects, share, reading, pace))
            if results[-1].left_out:
                away = _away(share.end)
    return results


def _away(end: End) -> Failed | None:
    """Return an error if no broker answers, so that the task does not wait for each partition; else None."""
    try:
        with connect(end, CLIENT):
            return None
    except Failed as error:
        return error


def _key(share: BackupShare) -> DataKey | None:
    """Return the key with which the share's objects are encrypted; Failed if this process lacks it."""
    key = keyring.lent(share.run) if share.encrypted else None
    if share.encrypted and key is None:
        raise Failed(
            "task-key-missing",
            f"The task did not get the key of run {share.run}. Nothing was written. Run the command again.",
        )
    return key


def _read(
    client: Client, objects: Objects, share: BackupShare, reading: PlannedReading, pace: Pace
) -> ReadingResult:
    writer = segments.Writer(
        objects,
        reading.stored_partition,
        share.run,
        reading.start,
        generation=reading.generation,
        limits=share.limits,
        key=_key(share),
    )
    made: list[Segment | None] = []
    gaps: list[Gap] = []
    left_out: list[Skipped] = []
    reached = reading.start
    offset_range = _range(reading)
    partition = offset_range.topic_partition
    pieces = fetch.read(client, offset_range, topic_id=UUID(reading.topic_id))
    while True:
        try:
            piece = next(pieces, None)
        except (Failed, KafkaError) as error:
            left_out.append(Skipped.because_of(f"{partition} from offset {reached} on", error))
            break
        if piece is None:
            break
        if piece.lost:
            made.append(writer.skip(piece.lost[1]))
            gaps.append(Gap(*reading.stored_partition, *piece.lost))
        made += writer.add(piece.batches, piece.next_offset)
        reached = piece.next_offset
        pace.spent(sum(map(len, piece.batches)))
    made.append(writer.finish())
    return ReadingResult(
        reading=reading,
        reached=reached,
        segments=tuple(filter(None, made)),
        gaps=tuple(gaps),
        left_out=tuple(left_out),
    )
