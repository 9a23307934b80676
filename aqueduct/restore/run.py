"""Writes a snapshot back: topics, records, consumer groups, settings; and ACLs and quotas, if asked for.

Everything that can be refused is refused before anything is written. The tasks write records and their own
progress in the same transactions; so the same order goes on where a run was killed, and writes nothing twice.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from kafka.errors import SecurityDisabledError

from aqueduct.backup.selection import Groups
from aqueduct.backup.verify import verify_segments
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import acls, groups
from aqueduct.kafka import admin as kafka_admin
from aqueduct.kafka import client as kafka
from aqueduct.kafka.admin import Admin
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.client_config import End
from aqueduct.kafka.requests import in_lists
from aqueduct.link.wire import position
from aqueduct.link.wire.position import Position as LinkPosition
from aqueduct.names import TopicPartition
from aqueduct.restore import group_offsets, mirrors, positions, progress, records, settings, topics
from aqueduct.restore.mirrors import Mirror, Position, Positions
from aqueduct.restore.outcome import LeftOut, Move, Outcome, Rights, Written
from aqueduct.restore.plan import Lane, Plan, plan, shares
from aqueduct.restore.positions import Answer, Answers, Question
from aqueduct.restore.progress import EVERY_GROUP, TopicState
from aqueduct.restore.request import Request, restore_id
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.snapshots import Snapshot
from aqueduct.wording import count, some
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-restore"
RECORD_BYTES = 2_500  # that take as long to write as one record takes to read
ENDING_SECONDS = 5  # that the last transaction of a run which was killed may take to be seen whole
LANES = 200  # whose groups' offsets one task finds
OLDER = "they are those of the topic that was made later under this name"
COMPACTED = (
    "records may have been compacted away since the restore ended, so where it was can't be told; "
    "delete the topic and restore it anew"
)
FORGOTTEN = (
    "the target has forgotten how much was restored there (offsets.retention.minutes); "
    "delete the topic and restore it anew"
)

UNKNOWN_LINK = (
    "the snapshot has no position of it, so it must stay stopped; "
    "if all that was restored is to cross, start it"
)
AGAIN = "would cross as new, and it must stay stopped; if that is meant, start it"

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
    links: tuple[str, ...] = ()  # groups of one-way links, of which the same is true


@dataclass(frozen=True)
class Job:
    """An order, with what was found for it when the run began."""

    order: Order
    id: str
    request: str  # the request's digest
    snapshot: Snapshot
    plan: Plan
    there: Mapping[str, Topic]  # topics that the target has already
    known: Mapping[str, TopicState]  # what an earlier run remembered
    others: Mapping[str, list[TopicState]]  # what other restores did, by their ids
    groups: tuple[str, ...]  # that are to be set
    written: Mapping[TopicPartition, Written]  # of topics that earlier runs have ended

    @cached_property
    def ended(self) -> Set[str]:
        """Topics of which earlier runs have written all."""
        return {name for name, state in self.known.items() if state.done}

    @property
    def done(self) -> bool:
        return self.ended == self.plan.topics.keys()

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """What is still to be written, or may be."""
        return tuple(lane for lane in self.plan.lanes if lane.topic not in self.ended)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Topics that were restored without the settings that are asked for now."""
        return tuple(
            sorted(name for name in self.ended if self.order.settings and not self.known[name].of_backup)
        )


