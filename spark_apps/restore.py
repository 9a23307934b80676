"""Writes a snapshot back: topics, records, consumer groups, settings; and ACLs and quotas, if asked for.

Everything that can be refused is refused before anything is written. The tasks write records and their own
progress in the same transactions; so the same order goes on where a run was killed, and writes nothing twice.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter

from kafka.errors import KafkaError, SecurityDisabledError

from aqueduct import acls
from aqueduct.backup.selection import Groups
from aqueduct.client_config import End
from aqueduct.errors import Failed, Refused
from aqueduct.io import kafka_admin
from aqueduct.io.kafka import client as kafka
from aqueduct.io.kafka import groups
from aqueduct.io.kafka.client import Client, Place, Topic
from aqueduct.io.kafka.requests import in_lists
from aqueduct.io.kafka_admin import Admin
from aqueduct.io.object_store import open_store
from aqueduct.io.restore import mirrors, positions, records, topics
from aqueduct.io.restore.mirrors import Mirror
from aqueduct.io.restore.positions import Answers, Question
from aqueduct.restore import progress
from aqueduct.restore.outcome import Move, Outcome
from aqueduct.restore.plan import Plan, plan, shares
from aqueduct.restore.progress import Progress, TopicState
from aqueduct.restore.request import Request, restore_id
from aqueduct.store.catalog import Catalog
from aqueduct.store.snapshots import Snapshot
from aqueduct.wording import count, some
from spark_apps import verify
from spark_apps.runner import D, R, Runner, Workers

CLIENT = "aqueduct-restore"
RECORD_BYTES = 2_500  # that take as long to write as one record takes to read
THREADS = 2  # of this process, where that is enough: one waits for the target while the other unpacks
PROGRESS_SECONDS = 10.0
LANES = 200  # whose groups' offsets one task finds
LIVE = "it has members: stop them, then run this again"

States = dict[str, TopicState]


@dataclass(frozen=True)
class Order:
    """What a run is asked for."""

    end: End
    store: str  # URL
    request: Request
    snapshot: int | None = None  # None: the newest, or that of the restore that goes on
    restore_id: str | None = None
    groups: Groups | None = field(default_factory=Groups)  # None: none
    settings: bool = True
    acls: bool = False
    append: bool = False
    dry_run: bool = False
    skip_verify: bool = False
    release_retention: bool = False
    mirrors: tuple[Mirror, ...] = ()  # that read the target, and stand still


@dataclass(frozen=True)
class Job:
    """An order, with what was found for it."""

    order: Order
    id: str
    request: str  # the request's digest
    snapshot: Snapshot
    plan: Plan
    there: Mapping[str, Topic]  # topics that the target has already
    known: States  # what an earlier run remembered

    @property
    def done(self) -> bool:
        """By an earlier run."""
        return self.known.keys() == self.plan.topics.keys() and all(each.done for each in self.known.values())


def main(order: Order, workers: Workers) -> Outcome:
    """One run, to the end. Refused or Failed before anything is written, or Failed in the middle."""
    clock = _Clock()
    with clock.phase("plan"):
        job = look(order)
        _say(f"Restore {job.id}: {_told(job.plan)}")
        if not job.done:
            check(job)
    if order.dry_run:
        return Outcome(job.id, job.plan, seconds=clock.seconds, dry_run=True, before=job.done)
    written: dict[Place, Progress] = {}
    warnings: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    left_out: list[tuple[str, str]] = []
    states = job.known
    if not job.done:
        if not order.skip_verify:
            with clock.phase("verify"):
                check_objects(job, workers)
        with clock.phase("topics"):
            states, warnings = prepare(job)
        with clock.phase("records"):
            written = write(job, workers)
        with clock.phase("groups"):
            moves, left_out = restore_groups(job, states, written, workers)
    if order.mirrors:
        with clock.phase("mirrors"):
            left_out += move_mirrors(job, workers)
    with clock.phase("settings"):
        states, more = finish(job, states, written)
        left_out += more
    held = {name: state.held for name, state in states.items() if state.held}
    return Outcome(
        job.id, job.plan, written, moves, held, warnings, tuple(left_out), clock.seconds, before=job.done
    )


# Before anything is written


def look(order: Order) -> Job:
    catalog = Catalog.open(open_store(order.store))
    with _connected(order) as (client, admin):
        cluster = str(admin.client.describe_cluster()["cluster_id"])
        request = order.request.digest(catalog.id, cluster)
        if order.restore_id:
            found = _remembered(client, [progress.plan_group(order.restore_id)])
            number = _same(order, request, found)
            name = order.restore_id
            snapshot = catalog.snapshot(number)
        else:
            number = order.snapshot or _unfinished(client, request, order.release_retention)
            snapshot = catalog.snapshot(number)
            name = restore_id(request, snapshot.manifest.number)
        wanted = plan(snapshot, order.request)
        there = client.topics(wanted.topics)
        known = topics.states(client, name, there)
    return Job(order, name, request, snapshot, wanted, there, known)


def _same(order: Order, request: str, found: Iterable[TopicState]) -> int | None:
    """The snapshot of the restore that has this id; Refused if it was another request's."""
    for state in found:
        if state.request != request or order.snapshot not in (None, state.snapshot):
            raise Refused(
                f"Restore {order.restore_id} is another one, of snapshot {state.snapshot} and with other "
                "topics, times or instance: repeat its own command, or take another --restore-id."
            )
        return state.snapshot
    return order.snapshot


