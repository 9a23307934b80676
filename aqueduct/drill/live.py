"""The snapshot against the cluster that it was made of, at the offsets that both have."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from aqueduct.drill.outcome import Compared, ComparedLive
from aqueduct.errors import LeftOut, Skipped
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.admin.settings import setting_if_there
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range
from aqueduct.reconcile import reader
from aqueduct.reconcile import run as reconcile
from aqueduct.reconcile.flow import ComparedFlow, ComparedLane
from aqueduct.reconcile.stored import StoredEnd
from aqueduct.reconcile.verdict import Verdict
from aqueduct.store.snapshots import Snapshot
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-drill"
IN_LIVE = "in the comparison with the live cluster"
TRIES = 3  # while retention deletes what is being read


def compare(
    live: End, store: StoredEnd, snapshot: Snapshot, topics: Iterable[str], workers: Workers
) -> ComparedLive:
    """Compare topics; those that are others by now, or of another cluster, are left out, with why."""
    flow = ComparedFlow(live, (store,))
    names, compacted, left_out = _same_topics(live, snapshot, topics)
    partitions = reader.partitions(live) if names else {}
    places = [
        place
        for place in store.partitions
        if place.topic in names and place.partition < partitions.get(place.topic, 0)
    ]
    found = reader.ranges(live, places)
    behind = dict.fromkeys(names, 0)
    for place, there in found.items():
        behind[place.topic] += max(there.stop - store.partitions[place][0].stop, 0)
    cut = tuple(
        f"{place} ends at {there.stop} in the live cluster, and at {store.partitions[place][0].stop} in the "
        "snapshot"
        for place, there in found.items()
        if there.stop < store.partitions[place][0].stop
    )
    verdicts, moving = _compare(flow, store, found, compacted, workers)
    left_out += tuple(
        Skipped(f"{place} {IN_LIVE}", "retention deletes what is being read") for place in moving
    )
    kept = tuple(each for each in verdicts if not _thinner(each, compacted))
    recreated = {each.what.partition(" ")[0] for each in left_out}
    gone = tuple(sorted({*topics} - names - recreated)) if names else ()
    return ComparedLive(Compared(flow, kept), len(verdicts) - len(kept), cut, behind, left_out, gone)


def _same_topics(live: End, snapshot: Snapshot, topics: Iterable[str]) -> tuple[set[str], set[str], LeftOut]:
    """Return the topics whose offsets mean the same in both, which are compacted, and why others' do not."""
    with connect(live, CLIENT) as client:
        cluster, there = cluster_id(client), client.topics()
        policies = setting_if_there(client, snapshot.topics.keys() & there.keys(), "cleanup.policy")
    wanted = sorted(topics)
    if cluster != snapshot.manifest.cluster:
        why = f"its cluster is {cluster}, and that of the snapshot was {snapshot.manifest.cluster}"
        return set(), set(), (Skipped(f"everything {IN_LIVE}", why),)
    ids = {name: snapshot.topics[name].topic_id for name in wanted if name in there}
    others = [name for name, known in ids.items() if str(there[name].id) != known]
    left_out = [Skipped(f"{name} {IN_LIVE}", "it was recreated since", "topic-recreated") for name in others]
    if wanted and not ids:  # one that was deleted is no fault; of none, the rights may be
        why = "the live cluster has none of the topics that its client may describe"
        left_out.append(Skipped(f"everything {IN_LIVE}", why))
    same = ids.keys() - set(others)
    # It may have become so since, and then has fewer records than it had.
    compacted = {
        name for name in same if "compact" in policies.get(name, "") or snapshot.topics[name].compacted
    }
    return same, compacted, tuple(left_out)


def _compare(
    flow: ComparedFlow,
    store: StoredEnd,
    found: Mapping[TopicPartition, Range],
    compacted: Set[str],
    workers: Workers,
) -> tuple[list[Verdict], list[TopicPartition]]:
    """Return verdicts on what both ends have, and partitions whose beginning always went meanwhile."""
    verdicts: list[Verdict] = []
    for _ in range(TRIES):
        both = (_common(there, store.partitions[place][0]) for place, there in found.items())
        lanes = [lane for lane in both if lane]
        if not lanes:
            return verdicts, []
        done = reconcile.compare(flow, lanes, workers)
        unequal = [_place(each) for each in done if not each.equal and not _thinner(each, compacted)]
        now = reconcile.ranges(flow.target, unequal) if unequal else {}
        moved = {place: there for place, there in now.items() if there.start > found[place].start}
        verdicts += (each for each in done if _place(each) not in moved)
        found = {place: replace(found[place], start=there.start) for place, there in moved.items()}
    return verdicts, sorted(found)


def _place(verdict: Verdict) -> TopicPartition:
    return TopicPartition(verdict.lane.topic, verdict.lane.partition)


def _common(there: Range, covered: Range) -> ComparedLane | None:
    start, stop = max(there.start, covered.start), min(there.stop, covered.stop)
    if start >= stop:
        return None
    both = Range(covered.topic, covered.partition, start, stop)
    return ComparedLane(covered.topic, covered.partition, (both, both))


def _thinner(verdict: Verdict, compacted: Set[str]) -> bool:
    """Tell whether compaction explains the difference: the live cluster lacks records, and has no others."""
    difference = verdict.difference
    return (
        verdict.lane.topic in compacted
        and not verdict.equal
        and difference is not None
        and bool(difference.unmatched)
        and difference.unmatched[0].records == 0
    )