def main(order: Order, workers: Workers) -> Outcome:
    """One run, to the end. Refused or Failed before anything is written, or Failed in the middle."""
    clock = _Clock()
    with clock.phase("plan"):
        job = look(order)
        _say(f"Restore {job.id}: {_told(job.plan)}")
        if not job.done:
            check(job)
    if order.dry_run:
        return Outcome(job.id, job.plan, job.written, seconds=clock.seconds, dry_run=True, before=job.done)
    warnings: tuple[str, ...] = ()
    left_out: list[tuple[str, str]] = []
    states = dict(job.known)
    if not (job.done or order.skip_verify):
        with clock.phase("verify"):
            check_objects(job, workers)
    if job.unsettled or not job.done:
        with clock.phase("topics"):
            states, warnings = prepare(job)
    written = dict(job.written)
    if not job.done:
        with clock.phase("records"):
            written |= write(job, workers)
    with clock.phase("groups"):
        moves, more = restore_groups(job, states, written, workers)
        left_out += more
    if order.mirrors:
        with clock.phase("mirrors"):
            left_out += move_mirrors(job, written, workers)
    stopped: tuple[str, ...] = ()
    if order.links:
        with clock.phase("links"):
            stopped, more = move_links(job, written, workers)
        left_out += more
    with clock.phase("settings"):
        states, rights, more = finish(job, states, written)
        left_out += more
    held = {name: state.held for name, state in states.items() if state.held}
    return Outcome(
        job.id,
        job.plan,
        written,
        moves,
        job.unsettled,
        rights,
        held,
        warnings,
        tuple(left_out),
        stopped,
        clock.seconds,
        before=job.done,
    )


# Before anything is written


def look(order: Order) -> Job:
    catalog = Catalog.open(open_store(order.store))
    with _connected(order) as (client, admin):
        cluster = str(admin.client.describe_cluster()["cluster_id"])
        request = order.request.digest(catalog.id, cluster)
        others = topics.plans(client)
        if order.restore_id:
            number = _same(order, request, others.get(order.restore_id, ()))
            name = order.restore_id
            snapshot = catalog.snapshot(number)
        else:
            number = order.snapshot or _unfinished(others, request, order.release_retention)
            snapshot = catalog.snapshot(number)
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
        there = client.topics(wanted.topics)
        known = topics.states(client, name, there)
        job = Job(order, name, request, snapshot, wanted, there, known, others, tuple(chosen), {})
        return replace(job, written=_written(client, job))


def _written(client: Client, job: Job) -> dict[TopicPartition, Written]:
    """What the target still knows of the topics that have ended."""
    ids = {name: job.there[name].id for name in job.ended}
    places = [lane.target for lane in job.plan.lanes if lane.topic in ids]
    found = records.positions(client, job.id, places, ids) if places else {}
    return {place: Written(each, 0, 0) for place, (_, each) in found.items()}


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


def _unfinished(plans: Mapping[str, list[TopicState]], request: str, release: bool) -> int | None:
    """The snapshot of the newest restore of the same request that has not ended, or that holds something."""
    states = [state for of_plan in plans.values() for state in of_plan if state.request == request]
    return max(
        (state.snapshot for state in states if not state.done or (release and state.held)), default=None
    )


def check(job: Job) -> None:
    """Refused where the target has what is in the way."""
    topics.check_partitions(job.plan, job.there)
    # What a topic has that this restore has begun was found before, or is its own.
    there = {name: topic for name, topic in job.there.items() if name not in job.known}
    topics.check_others(there, job.others)
    with _connected(job.order) as (client, admin):
        places = [lane.target for lane in job.plan.lanes if lane.topic in there]
        if places and not job.order.append:
            topics.check_empty(client, places, there, job.others)
        topics.check_creation(admin, job.plan, job.there, with_settings=job.order.settings)


def check_objects(job: Job, workers: Workers) -> None:
    """Failed where an object that will be used is not what was written."""
    segments = [segment for lane in job.lanes for segment in lane.segments]
    faults = verify_segments(job.order.store, segments, workers, whole=False)
    if faults:
        raise Failed(
            f"{count(len(faults), 'object')} of snapshot {job.plan.snapshot} can't be used, so nothing was "
            f"written: {some(map(attrgetter('why'), faults))}"
        )


# Writing


def prepare(job: Job) -> tuple[States, tuple[str, ...]]:
    asked = job.order.settings
    with _connected(job.order) as (client, admin):
        warnings = topics.create(client, admin, job.plan, job.there, with_settings=asked)
        states = topics.hold_open(
            *(client, admin, job.id, job.request, job.plan),
            with_settings=asked,
            recheck=lambda found: _check_again(client, job, found),
        )
    return states, warnings