def _unfinished(client: Client, request: str, release: bool) -> int | None:
    """The snapshot of the newest restore of the same request that has not ended, or that holds something."""
    by_group = (progress.id_of_plan_group(name) for name in groups.list_groups(client))
    names = [progress.plan_group(name) for name in by_group if name and name.startswith(request)]
    states = [state for state in _remembered(client, names) if state.request == request]
    return max(
        (state.snapshot for state in states if not state.done or (release and state.held)), default=None
    )


def _remembered(client: Client, names: Iterable[str]) -> list[TopicState]:
    found = groups.committed(client, names).values()
    metadata = (metadata for of_group in found for _, metadata in of_group.values())
    return [state for state in (progress.loads(TopicState, each) for each in metadata) if state]


def check(job: Job) -> None:
    """Refused where the target has what is in the way."""
    topics.check_partitions(job.plan, job.there)
    # What a topic has that this restore has begun was found before, or is its own.
    places = [lane.target for lane in job.plan.lanes if lane.topic in job.there.keys() - job.known.keys()]
    if places and not job.order.append:
        with kafka.connect(job.order.end, CLIENT) as client:
            topics.check_empty(client, places)


def check_objects(job: Job, workers: Workers) -> None:
    """Failed where an object that will be used is not what was written."""
    segments = [segment for lane in job.plan.lanes for segment in lane.segments]
    faults = verify.verify(job.order.store, segments, workers, whole=False)
    if faults:
        raise Failed(
            f"{count(len(faults), 'object')} of snapshot {job.plan.snapshot} can't be used, so nothing was "
            f"written: {some(map(attrgetter('why'), faults))}"
        )


# Writing


def prepare(job: Job) -> tuple[States, tuple[str, ...]]:
    order = job.order
    with _connected(order) as (client, admin):
        warnings = topics.create(admin, job.plan, job.there, with_settings=order.settings)
        states = topics.hold_open(
            client, admin, job.id, job.request, job.plan, job.known, with_settings=order.settings
        )
    return states, warnings


