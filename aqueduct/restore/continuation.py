"""What an earlier restore wrote to the target, so that a newer snapshot is appended from there on.

The target stores, for each topic, which records of which store a restore has written (RestoreOrigin), and
for each partition the store's offset up to which it has. `--append` without `--restore-id` writes the records
after that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from aqueduct.errors import AqueductError, Refused
from aqueduct.kafka.client import Client, Topic
from aqueduct.names import TopicPartition
from aqueduct.restore import records, settings
from aqueduct.restore.plan import RestoreLane, RestorePlan
from aqueduct.restore.progress import Earlier, EarlierPart, RestoreOrigin, RestoreProgress, TopicState
from aqueduct.restore.topics import Plans
from aqueduct.store.catalog import Catalog
from aqueduct.wording import some


def origins(store_id: str, plan: RestorePlan) -> dict[str, RestoreOrigin]:
    """Return which records a plan restores, by the topic's name at the target."""
    window = plan.window.first_time, plan.window.last_time
    return {
        target: RestoreOrigin(store_id, topic.name, instance.number, instance.topic_id, *window)
        for target, (topic, instance) in plan.topics.items()
    }


def continued(
    plan: RestorePlan, store_id: str, existing: Mapping[str, Topic], others: Plans
) -> dict[str, dict[str, TopicState]]:
    """Return the ended restores that this plan continues, by topic at the target and restore.

    Refused if one of them wrote some of the plan's records, and it can't be told which.
    """
    continued_states: dict[str, dict[str, TopicState]] = {}
    overlapping = []
    for name, origin in origins(store_id, plan).items():
        for restore_id, state in ended(name, existing, others):
            if state.origin == origin:
                continued_states.setdefault(name, {})[restore_id] = state
            elif state.origin is None or origin.overlaps(state.origin):
                overlapping.append(f"{name} (restore {restore_id}, snapshot {state.snapshot})")
    if overlapping:
        raise Refused(
            "restores-overlap",
            f"An earlier restore wrote other parts of the same records, or did not store which: "
            f"{some(sorted(overlapping))}. --append continues a restore of the same instance and the same "
            "times. Restore under other names (old:new), or repeat that restore's options.",
        )
    return continued_states


def ended(name: str, existing: Mapping[str, Topic], others: Plans) -> Iterator[tuple[str, TopicState]]:
    """Yield the restores of a topic of the target that have ended."""
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
) -> tuple[RestorePlan, Earlier]:
    """Return the plan without the records that these restores wrote, and what they wrote."""
    ids = {name: existing[name].id for name in continued_states}
    of_restore: dict[str, list[RestoreLane]] = {}
    for lane in plan.lanes:
        for restore_id in continued_states.get(lane.topic, ()):
            of_restore.setdefault(restore_id, []).append(lane)
    ends: dict[TopicPartition, list[tuple[int, RestoreProgress | None, bool]]] = {}
    for restore_id, theirs in of_restore.items():
        positions = records.positions(client, restore_id, [lane.target for lane in theirs], ids)
        for lane in theirs:
            state = continued_states[lane.topic][restore_id]
            stop, progress = positions.get(lane.target) or (_stop(catalog, restore_id, state, lane), None)
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
                parts.append(EarlierPart(start, stop, progress, compacted, mine))
        if parts:
            earlier[lane.target] = tuple(parts)
        lanes.append(lane.after(parts[-1].stop) if parts else lane)
    continues = {name: tuple(sorted(restores)) for name, restores in continued_states.items()}
    return replace(plan, lanes=tuple(lanes), continues=continues), earlier


def _stop(catalog: Catalog, restore_id: str, state: TopicState, lane: RestoreLane) -> int:
    """Return where a restore ended whose progress the target has forgotten: where its snapshot does."""
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