def _check_again(client: Client, job: Job, states: Mapping[str, TopicState]) -> None:
    """What `check` looked at, once more: much may have happened while the objects were read.

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
            places = [lane.target for lane in job.lanes if lane.topic in fresh]
            try:
                topics.check_empty(client, places, fresh, others)
            except Refused:
                client.sleep(ENDING_SECONDS)
                if not fresh.keys() <= records.begun(client, job.id, ids):
                    raise
    except Refused:
        topics.withdraw(client, job.id, fresh)
        raise


def write(job: Job, workers: Workers) -> dict[TopicPartition, Written]:
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
        for number, lanes in enumerate(shares(job.lanes))
    ]
    size = sum(lane.unpacked_bytes for lane in job.lanes)
    found = workers.parallel(size // RECORD_BYTES)(records.restore, tasks)
    return {place: each for written in found for place, each in written.items()}


def restore_groups(
    job: Job, states: States, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[Move, ...], LeftOut]:
    """Every group's offsets, as those of the same records; a group with members gets them later."""
    if job.order.groups is None:
        return (), ()
    wanted, left_out = _positions(job, states)
    offsets: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for of_group in wanted.values():
        for place, (old, _) in of_group.items():
            offsets[place].add(old)
    moves, unsure = _moves(job, wanted, _translate(job, offsets, written, workers))
    with _connected(job.order) as (client, admin):
        late = group_offsets.set_waiting(client, admin, job.id, job.groups)
        # Where records were there before, groups may have been, too.
        settled = job.ended | (job.there.keys() if job.order.append else set())
        now = group_offsets.set_groups(client, job.id, moves, settled)
        if not (unsure or now.failed):
            _groups_are_set(client, job, states)
    return late.moves + now.moves, left_out + late.waiting + unsure + now.waiting + now.failed


def _groups_are_set(client: Client, job: Job, states: States) -> None:
    """Or wait; a later run leaves them alone."""
    chosen = job.order.groups and job.order.groups.pattern
    pattern = chosen.pattern if chosen else EVERY_GROUP
    changed = {
        name: replace(state, groups=(pattern,) if pattern == EVERY_GROUP else (*state.groups, pattern))
        for name, state in states.items()
        if not {pattern, EVERY_GROUP} & set(state.groups)
    }
    if changed:
        topics.remember(client, job.id, changed)
        states |= changed


def _positions(job: Job, states: States) -> tuple[Mapping[str, groups.Offsets], LeftOut]:
    """What the snapshot's groups have committed of what is restored, by their topics' names at the target.

    Without what is set already.
    """
    renamed, lanes = job.plan.renamed, {lane.target for lane in job.plan.lanes}
    older = {
        target for target, (topic, instance) in job.plan.topics.items() if instance.topic_id != topic.topic_id
    }
    done = {
        patterns: progress.matched(patterns, job.groups) for patterns in {s.groups for s in states.values()}
    }
    by_name = {group.group: group for group in job.snapshot.manifest.groups}
    found: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
    left_out = set()
    for name in job.groups:
        for each in by_name[name].offsets:
            place = TopicPartition(renamed.get(each.topic, ""), each.partition)
            if place not in lanes:
                continue
            if place[0] in older:
                left_out.add((f"groups' offsets of {place[0]}", OLDER))
            elif name not in done[states[place[0]].groups]:
                found.setdefault(name, {})[place] = each.offset, each.metadata
    return found, tuple(sorted(left_out))


def _moves(
    job: Job, wanted: Mapping[str, groups.Offsets], answers: Answers
) -> tuple[dict[str, list[Move]], LeftOut]:
    stops = {lane.target: lane.stop for lane in job.plan.lanes}
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    unsure = []
    for name, of_group in wanted.items():
        for place, (old, metadata) in sorted(of_group.items()):
            answer = answers[place, old]
            if answer.new is None:
                unsure.append((f"group {name}, {place}", answer.unsure))
                continue
            note = f"the snapshot ends at {stops[place]}" if old > stops[place] else answer.note
            moves[name].append(Move(name, *place, old, answer.new, metadata, note))
    return moves, tuple(unsure)


