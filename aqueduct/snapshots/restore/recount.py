"""A second look at what was restored, before anyone is told that it is there.

Offsets are added up: a partition's log goes from where it ended before, over the records and the holes that
this restore counted, to its end. Only a partition that does not add up is read, by its batches' headers.
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
    """A partition whose batch headers are counted."""

    part: Range
    done: RestoreProgress


@dataclass(frozen=True)
class RecountShare:
    """The partitions that one task counts."""

    end: End
    readings: tuple[PartitionRead, ...]


def check(
    job: Job,
    states: Mapping[str, TopicState],
    written: Mapping[TopicPartition, Written],
    workers: Workers,
) -> Recount:
    """Look again at the topics that this run restored; Failed if they are not what was written.

    With --append others may write there, so that what they wrote is none of ours, and isn't counted.
    """
    # Another run of this restore may have ended meanwhile: then retention holds again.
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
                f"{count(accounted, 'record')} written or skipped, of {lane.records:,} of the snapshot"
            )
        elif progress.records and starts[lane.target] > progress.start:
            wrong[name] = f"records before offset {starts[lane.target]:,} were deleted"
        elif ends[lane.target] < progress.end:
            wrong[name] = f"its log ends at {ends[lane.target]:,}, and ended at {progress.end:,}"
        elif job.order.append:
            continue
        elif lane.target in open_:
            wrong[name] = "another producer's transaction is open there"
        elif ends[lane.target] > progress.end:
            whole = Range(*lane.target, progress.start, ends[lane.target])
            readings.append(PartitionRead(whole, progress))
    if readings and not wrong:
        wrong |= _read(job, readings, workers)
    if wrong:
        changes = some(f"{name} ({reason})" for name, reason in sorted(wrong.items()))
        raise Failed(
            "target-changed",
            f"The target does not contain what was restored: {changes}. Stop the program that changed it, "
            f"delete {'this topic' if len(wrong) == 1 else 'these topics'}, which deletes the records, "
            "and run the command again.",
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
            yield name, "it got more partitions"


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
    """Count records by their batches' headers; return which partitions hold others than were restored."""
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
                reason = f"{count(ours, 'record')} of {reading.done.records:,} that were restored"
                wrong[str(reading.part.topic_partition)] = reason
    return wrong
