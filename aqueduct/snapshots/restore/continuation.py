"""Continues earlier restores: `--append` of a newer snapshot writes only the records that they did not write.

For each topic, the target stores which records of which store a restore has written (RestoreOrigin), and for
each partition the offset of the store that the restore reached. `--append` without `--restore-id` writes the
later records.
"""

import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from operator import itemgetter

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import AqueductError, Refused
from aqueduct.kafka import fetch, offsets
from aqueduct.kafka.client import Client, Topic
from aqueduct.snapshots.restore import records, settings
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan
from aqueduct.snapshots.restore.progress import (
    Earlier,
    EarlierPart,
    RestoreOrigin,
    RestoreProgress,
    TopicState,
)
from aqueduct.snapshots.restore.topics import Plans
from aqueduct.store.catalog import Catalog


def origins(store_id: str, plan: RestorePlan) -> dict[str, RestoreOrigin]:
    """Return the records that a plan restores, by the name of the topic at the target."""
    return {
        target: RestoreOrigin(
            store=store_id,
            topic=topic.name,
            instance=instance.number,
            topic_id=instance.topic_id,
            first_time=plan.window.first_time,
            last_time=plan.window.last_time,
        )
        for target, (topic, instance) in plan.topics.items()
    }


def continued(
    plan: RestorePlan, store_id: str, existing: Mapping[str, Topic], others: Plans
) -> dict[str, dict[str, TopicState]]:
    """Return the completed restores that this plan continues, by topic at the target and restore.

    Refused if one of them wrote some of the plan's records, and it is unknown which.
    """
    continued_states: dict[str, dict[str, TopicState]] = {}
    overlapping = []
    for name, origin in origins(store_id, plan).items():
        for restore_id, state in ended(name, existing, others):
            if state.origin == origin:
                continued_states.setdefault(name, {})[restore_id] = state
            elif origin.overlaps(state.origin):
                overlapping.append(f"{name} (restore {restore_id}, snapshot {state.snapshot})")
    if overlapping:
        raise Refused(
            "restores-overlap",
            f"An earlier restore wrote other parts of the same records: "
            f"{some(sorted(overlapping))}. --append continues only a restore of the same instance and the "
            "same times. Restore under other names (old:new), or repeat the options of that restore.",
        )
    return continued_states


def ended(name: str, existing: Mapping[str, Topic], others: Plans) -> Iterator[tuple[str, TopicState]]:
    """Yield the completed restores of a topic of the target."""
    for restore_id, states in others.items():
        for state in states:
            if name in existing and state.topic_id == str(existing[name].id) and state.done:
                yield restore_id, state


def after(
    client: Client,
    catalog: Catalog,
    plan: RestorePlan,
    existing: Mapping[str, Topic],
    continued_states: Mapping[str, Mapping[str, TopicState]],
    resumed: Set[str],
) -> tuple[RestorePlan, Earlier, set[TopicPartition]]:
    """Return the plan without the records that these restores wrote, these records, and partitions to skip.

    A partition is skipped if the progress of one of the restores is unknown. `resumed`: topics that this
    restore has begun. For these, such a partition is Refused.
    """
    ids = {name: existing[name].id for name in continued_states}
    of_restore: dict[str, list[RestoreLane]] = {}
    unknown: set[TopicPartition] = set()
    for lane in plan.lanes:
        for restore_id in continued_states.get(lane.topic, ()):
            of_restore.setdefault(restore_id, []).append(lane)
    ends: dict[TopicPartition, list[tuple[int, RestoreProgress | None, bool]]] = {}
    for restore_id, theirs in of_restore.items():
        positions = records.positions(client, restore_id, [lane.target for lane in theirs], ids)
        for lane in theirs:
            state = continued_states[lane.topic][restore_id]
            if lane.target.partition in state.unknown_partitions:
                unknown.add(lane.target)
                continue
            try:
                stop, progress = positions.get(lane.target) or (_stop(catalog, restore_id, state, lane), None)
            except Refused:
                if lane.topic in resumed:
                    raise
                unknown.add(lane.target)
                continue
            compacted = "compact" in state.holds[settings.POLICY]
            ends.setdefault(lane.target, []).append((stop, progress, compacted))
    earlier: dict[TopicPartition, tuple[EarlierPart, ...]] = {}
    lanes = []
    for lane in plan.lanes:
        parts: list[EarlierPart] = []
        for stop, progress, compacted in sorted(ends.get(lane.target, ()), key=itemgetter(0)):
            start = parts[-1].stop if parts else 0
            if stop > start:
                mine = tuple(segment for segment in lane.segments if start <= segment.start < stop)
                parts.append(
                    EarlierPart(start=start, stop=stop, progress=progress, compacted=compacted, segments=mine)
                )
        if parts:
            earlier[lane.target] = tuple(parts)
        lanes.append(lane.after(parts[-1].stop) if parts else lane)
    continues = {name: tuple(sorted(restores)) for name, restores in continued_states.items()}
    return replace(plan, lanes=tuple(lanes), continues=continues), earlier, unknown