def _translate(
    job: Job,
    offsets: Mapping[TopicPartition, Set[int]],
    written: Mapping[TopicPartition, Written],
    workers: Workers,
) -> Answers:
    """By place at the target: for offsets of the store those of the same records."""
    answers: Answers = {}
    questions = []
    for lane in job.plan.lanes:
        if mine := sorted(offsets.get(lane.target, ())):
            if why := _untold(job, lane, written):
                answers |= {(lane.target, each): Answer(None, unsure=why) for each in mine}
            else:
                questions.append(Question(lane, tuple(mine), written[lane.target].progress))
    order = job.order
    tasks = [
        positions.Share(order.end, order.store, job.plan.window, tuple(some_questions))
        for some_questions in in_lists(questions, LANES)
    ]
    work = sum(sum(segment.records for segment in question.lane.segments) for question in questions) // 10
    for found in workers.parallel(work)(positions.translate, tasks):
        answers |= found
    return answers


def _untold(job: Job, lane: Lane, written: Mapping[TopicPartition, Written]) -> str:
    """Why records can't be found again in what was restored of a lane, by counting; empty: they can."""
    if lane.target not in written:
        return FORGOTTEN
    ended = lane.topic in job.ended
    return COMPACTED if ended and "compact" in job.known[lane.topic].holds[settings.POLICY] else ""


