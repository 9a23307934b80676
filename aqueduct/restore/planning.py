"""Plans a restore, and refuses it where store or target stand in the way: before anything is written."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter

from aqueduct.backup.verify import verify_segments
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.client import Client
from aqueduct.names import TopicPartition
from aqueduct.restore import mirrors, records, topics
from aqueduct.restore.job import Job, connected
from aqueduct.restore.order import RestoreOrder
from aqueduct.restore.outcome import Written
from aqueduct.restore.plan import RestorePlan, plan
from aqueduct.restore.progress import TopicState
from aqueduct.restore.request import restore_id
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog, still_there
from aqueduct.store.keyring import Keyring
from aqueduct.wording import count, some
from aqueduct.work.workers import Workers

ENDING_SECONDS = 5  # that the last transaction of a run which was killed may take to be seen whole


def look(order: RestoreOrder) -> Job:
    """Find the snapshot, what of it is to be restored, and how far earlier runs have come."""
    objects = open_store(order.store)
    keys = Keyring(objects, order.private_keys)
    catalog = Catalog.open(objects, order.trust, keys)
    with connected(order) as client:
        cluster = cluster_id(client)
        request = order.request.digest(catalog.id, cluster)
        others = topics.plans(client)
        if order.restore_id:
            number = _same(order, request, others.get(order.restore_id, ()))
            name = order.restore_id
            snapshot = catalog.snapshot(number, order.at_least)
        else:
            number = order.snapshot or _unfinished(others, request, order.release_retention)
            try:
                snapshot = catalog.snapshot(number, order.at_least)
            except Refused as error:
                if number in (None, order.snapshot):
                    raise
                raise Refused(
                    f"{error} An earlier run of this restore began with it: remove the topics that it began, "
                    "and run this again."
                ) from None
            name = restore_id(request, snapshot.manifest.number)
        others.pop(name, None)
        manifest = snapshot.manifest
        if not snapshot.topics:
            raise Refused(
                f"Snapshot {manifest.number} has {count(len(manifest.groups), 'group')} and no topic: "
                "groups' offsets mean records, and are restored with them. Back up their topics, too."
            )
        others_groups = [each.group for each in manifest.groups if each.group not in order.links]
        chosen = order.groups.choose(others_groups) if order.groups else ()
        wanted = plan(snapshot, order.request)
        segments.lend(keys, (segment for lane in wanted.lanes for segment in lane.segments), order.store)
        there = client.topics(wanted.topics)
        known = topics.states(client, name, there)
        _same_records(order, wanted, known)
        job = Job(order, name, request, snapshot, wanted, there, known, others, tuple(chosen), {})
        return replace(job, written=_written(client, job))


def _same_records(order: RestoreOrder, wanted: RestorePlan, known: Mapping[str, TopicState]) -> None:
    """Refused if records have expired since this restore began: which of them are there, none can tell."""
    old = [name for name, state in known.items() if not state.done and state.expired != wanted.expired(name)]
    if old:
        raise Refused(
            f"Records of {some(sorted(old))} have expired in {order.store} since this restore began, and it "
            f"had not ended: remove {'this topic' if len(old) == 1 else 'these topics'} from the target, and "
            "run this again; what has expired is then left out, and named."
        )


def _written(client: Client, job: Job) -> dict[TopicPartition, Written]:
    """Return what the target still knows of the topics that have ended."""
    ids = {name: job.there[name].id for name in job.ended}
    partitions = [lane.target for lane in job.plan.lanes if lane.topic in ids]
    found = records.positions(client, job.id, partitions, ids) if partitions else {}
    return {partition: Written(each, 0, 0) for partition, (_, each) in found.items()}


def _same(order: RestoreOrder, request: str, found: Iterable[TopicState]) -> int | None:
    """Return the snapshot of the restore that has this id; Refused if it was another request's."""
    for state in found:
        if state.request != request or order.snapshot not in (None, state.snapshot):
            raise Refused(
                f"Restore {order.restore_id} is another one, of snapshot {state.snapshot} and with other "
                "topics, times or instance: repeat its own command, or take another --restore-id."
            )
        return state.snapshot
    return order.snapshot


def _unfinished(plans: Mapping[str, list[TopicState]], request: str, release: bool) -> int | None:
    """Return the newest snapshot of a restore of this request that has not ended, or holds something."""
    states = [state for of_plan in plans.values() for state in of_plan if state.request == request]
    return max(
        (state.snapshot for state in states if not state.done or (release and state.held)), default=None
    )


def check(job: Job) -> None:
    """Check the target; Refused if something there is in the way."""
    topics.check_partitions(job.plan, job.there)
    # What a topic has that this restore has begun was found before, or is its own.
    there = {name: topic for name, topic in job.there.items() if name not in job.known}
    topics.check_others(there, job.others)
    with connected(job.order) as client:
        partitions = [lane.target for lane in job.plan.lanes if lane.topic in there]
        if partitions and not job.order.append:
            topics.check_empty(client, partitions, there, job.others)
        topics.check_creation(client, job.plan, job.there, with_settings=job.order.settings)
    mirrors.check(job)


def check_objects(job: Job, workers: Workers) -> None:
    """Check the objects that will be used; Failed if one isn't what was written."""
    segments = [segment for lane in job.lanes for segment in lane.segments]
    faults = verify_segments(job.order.store, segments, workers, whole=False)
    if faults:
        still_there(open_store(job.order.store), job.plan.snapshot)
        raise Failed(
            f"{count(len(faults), 'object')} of snapshot {job.plan.snapshot} can't be used, so nothing was "
            f"written: {some(map(attrgetter('why'), faults))}"
        )


def check_again(client: Client, job: Job, states: Mapping[str, TopicState]) -> None:
    """Repeat the checks of `check`: much may have happened while the objects were read.

    By now others can see this restore; of two that begin at once, one sees the other at least. What it had
    begun and not written to, it then gives up.
    """
    found = client.topics(job.plan.topics)
    open_ = {name: found[name] for name, state in states.items() if not state.done and name in found}
    ids = {name: topic.id for name, topic in open_.items()}
    begun = records.begun(client, job.id, ids)
    fresh = {name: topic for name, topic in open_.items() if name not in begun}
    others = topics.plans(client)
    others.pop(job.id, None)
    try:
        topics.check_partitions(job.plan, open_)
        topics.check_others(open_, others)
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