def write(job: Job, workers: Workers) -> dict[Place, Progress]:
    order = job.order
    with _connected(order) as (client, admin):
        limits = topics.limits(admin, client.topics(job.plan.topics))
    tasks = [
        records.Share(
            order.end,
            order.store,
            job.id,
            number,
            lanes,
            job.plan.window,
            {lane.topic: limits[lane.topic] for lane in lanes},
        )
        for number, lanes in enumerate(shares(job.plan.lanes))
    ]
    size = sum(lane.unpacked_bytes for lane in job.plan.lanes)
    found = _runner(workers, size // RECORD_BYTES)(records.restore, tasks)
    return {place: each for written in found for place, each in written.items()}


def restore_groups(
    job: Job, states: States, written: Mapping[Place, Progress], workers: Workers
) -> tuple[tuple[Move, ...], list[tuple[str, str]]]:
    """Every group's offsets, as those of the same records; a group with members gets them later."""
    pending = {name for name, state in states.items() if not state.groups}
    if job.order.groups is None or not pending:
        return (), []
    wanted, left_out = _positions(job, job.order.groups, pending)
    offsets: defaultdict[Place, set[int]] = defaultdict(set)
    for of_group in wanted.values():
        for place, (old, _) in of_group.items():
            offsets[place].add(old)
    answers = _translate(job, offsets, written, workers)
    moves, unsure = _moves(job, wanted, answers)
    left_out += unsure
    with kafka.connect(job.order.end, CLIENT) as client:
        for name, mine in moves.items():
            target = {(each.topic, each.partition): (each.new, each.metadata) for each in mine}
            try:
                groups.commit(client, name, target)
            except groups.LiveGroup:
                groups.commit(client, progress.waiting_group(job.id, name), target)
                left_out.append((f"group {name}", LIVE))
            except (Failed, KafkaError) as error:
                left_out.append((f"group {name}", str(error).rstrip(".")))
        for name, state in states.items():
            states[name] = replace(state, groups=True)
        topics.remember(client, job.id, states)
    return tuple(each for mine in moves.values() for each in mine), left_out


def _translate(
    job: Job, offsets: Mapping[Place, Set[int]], written: Mapping[Place, Progress], workers: Workers
) -> Answers:
    """By place at the target: for offsets of the store those of the same records."""
    questions = [
        Question(lane, tuple(sorted(offsets[lane.target])), written[lane.target])
        for lane in job.plan.lanes
        if lane.target in offsets
    ]
    order = job.order
    tasks = [
        positions.Share(order.end, order.store, job.plan.window, tuple(some_questions))
        for some_questions in in_lists(questions, LANES)
    ]
    answers: Answers = {}
    work = sum(sum(segment.records for segment in question.lane.segments) for question in questions) // 10
    for found in _runner(workers, work)(positions.translate, tasks):
        answers |= found
    return answers


def move_mirrors(job: Job, workers: Workers) -> Iterator[tuple[str, str]]:
    """Let mirrors that read the restored topics go on at the same records, once."""
    order, plan = job.order, job.plan
    lanes = {lane.target: lane for lane in plan.lanes if lane.topic == lane.place.topic}
    with kafka.connect(order.end, CLIENT) as client:
        ids = {name: topic.id for name, topic in client.topics(plan.topics).items()}
        reached = records.positions(client, job.id, lanes, ids)
    written = {place: each for place, (_, each) in reached.items()}
    for mirror in order.mirrors:
        with mirrors.opened(mirror, job.id) as at:
            if at.moved():
                continue
            mine = {place: each for place, each in at.read().items() if place in lanes}
            wanted = {place: {each.next} for place, each in mine.items()}
            answers = _translate(job, wanted, written, workers)
            moved = {}
            for place, each in sorted(mine.items()):
                answer, stop = answers[place, each.next], lanes[place].stop
                what = f"mirror {mirror.name}, {place[0]}-{place[1]}"
                if answer.new is None:
                    yield what, answer.unsure
                    continue
                moved[each] = answer.new
                if each.next > stop:
                    yield what, f"it has read up to {each.next}, and the snapshot ends at {stop}"
            at.move(moved)


def _positions(
    job: Job, chosen: Groups, pending: Set[str]
) -> tuple[dict[str, groups.Offsets], list[tuple[str, str]]]:
    """What the snapshot's groups have committed of what is restored, by their topics' names at the target."""
    manifest = job.snapshot.manifest
    by_name = {group.group: group for group in manifest.groups}
    others = {
        target for target, (topic, instance) in job.plan.topics.items() if instance.topic_id != topic.topic_id
    }
    places = {lane.target for lane in job.plan.lanes if lane.topic in pending - others}
    why = "they are those of the topic that was made later under this name"
    left_out = [(f"groups' offsets of {each}", why) for each in sorted(others)]
    found: dict[str, groups.Offsets] = {}
    for name in chosen.choose(by_name):
        offsets = {
            (job.plan.renamed[each.topic], each.partition): (each.offset, each.metadata)
            for each in by_name[name].offsets
            if each.topic in job.plan.renamed
        }
        mine = {place: at for place, at in offsets.items() if place in places}
        if mine:
            found[name] = mine
    return found, left_out


def _moves(
    job: Job, wanted: Mapping[str, groups.Offsets], answers: Answers
) -> tuple[dict[str, list[Move]], list[tuple[str, str]]]:
    stops = {lane.target: lane.stop for lane in job.plan.lanes}
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    left_out = []
    for name, of_group in wanted.items():
        for place, (old, metadata) in sorted(of_group.items()):
            answer = answers[place, old]
            if answer.new is None:
                left_out.append((f"group {name}, {place[0]}-{place[1]}", answer.unsure))
                continue
            note = ""
            if old > stops[place]:
                note = f"the snapshot ends at {stops[place]}"
            elif answer.clamped:
                note = "the records before are outside the window"
            moves[name].append(Move(name, *place, old, answer.new, metadata, note))
    return moves, left_out


# After


def finish(
    job: Job, states: States, written: Mapping[Place, Progress]
) -> tuple[States, list[tuple[str, str]]]:
    order = job.order
    left_out: list[tuple[str, str]] = []
    with _connected(order) as (client, admin):
        if order.groups is not None:
            left_out += _waiting_groups(client, admin, job) if job.done else []
        now = time.time_ns() // 1_000_000
        done = topics.let_go(admin, states, written, hold=not order.release_retention, now=now)
        done = {name: replace(state, groups=True) for name, state in done.items()}
        if order.acls:
            left_out += _restore_rights(admin, job.snapshot)
        if done != job.known:
            topics.remember(client, job.id, done)
    return done, left_out


def _waiting_groups(client: Client, admin: Admin, job: Job) -> Iterator[tuple[str, str]]:
    """Groups that had members when the others got their offsets."""
    prefix = progress.waiting_group(job.id, "")
    waiting = [name for name in groups.list_groups(client) if name.startswith(prefix)]
    for group, offsets in groups.committed(client, waiting).items():
        name = group.removeprefix(prefix)
        try:
            groups.commit(client, name, offsets)
        except groups.LiveGroup:
            yield f"group {name}", LIVE
        else:
            admin.client.delete_groups([group])


def _restore_rights(admin: Admin, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    wanted = frozenset(snapshot.manifest.acls)
    try:
        if wanted:
            admin.apply_acls(acls.Plan(add=tuple(sorted(wanted - admin.list_acls())), remove=()))
    except SecurityDisabledError:
        yield count(len(wanted), "ACL"), "the target has no authorizer"
    admin.apply_quotas(snapshot.manifest.quotas)


# Small things


def _runner(workers: Workers, offsets: int) -> Runner:
    return workers.runner(offsets) if workers.many(offsets) else _threads


def _threads(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    pool = ThreadPoolExecutor(THREADS)
    try:
        results = [pool.submit(function, each) for each in descriptions]
        while (state := wait(results, PROGRESS_SECONDS, FIRST_EXCEPTION)).not_done:
            if any(each.exception() for each in state.done):
                break
            _say(f"{len(state.done)} of {count(len(results), 'task')} done")
        return [each.result() for each in results if each.done()]
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _connected(order: Order) -> Iterator[tuple[Client, Admin]]:
    end = order.end
    with (
        kafka.connect(end, CLIENT) as client,
        kafka_admin.connect(end.bootstrap_servers, end.client_config) as admin,
    ):
        yield client, admin


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - began


def _told(wanted: Plan) -> str:
    size = sum(lane.unpacked_bytes for lane in wanted.lanes) / 1e6
    at_most = "" if not any(lane.skipped for lane in wanted.lanes) else "at most "
    number = sum(lane.records for lane in wanted.lanes)
    return (
        f"snapshot {wanted.snapshot}, {count(len(wanted.topics), 'topic')}, "
        f"{count(len(wanted.lanes), 'partition')}, {at_most}{count(number, 'record')}, {size:,.1f} MB."
    )


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
