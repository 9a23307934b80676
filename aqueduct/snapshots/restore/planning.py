"""Plans a restore, and refuses it before anything is written if store or target do not allow it."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.client import Client, Topic
from aqueduct.snapshots.backup.verify import verify_segments
from aqueduct.snapshots.restore import continuation, mirrors, records, topics
from aqueduct.snapshots.restore.job import Job, connected
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import Warned, Written
from aqueduct.snapshots.restore.plan import RestorePlan, plan
from aqueduct.snapshots.restore.progress import Earlier, TopicState
from aqueduct.snapshots.restore.request import restore_id
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog, check_not_removed
from aqueduct.store.keyring import Keyring
from aqueduct.store.snapshots import Snapshot
from aqueduct.work.workers import Workers

ENDING_SECONDS = 5  # maximum time until the last transaction of a killed run is visible everywhere


@dataclass(frozen=True, kw_only=True)
class _Restore:
    """A restore, with the id under which the target stores its state."""

    order: RestoreOrder
    id: str
    request: str  # digest of the request
    snapshot: Snapshot
    others: Mapping[str, list[TopicState]]  # states of other restores, by their ids


@dataclass(frozen=True, kw_only=True)
class _TargetTopics:
    """The topics of a plan that already exist at the target."""

    existing: Mapping[str, Topic]
    states: Mapping[str, TopicState]  # of topics that this restore has begun


@dataclass(frozen=True, kw_only=True)
class _Remaining:
    """A plan without the records of earlier restores."""

    plan: RestorePlan
    earlier: Earlier
    forgotten: Set[str]  # topics that continue a restore whose progress the target has deleted


def look(order: RestoreOrder) -> Job:
    """Select the snapshot and its records, and read the progress of earlier runs."""
    objects = open_store(order.store)
    keys = Keyring(objects, order.private_keys)
    catalog = Catalog.open(objects, order.trust, keys)
    with connected(order) as client:
        restore = _identify(client, catalog, order)
        groups = _groups(restore)
        restore_plan = _plan(restore, keys)
        target = _inspect(client, restore, restore_plan)
        remaining = _subtract_earlier(client, catalog, restore, restore_plan, target)
        _same_records(order, remaining.plan, target.states)
        accepted_plan, dropped = (
            topics.accepted(client, remaining.plan, target.existing)
            if order.settings
            else (remaining.plan, ())
        )
        job = Job(
            order=order,
            id=restore.id,
            request=restore.request,
            snapshot=restore.snapshot,
            plan=accepted_plan,
            there=target.existing,
            known=target.states,
            others=restore.others,
            groups=groups,
            written={},
            dropped=dropped,
            earlier=remaining.earlier,
        )
        return replace(job, written=_written(client, job, remaining.forgotten))


def _identify(client: Client, catalog: Catalog, order: RestoreOrder) -> _Restore:
    """Select the snapshot; by default, that of an unfinished restore of the same request."""
    request = order.request.digest(catalog.id, cluster_id(client))
    plans = topics.plans(client)
    if order.restore_id:
        number = _same(order, request, plans.get(order.restore_id, ()))
        snapshot = catalog.snapshot(number, order.at_least)
    else:
        number = order.snapshot or _unfinished(plans, request, order.release_retention)
        try:
            snapshot = catalog.snapshot(number, order.at_least)
        except Refused as error:
            if number in (None, order.snapshot):
                raise
            raise Refused(
                "resumed-snapshot-missing",
                f"{error} An interrupted run of this restore began with this snapshot, and only its topics "
                "contain these records. Restore another snapshot under other names (old:new), and compare.",
            ) from None
    name = order.restore_id or restore_id(request, snapshot.manifest.number)
    others = {other: states for other, states in plans.items() if other != name}
    return _Restore(order=order, id=name, request=request, snapshot=snapshot, others=others)


def _groups(restore: _Restore) -> tuple[str, ...]:
    """Return the groups to set; Refused if the snapshot has no topics to which their offsets refer."""
    order, manifest = restore.order, restore.snapshot.manifest
    if not restore.snapshot.topics:
        raise Refused(
            "snapshot-without-topics",
            f"Snapshot {manifest.number} contains {count(len(manifest.every_group), 'group')} and no "
            "topic, so their offsets refer to no records. Back up their topics, too.",
        )
    stored = [group.group for group in manifest.every_group if group.group not in order.links]
    return tuple(order.groups.choose(stored)) if order.groups else ()


def _plan(restore: _Restore, keys: Keyring) -> RestorePlan:
    """Plan the whole restore, and pass the keys of its segments to the tasks."""
    restore_plan = plan(restore.snapshot, restore.order.request)
    planned = (segment for lane in restore_plan.lanes for segment in lane.segments)
    segments.lend(keys, planned, restore.order.store)
    return restore_plan


def _inspect(client: Client, restore: _Restore, restore_plan: RestorePlan) -> _TargetTopics:
    existing = client.topics(restore_plan.topics)
    if existing:
        topics.check_all_known(client)
    return _TargetTopics(existing=existing, states=topics.states(client, restore.id, existing))


def _subtract_earlier(
    client: Client, catalog: Catalog, restore: _Restore, restore_plan: RestorePlan, target: _TargetTopics
) -> _Remaining:
    """Remove from the plan the records of earlier restores, and partitions where these are unknown."""
    order, existing, states = restore.order, target.existing, target.states
    continued_states, forgotten = _continued(
        order, restore_plan, catalog.id, existing, states, restore.others
    )
    remaining_plan, earlier, unknown = continuation.after(
        client, catalog, restore_plan, existing, continued_states, states.keys()
    )
    if order.append and not order.restore_id:
        fresh = {topic: existing[topic] for topic in existing if topic not in states}
        unknown |= continuation.of_unknown_origin(client, remaining_plan, fresh, restore.others, earlier)
    unknown |= {
        TopicPartition(topic, number)
        for topic, state in states.items()
        for number in state.unknown_partitions
    }
    if unknown:
        remaining_plan = _without(remaining_plan, unknown)
    return _Remaining(plan=remaining_plan, earlier=earlier, forgotten=forgotten)


def _without(restore_plan: RestorePlan, unknown: Set[TopicPartition]) -> RestorePlan:
    """Return the plan that writes nothing to these partitions; Refused if none is left."""
    writing = restore_plan.without(unknown)
    if not writing.topics:
        raise Refused(
            "append-origin-unknown",
            f"The target has transactional records with timestamps of this backup in "
            f"{some(sorted(map(str, unknown)))}, and does not store which restore wrote them. --append may "
            "write them twice. Restore under other names (old:new) and compare. To write all records again, "
            "pass a new --restore-id.",
        )
    return writing


def _continued(
    order: RestoreOrder,
    plan: RestorePlan,
    store_id: str,
    existing: Mapping[str, Topic],
    own_states: Mapping[str, TopicState],
    others: Mapping[str, list[TopicState]],
) -> tuple[dict[str, dict[str, TopicState]], set[str]]:
    """Return the restores that this one continues, and topics with a continued restore that is not stored.

    A restore that has begun continues the stored ones. Refused if it is unfinished and one is not stored.
    """
    continued_states: dict[str, dict[str, TopicState]] = {}
    if order.append and not order.restore_id:
        fresh = {name: topic for name, topic in existing.items() if name not in own_states}
        continued_states = continuation.continued(plan, store_id, fresh, others)
    forgotten = set()
    for name, state in own_states.items():
        for other in state.continues:
            mine = [
                other_state for other_state in others.get(other, ()) if other_state.topic_id == state.topic_id
            ]
            if mine:
                continued_states.setdefault(name, {})[other] = mine[0]
            elif state.done:
                forgotten.add(name)
            else:
                raise Refused(
                    "earlier-restore-unknown",
                    f"This restore of {name} continues restore {other}, whose progress the target has "
                    "deleted (offsets.retention.minutes). Restore the topic under another name (old:new).",
                )
    return {name: restores for name, restores in continued_states.items() if name not in forgotten}, forgotten


def _same_records(
    order: RestoreOrder, restore_plan: RestorePlan, own_states: Mapping[str, TopicState]
) -> None:
    """Refuse the restore if records expired since it began: it is unknown which ones the target contains."""
    old = [
        name
        for name, state in own_states.items()
        if not state.done and state.expired != restore_plan.expired(name)
    ]
    if old:
        raise Refused(
            "restore-records-expired",
            f"Records of {some(sorted(old))} have expired in {order.store} since this restore began. Delete "
            f"{'this topic' if len(old) == 1 else 'these topics'} from the target, which deletes the "
            "records, and run the command again. The report then lists the expired records.",
        )


def _written(client: Client, job: Job, forgotten: Set[str]) -> dict[TopicPartition, Written]:
    """Return the stored progress of the topics that are complete."""
    ids = {name: job.there[name].id for name in job.ended - forgotten}
    partitions = [lane.target for lane in job.plan.lanes if lane.topic in ids]
    positions = records.positions(client, job.id, partitions, ids) if partitions else {}
    return {partition: Written(progress, 0, 0) for partition, (_, progress) in positions.items()}


def _same(order: RestoreOrder, request: str, restore_states: Iterable[TopicState]) -> int | None:
    """Return the snapshot of the restore with this id; Refused if it has another request."""
    for state in restore_states:
        if state.request != request or order.snapshot not in (None, state.snapshot):
            raise Refused(
                "restore-id-taken",
                f"The restore {order.restore_id} has another request: snapshot {state.snapshot} with other "
                "topics, times or another instance. Repeat the command of that restore, or pass another "
                "--restore-id.",
            )
        return state.snapshot
    return order.snapshot


def _unfinished(plans: Mapping[str, list[TopicState]], request: str, release: bool) -> int | None:
    """Return the newest snapshot of an unfinished restore of this request, or one with held retention."""
    states = [state for of_plan in plans.values() for state in of_plan if state.request == request]
    return max(
        (state.snapshot for state in states if not state.done or (release and state.held)), default=None
    )


def check(job: Job) -> None:
    """Check the target; Refused if its topics or mirrors do not allow the restore."""
    topics.check_partitions(job.plan, job.there)
    # The contents of topics that this restore has begun were checked before, or are its own records.
    foreign = {name: topic for name, topic in job.there.items() if name not in job.known}
    topics.check_others(foreign, job.others)
    with connected(job.order) as client:
        partitions = [lane.target for lane in job.plan.lanes if lane.topic in foreign]
        if partitions and not job.order.append:
            topics.check_empty(client, partitions, foreign, job.others, partial(_appending, job, foreign))
        topics.check_creation(client, job.plan, job.there, with_settings=job.order.settings)
    mirrors.check(job)


def _appending(job: Job, existing: Mapping[str, Topic]) -> str:
    """Return what --append would do, as the end of a sentence.

    If --append would be refused, too, return the remedy, or an empty string if there is none.
    """
    try:
        continued_states = continuation.continued(job.plan, job.snapshot.manifest.store, existing, job.others)
        mirrors.check(job)
    except AqueductError as error:
        return f". {error.sentence.rstrip('.')}" if error.id == "mirror-has-unread-records" else ""
    written = "only the records that those restores lack" if continued_states else "all records after these"
    if job.order.mirrors:
        return f", or pass --append, which writes {written}"
    return (
        f", or pass --append, which writes {written}. If mirrors read these topics, pass --mirror, too, or "
        "the mirrors copy records again"
    )


def doubled(job: Job) -> tuple[Warned, ...]:
    """Return a warning if records are written again because of --restore-id."""
    fresh = {name: topic for name, topic in job.there.items() if name not in job.known}
    if not (job.order.append and job.order.restore_id):
        return ()
    origins = continuation.origins(job.snapshot.manifest.store, job.plan)
    again = [
        f"{name} (restore {other})"
        for name, origin in origins.items()
        for other, state in continuation.ended(name, fresh, job.others)
        if origin.overlaps(state.origin)
    ]
    if not again:
        return ()
    return (
        Warned(
            "restored-again",
            f"{some(sorted(again))}: the records that this restore wrote are written again. Without "
            "--restore-id, --append writes only those that are missing.",
        ),
    )


def check_objects(job: Job, workers: Workers) -> None:
    """Check the stored objects that the restore reads; Failed if one is damaged."""
    segments = [segment for lane in job.lanes for segment in lane.segments]
    faults = verify_segments(job.order.store, segments, workers, whole=False)
    if faults:
        check_not_removed(open_store(job.order.store), job.plan.snapshot)
        raise Failed(
            faults[0].id,
            f"{count(len(faults), 'object')} of snapshot {job.plan.snapshot} cannot be used: "
            f"{some(map(attrgetter('why'), faults))} Nothing was written. Run aqueduct verify --store "
            f"{job.order.store} --snapshot N for older snapshots, and restore an undamaged one.",
        )


def check_again(client: Client, job: Job, states: Mapping[str, TopicState]) -> None:
    """Repeat the checks of `check`, because the target may have changed while the objects were read.

    Other restores can see this one now: of two that begin at once, at least one sees the other. After a
    refusal, the topics that this restore has begun but not written are withdrawn.
    """
    existing = client.topics(job.plan.topics)
    open_ = {name: existing[name] for name, state in states.items() if not state.done and name in existing}
    ids = {name: topic.id for name, topic in open_.items()}
    begun = records.begun(client, job.id, ids)
    fresh = {name: topic for name, topic in open_.items() if name not in begun}
    others = topics.plans(client)
    others.pop(job.id, None)
    try:
        topics.check_partitions(job.plan, open_)
        topics.check_others(open_, others)
        if job.order.append and not job.order.restore_id:
            begins = {name: topic for name, topic in open_.items() if name not in job.known}
            now = continuation.continued(job.plan, job.snapshot.manifest.store, begins, others)
            if ended := sorted(
                name for name in now if set(now[name]) != set(job.plan.continues.get(name, ()))
            ):
                raise Refused(
                    "restore-in-progress",
                    f"Another restore of {some(ended)} ended during this run. Run the command again: it "
                    "continues after that one.",
                )
        if fresh and not job.order.append:
            partitions = [lane.target for lane in job.lanes if lane.topic in fresh]
            try:
                topics.check_empty(client, partitions, fresh, others)
            except Refused:
                client.sleep(ENDING_SECONDS)
                if not fresh.keys() <= records.begun(client, job.id, ids):
                    raise
    except Refused:
        topics.withdraw(client, job.id, fresh)
        raise