def move_mirrors(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> Iterator[tuple[str, str]]:
    """Let mirrors that read the restored topics go on at the same records, once; Failed where it can't be."""
    for mirror in job.order.mirrors:
        with mirrors.opened(mirror, job.id) as at:
            said = at.moved()
            if said is None:
                moved, said = _moved(job, at, written, workers)
                at.move(moved, said)
            if said:
                yield f"mirror {mirror.name}", said


def _moved(
    job: Job, at: Positions, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[dict[Position, int], str]:
    """A mirror's positions with their new offsets, and where it was ahead of the snapshot."""
    lanes = {lane.target: lane for lane in job.plan.lanes if lane.topic == lane.place.topic}
    mine = {place: each for place, each in at.read().items() if place in lanes}
    answers = _translate(job, {place: {each.next} for place, each in mine.items()}, written, workers)
    moved = {}
    ahead = []
    for place, each in sorted(mine.items()):
        answer, stop = answers[place, each.next], lanes[place].stop
        what = str(place)
        if answer.new is None:
            raise Failed(
                f"Mirror {at.mirror.name}, {what}: {answer.unsure}. None of its positions was moved."
            )
        moved[each] = answer.new
        if each.next > stop:
            ahead.append(f"{what} up to {each.next}, and the snapshot ends at {stop}")
    return moved, f"it has read {some(ahead)}" if ahead else ""


def move_links(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[str, ...], LeftOut]:
    """Let one-way links that read the restored topics go on at the same records, once.

    Those of which that can't be told, whose services must not be started; and what was left out.
    """
    stopped, left_out = [], []
    for name in job.order.links:
        try:
            found = _moved_link(job, name, written, workers)
        except Failed as error:
            stopped.append(name)
            found = [str(error)]
        left_out += [(f"link {name}", each.rstrip(".")) for each in found]
    return tuple(stopped), tuple(left_out)


def _moved_link(
    job: Job, name: str, written: Mapping[TopicPartition, Written], workers: Workers
) -> list[str]:
    """What is to be said of one whose positions were moved, each; Failed if none was."""
    lanes = {lane.target: lane for lane in job.plan.lanes if lane.topic == lane.place.topic}
    saved = _link_positions(
        (TopicPartition(each.topic, each.partition), each.offset, each.metadata)
        for of_group in job.snapshot.manifest.groups
        if of_group.group == name
        for each in of_group.offsets
    )
    backed_up = {topic: instance.topic_id for topic, (_, instance) in job.plan.topics.items()}
    with _connected(job.order) as (client, _):
        ids = {topic: str(found.id) for topic, found in client.topics(backed_up).items()}
        there = _link_positions(
            (place, *said) for place, said in groups.committed(client, [name])[name].items()
        )
        # One that only waited in the empty topic has not begun.
        begun = {
            place for place, (offset, at) in there.items() if offset and at.topic_id == ids.get(place[0])
        }
        if not saved and not begun:
            raise Failed(UNKNOWN_LINK)
        old = {
            place: offset
            for place, (offset, at) in sorted(saved.items())
            if place in lanes and place not in begun and at.topic_id == backed_up[place[0]]
        }
        if same := sorted({topic for topic, _ in old if ids[topic] == backed_up[topic]}):
            raise Failed(f"{some(same)} was never made anew, so what was restored {AGAIN}")
        answers = _translate(job, {place: {offset} for place, offset in old.items()}, written, workers)
        found = {place: answers[place, offset] for place, offset in old.items()}
        if unsure := [f"{place}: {each.unsure}" for place, each in found.items() if each.new is None]:
            raise Failed(f"where it was can't be told, so it must stay stopped: {some(unsure)}")
        session = max(at.session for _, at in (*saved.values(), *there.values()))
        new = {place: each.new for place, each in found.items() if each.new is not None}
        groups.commit(
            *(client, name),
            {place: (at, LinkPosition(ids[place[0]], at, session).dumps()) for place, at in new.items()},
        )
    stops = {place: (offset, lanes[place].stop) for place, offset in old.items()}
    behind = [f"{place} from {at} to {stop - 1}" for place, (at, stop) in stops.items() if at < stop]
    ahead = [f"{place} up to {at - 1}" for place, (at, stop) in stops.items() if at > stop]
    return [
        *([f"what of {some(behind)} (in the backup) had crossed crosses again"] if behind else []),
        *([f"it has sent {some(ahead)}, and the snapshot ends before"] if ahead else []),
    ]


def _link_positions(
    committed: Iterable[tuple[TopicPartition, int, str]],
) -> dict[TopicPartition, tuple[int, LinkPosition]]:
    return {place: (offset, at) for place, offset, said in committed if (at := position.loads(said))}


# After


def finish(
    job: Job, states: States, written: Mapping[TopicPartition, Written]
) -> tuple[States, Rights | None, LeftOut]:
    order = job.order
    with _connected(order) as (client, admin):
        now = time.time_ns() // 1_000_000
        done = topics.let_go(admin, states, written, hold=not order.release_retention, now=now)
        if changed := {name: state for name, state in done.items() if state != states[name]}:
            topics.remember(client, job.id, changed)
        if not order.acls:
            return done, None, ()
        return done, *_restore_rights(admin, job.snapshot)


def _restore_rights(admin: Admin, snapshot: Snapshot) -> tuple[Rights, LeftOut]:
    wanted, quotas = frozenset(snapshot.manifest.acls), snapshot.manifest.quotas
    left_out: LeftOut = ()
    missing: frozenset[acls.Acl] = frozenset()
    try:
        missing = wanted - admin.list_acls() if wanted else wanted
        admin.apply_acls(acls.Plan(add=tuple(sorted(missing)), remove=()))
    except SecurityDisabledError:
        left_out = ((count(len(wanted), "ACL"), "the target has no authorizer"),)
        wanted = missing
    admin.apply_quotas(quotas)
    return Rights(len(missing), len(wanted) - len(missing), len(quotas)), left_out


# Small things


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
    at_most = "at most " if wanted.at_most else ""
    number = sum(lane.records for lane in wanted.lanes)
    return (
        f"snapshot {wanted.snapshot}, {count(len(wanted.topics), 'topic')}, "
        f"{count(len(wanted.lanes), 'partition')}, {at_most}{count(number, 'record')}, {size:,.1f} MB."
    )


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
