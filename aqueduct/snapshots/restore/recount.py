"""The final check of a restore: the target must contain what was written.

For each partition, the offsets are added up: the former end of its log, the restored records and the offsets
without records must reach the present end. Only the batch headers of partitions that do not add up are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed
from aqueduct.kafka import fetch, offsets
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.restore.job import CLIENT, Job, connected
from aqueduct.snapshots.restore.outcome import Recount, Written
from aqueduct.snapshots.restore.progress import RestoreProgress, TopicState
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.workers import Workers

SHARE_OFFSETS = 5_000_000


@dataclass(frozen=True)
class PartitionRead:
    """A partition whose batch headers are read."""

    part: Range
    done: RestoreProgress


@dataclass(frozen=True)
class RecountShare:
    """The partitions that one task reads."""

    end: End
    readings: tuple[PartitionRead, ...]


def check(
    job: Job,
    states: Mapping[str, TopicState],
    written: Mapping[TopicPartition, Written],
    workers: Workers,
) -> Recount:
    """Check the topics that this run restored; Failed if they differ from what was written.

    With --append, other clients may write to the topics. Their records are not counted.
    """
    # Another run of this restore may have completed meanwhile: then retention is enabled again.
    open_topics = {name: state for name, state in states.items() if not state.done}
    with connected(job.order) as client:
        wrong = dict(_other_topics(client, job, open_topics))
        lanes = [lane for lane in job.lanes if lane.topic in open_topics.keys() - wrong.keys()]
        partitions = [lane.target for lane in lanes]
        starts = offsets.log_starts(client, partitions)
        ends, open_ = offsets.settled(client, partitions)
    readings = []
    for lane in lanes:
        progress, name = written[lane.target].progress, str(lane.target)
        accounted = progress.records + sum(batch.records for batch in progress.unopened)
        if not job.plan.window.timed and accounted != lane.records:
            wrong[name] = (
                f"{count(accounted, 'record')} written or skipped, but {lane.records:,} in the snapshot"
            )
        elif progress.records and starts[lane.target] > progress.start:
            wrong[name] = f"records before offset {starts[lane.target]:,} were deleted"
        elif ends[lane.target] < progress.end:
            wrong[name] = f"its log ended at {progress.end:,}, but now ends at {ends[lane.target]:,}"
        elif job.order.append:
            continue
        elif lane.target in open_:
            wrong[name] = "another producer has an open transaction in it"
        elif ends[lane.target] > progress.end:
            whole = Range(*lane.target, progress.start, ends[lane.target])
            readings.append(PartitionRead(whole, progress))
    if readings and not wrong:
        wrong |= _read(job, readings, workers)
    if wrong:
        changes = some(f"{name} ({reason})" for name, reason in sorted(wrong.items()))
        raise Failed(
            "target-changed",
            f"The restored topics differ from what was written: {changes}. Stop the program that changed "
            f"them. Then delete {'this topic' if len(wrong) == 1 else 'these topics'}, which deletes the "
            "records, and run the command again.",
        )
    return Recount(len(lanes), len(readings))


def _other_topics(client: Client, job: Job, states: Mapping[str, TopicState]) -> Iterator[tuple[str, str]]:
    existing = client.topics(states)
    for name, state in states.items():
        if name not in existing:
            yield name, "it was deleted"
        elif str(existing[name].id) != state.topic_id:
            yield name, "it was deleted and re-created"
        elif len(existing[name].partitions) != len(job.plan.partitions(name)):
            yield name, "partitions were added"


def _read(job: Job, readings: list[PartitionRead], workers: Workers) -> dict[str, str]:
    tasks = [
        RecountShare(job.order.tasks_end, tuple(some_readings))
        for some_readings in in_lists(readings, SHARE_OFFSETS, lambda reading: len(reading.part))
    ]
    partitions = {reading.part.topic_partition for reading in readings}
    size = sum(lane.unpacked_bytes for lane in job.lanes if lane.target in partitions)
    work = Work(Verb.VERIFY, size, len(tasks))
    return {
        name: reason for wrong in workers.parallel(work)(recount, tasks) for name, reason in wrong.items()
    }


def recount(share: RecountShare) -> dict[str, str]:
    """Count records by batch headers; return the partitions with other records than the restored ones."""
    wrong = {}
    with connect(share.end, CLIENT) as client:
        for reading in share.readings:
            ours = others = 0
            for piece in fetch.read(client, reading.part):
                for batch in piece.batches:
                    if batch.producer_id in reading.done.producers:
                        ours += batch.count
                    else:
                        others += batch.count
            if others:
                wrong[str(reading.part.topic_partition)] = f"{count(others, 'record')} of another producer"
            elif ours != reading.done.records:
                reason = f"{ours:,} of {count(reading.done.records, 'restored record')}"
                wrong[str(reading.part.topic_partition)] = reason
    return wrong