def of_unknown_origin(
    client: Client, plan: RestorePlan, fresh: Mapping[str, Topic], others: Plans, earlier: Earlier
) -> set[TopicPartition]:
    """Return the partitions that may have records of this plan, written by a restore that is not stored.

    A restore writes in transactions, and keeps the timestamps of records. So a committed transactional batch
    counts if it is not newer than the plan's records, and if no stored restore has its producer id.
    `fresh`: the topics to inspect.
    """
    lanes = {lane.target: lane for lane in plan.lanes if lane.topic in fresh and lane.segments}
    # Restores that ended after a stored one are stored, too. Earlier ones were searched for at that time.
    for partition, parts in earlier.items():
        if any(part.progress is None for part in parts):
            lanes.pop(partition, None)
    producers: dict[TopicPartition, set[int]] = {partition: set() for partition in lanes}
    for restore_id in {other for name in fresh for other, _ in ended(name, fresh, others)}:
        ids = {name: topic.id for name, topic in fresh.items()}
        for partition, (_, progress) in records.positions(client, restore_id, lanes, ids).items():
            producers[partition] |= {*progress.producers}
    starts, ends = offsets.log_starts(client, lanes), offsets.ends(client, lanes)
    return {
        partition
        for partition, lane in lanes.items()
        if starts[partition] < ends[partition]
        and _has_unknown(
            client, Range(*partition, starts[partition], ends[partition]), lane, plan, producers[partition]
        )
    }


def _has_unknown(
    client: Client, log: Range, lane: RestoreLane, plan: RestorePlan, producers: Set[int]
) -> bool:
    times = [segment.max_time for segment in lane.segments if segment.max_time is not None]
    newest = min(max(times, default=sys.maxsize), plan.window.last_time)
    return any(
        batch.transactional
        and batch.producer_id not in producers
        and plan.window.first_time <= batch.max_time <= newest
        for piece in fetch.read(client, log)
        for batch in piece.batches
    )


def _stop(catalog: Catalog, restore_id: str, state: TopicState, lane: RestoreLane) -> int:
    """Return where a restore ended whose progress the target no longer stores: the end of its snapshot."""
    part = lane.stored_partition
    try:
        positions = catalog.snapshot(state.snapshot).manifest.positions
    except AqueductError as error:
        raise Refused(
            "earlier-restore-unknown",
            f"The target has deleted the progress of restore {restore_id} in {lane} "
            f"(offsets.retention.minutes), and its snapshot cannot be read: {error} Restore under another "
            "name (old:new).",
        ) from None
    of_instance = positions.get((part.topic, part.instance), ())
    return max(of_instance[part.partition], 0) if part.partition < len(of_instance) else 0
