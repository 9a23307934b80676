"""Compares a snapshot with the live cluster, at the offsets that both have."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import LeftOut, Skipped
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.admin.settings import setting_if_there
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import reader
from aqueduct.mirror.reconcile import run as reconcile
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedLane
from aqueduct.mirror.reconcile.stored import StoredEnd
from aqueduct.mirror.reconcile.verdict import Verdict
from aqueduct.snapshots.drill.outcome import Compared, ComparedLive
from aqueduct.store.snapshots import Snapshot
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-drill"
IN_LIVE = "in the comparison with the live cluster"
TRIES = 3  # if retention deletes records while they are read


def compare(
    live: End, store: StoredEnd, snapshot: Snapshot, topics: Iterable[str], workers: Workers
) -> ComparedLive:
    """Compare topics. Topics that were re-created, and topics of another cluster, are skipped items."""
    flow = ComparedFlow(live, (store,))
    names, compacted, left_out = _same_topics(live, snapshot, topics)
    partitions = reader.known_partitions(live, names, reader.partitions(live)) if names else {}
    places = [
        partition
        for partition in store.partitions
        if partition.topic in names and partition.partition < partitions.get(partition.topic, 0)
    ]
    live_ranges = reader.ranges(live, places)
    behind = dict.fromkeys(names, 0)
    for partition, live_range in live_ranges.items():
        behind[partition.topic] += max(live_range.stop - store.partitions[partition][0].stop, 0)
    cut = tuple(
        f"{tp} ends at {live_range.stop} in the live cluster, and at {store.partitions[tp][0].stop} in the "
        "snapshot"
        for tp, live_range in live_ranges.items()
        if live_range.stop < store.partitions[tp][0].stop
    )
    verdicts, moving = _compare(flow, store, live_ranges, compacted, workers)
    left_out += tuple(
        Skipped(
            f"{partition} {IN_LIVE}",
            "retention deletes records while they are read",
            "records-deleted-while-read",
        )
        for partition in moving
    )
    kept = tuple(verdict for verdict in verdicts if not _is_explained_by_compaction(verdict, compacted))
    recreated = {skipped.what.partition(" ")[0] for skipped in left_out}
    gone = tuple(sorted({*topics} - names - recreated)) if names else ()
    return ComparedLive(
        compared=Compared(flow, kept),
        thinned=len(verdicts) - len(kept),
        cut=cut,
        behind=behind,
        left_out=left_out,
        gone=gone,
    )


def _same_topics(live: End, snapshot: Snapshot, topics: Iterable[str]) -> tuple[set[str], set[str], LeftOut]:
    """Return the topics with the same offsets in both, the compacted ones, and the skipped items."""
    with connect(live, CLIENT) as client:
        cluster, live_topics = cluster_id(client), client.topics()
        policies = setting_if_there(client, snapshot.topics.keys() & live_topics.keys(), "cleanup.policy")
    names = sorted(topics)
    if cluster != snapshot.manifest.cluster:
        reason = f"the live cluster is {cluster}, but the snapshot is of cluster {snapshot.manifest.cluster}"
        return set(), set(), (Skipped(f"everything {IN_LIVE}", reason, "live-cluster-differs"),)
    ids = {name: snapshot.topics[name].topic_id for name in names if name in live_topics}
    others = [name for name, topic_id in ids.items() if str(live_topics[name].id) != topic_id]
    left_out = [
        Skipped(f"{name} {IN_LIVE}", "it was re-created since the backup", "topic-recreated")
        for name in others
    ]
    if names and not ids:  # a deleted topic is no fault; if none is visible, rights may be missing
        reason = "the client may describe none of these topics in the live cluster"
        left_out.append(Skipped(f"everything {IN_LIVE}", reason, "live-topics-not-visible"))
    same = ids.keys() - set(others)
    # A topic may have become compacted since the backup, and then has fewer records.
    compacted = {
        name for name in same if "compact" in policies.get(name, "") or snapshot.topics[name].compacted
    }
    return same, compacted, tuple(left_out)


def _compare(
    flow: ComparedFlow,
    store: StoredEnd,
    live_ranges: Mapping[TopicPartition, Range],
    compacted: Set[str],
    workers: Workers,
) -> tuple[list[Verdict], list[TopicPartition]]:
    """Return the verdicts, and the partitions whose start advanced in every attempt."""
    verdicts: list[Verdict] = []
    for _ in range(TRIES):
        both = (
            _common_lane(live_range, store.partitions[partition][0])
            for partition, live_range in live_ranges.items()
        )
        lanes = [lane for lane in both if lane]
        if not lanes:
            return verdicts, []
        compared = reconcile.compare(flow, lanes, workers)
        unequal = [
            _partition_of(verdict)
            for verdict in compared
            if not verdict.equal and not _is_explained_by_compaction(verdict, compacted)
        ]
        now = reconcile.ranges(flow.target, unequal) if unequal else {}
        moved = {
            partition: live_range
            for partition, live_range in now.items()
            if live_range.start > live_ranges[partition].start
        }
        verdicts += (verdict for verdict in compared if _partition_of(verdict) not in moved)
        live_ranges = {
            partition: replace(live_ranges[partition], start=live_range.start)
            for partition, live_range in moved.items()
        }
    return verdicts, sorted(live_ranges)


def _partition_of(verdict: Verdict) -> TopicPartition:
    return TopicPartition(verdict.lane.topic, verdict.lane.partition)


def _common_lane(live_range: Range, covered: Range) -> ComparedLane | None:
    start, stop = max(live_range.start, covered.start), min(live_range.stop, covered.stop)
    if start >= stop:
        return None
    both = Range(covered.topic, covered.partition, start, stop)
    return ComparedLane(covered.topic, covered.partition, (both, both))


def _is_explained_by_compaction(verdict: Verdict, compacted: Set[str]) -> bool:
    """Return whether compaction explains the difference: the live cluster only lacks records."""
    difference = verdict.difference
    return (
        verdict.lane.topic in compacted
        and not verdict.equal
        and difference is not None
        and bool(difference.unmatched)
        and difference.unmatched[0].records == 0
    )
