"""Reads what is new in topics into segments of a store, and commits it as a snapshot.

The driver decides what is read; each task reads its share and writes segments; the driver commits. Until then
nothing that a task wrote exists: a run that ends in the middle leaves objects that no manifest names.
"""

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from uuid import UUID

from kafka.errors import ClusterAuthorizationFailedError, KafkaError, SecurityDisabledError

from aqueduct.backup.plan import Reading, Result, Source, active_instance, plan, settle
from aqueduct.backup.selection import POSITION_GROUP, Groups, Topics
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import admin as kafka_admin
from aqueduct.kafka import client as kafka
from aqueduct.kafka import fetch, groups, offsets
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin import Admin
from aqueduct.kafka.client_config import End
from aqueduct.kafka.quotas import Quota
from aqueduct.ranges import Range
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import (
    NOT_READ,
    Gap,
    Group,
    GroupAhead,
    GroupOffset,
    Manifest,
    OpenTransaction,
    Segment,
)
from aqueduct.store.objects import Exists, Objects
from aqueduct.store.segments import Limits
from aqueduct.wording import count, some
from aqueduct.work.pace import Pace
from aqueduct.work.runner import THREADS
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-backup"
TASK_OFFSETS = 20_000, 5_000_000  # of a task, at least and at most
TASKS_PER_CORE = 3  # so that cores end at about the same time


@dataclass(frozen=True)
class Order:
    """What a run is asked for."""

    end: End
    store: str  # URL
    topics: Topics
    groups: Groups
    generation_hours: float = 24
    limits: Limits = field(default_factory=Limits)
    bytes_per_second: int | None = None  # of the whole run, as Kafka has them
    options: Mapping[str, object] = field(default_factory=dict)  # as they were given, for the manifest
    other_cluster: bool = False  # what is backed up may be another cluster than before
    past_damage: bool = False  # goes on after the newest snapshot that is whole


@dataclass(frozen=True)
class Outcome:
    """A run that committed."""

    manifest: Manifest  # with everything that this run added
    stored_bytes: int
    left_out: tuple[tuple[str, str], ...]  # what, why
    seconds: float


def back_up(order: Order, workers: Workers) -> Outcome:
    """One run; Failed if nothing was committed, Refused if it would be another cluster's."""
    began = time.monotonic()
    catalog = Catalog.open_or_make(open_store(order.store))
    parent = catalog.parent(past_damage=order.past_damage)
    if order.past_damage:
        before = parent.manifest
        _say(f"Going on after {f'snapshot {before.number}' if before else 'none: no snapshot is whole'}.")
    found = look(order)
    if parent.manifest and parent.manifest.cluster != found.cluster and not order.other_cluster:
        raise Refused(
            f"{order.store} has backups of the cluster {parent.manifest.cluster}, and this one is "
            f"{found.cluster}. If it was made anew, restore it before; if it shall follow the other in this "
            "store, back it up once with --other-cluster."
        )
    started = _now()
    milliseconds = int(order.generation_hours * 3_600_000)
    todo = plan(parent.manifest, found.sources, now=started, generation_milliseconds=milliseconds)
    run = secrets.token_hex(4)
    readings = todo.readings
    _say(f"Reading {count(sum(map(len, readings)), 'offset')} of {count(len(readings), 'partition')}.")
    results = read_all(order, readings, run, workers)
    left_out = found.left_out + todo.left_out + tuple(each for result in results for each in result.left_out)
    if readings and all(result.nothing for result in results):
        raise Failed(f"Nothing could be read: {left_out[-1][1]}")
    added = settle(todo, results)
    increment = Manifest(
        chain=parent.follow(),
        store=catalog.id,
        run=run,
        created=_now(),
        started=started,
        ended=_now(),
        cluster=found.cluster,
        version=version("aqueduct"),
        options=order.options,
        starts=added.starts,
        positions=added.positions,
        topics=added.topics,
        segments=added.segments,
        gaps=added.gaps,
        groups=found.groups,
        acls=found.acls,
        quotas=found.quotas,
        open_transactions=found.open_transactions,
        groups_ahead=found.groups_ahead,
    )
    try:
        catalog.commit(increment)
    except Exists:
        raise Failed(
            f"Another run committed snapshot {increment.number} of {order.store} first, so this one "
            "committed nothing; run it again, and let only one at a time back up into a store."
        ) from None
    left_out += commit_position(order.end, catalog.id, increment)
    stored = sum(segment.stored_bytes + segment.index_bytes for segment in increment.segments)
    return Outcome(increment, stored, left_out, time.monotonic() - began)


# Before


@dataclass(frozen=True)
class Found:
    """What the cluster has."""

    cluster: str  # its id
    sources: tuple[Source, ...]
    groups: tuple[Group, ...]
    acls: tuple[Acl, ...]
    quotas: tuple[Quota, ...]
    open_transactions: tuple[OpenTransaction, ...]
    groups_ahead: tuple[GroupAhead, ...]
    left_out: tuple[tuple[str, str], ...]


def look(order: Order) -> Found:
    """Groups before the ends: no group is ahead of what is read, unless it read what is not stable yet."""
    with (
        kafka.connect(order.end, CLIENT) as client,
        kafka_admin.connect(order.end.bootstrap_servers, order.end.client_config) as admin,
    ):
        topics = client.topics()
        chosen = order.topics.choose(topics)
        settings = admin.topic_settings(chosen)
        policies = admin.effective(chosen, "cleanup.policy")
        acls, quotas, left_out = _rights(admin)
        known = groups.list_groups(client)
        committed = groups.committed(client, order.groups.choose(known))
        if absent := order.groups.absent(known):
            _say(f"There is no group {some(absent)} to leave out; see --exclude-groups.")
        places = [(name, each.number) for name in chosen for each in topics[name].partitions]
        ends = offsets.ends(client, places, "read_uncommitted")
        stable = offsets.ends(client, places)
        starts = offsets.log_starts(client, places)
        cluster = str(admin.client.describe_cluster()["cluster_id"])
    sources = []
    for name in chosen:
        mine = [(name, each.number) for each in topics[name].partitions]
        sources.append(
            Source(
                name=name,
                topic_id=str(topics[name].id),
                # Of its partitions the least: more than that none can promise.
                replication_factor=min(len(each.replicas) for each in topics[name].partitions),
                compacted="compact" in policies[name].split(","),
                settings=settings[name],
                starts=tuple(starts[place] for place in mine),
                # What was deleted after the end was read is no record of this run.
                ends=tuple(max(stable[place], starts[place]) for place in mine),
            )
        )
    return Found(
        cluster=cluster,
        sources=tuple(sources),
        groups=tuple(
            Group(
                name,
                known[name].protocol,
                tuple(GroupOffset(*place, *offset) for place, offset in sorted(of_group.items())),
            )
            for name, of_group in committed.items()
            if of_group
        ),
        acls=acls,
        quotas=quotas,
        open_transactions=tuple(
            OpenTransaction(*place, stable[place], ends[place])
            for place in places
            if stable[place] < ends[place]
        ),
        groups_ahead=tuple(
            GroupAhead(name, *place, offset, stable[place])
            for name, of_group in committed.items()
            for place, (offset, _) in of_group.items()
            if place in stable and offset > stable[place]
        ),
        left_out=left_out,
    )


def _rights(admin: Admin) -> tuple[tuple[Acl, ...], tuple[Quota, ...], tuple[tuple[str, str], ...]]:
    acls: tuple[Acl, ...] = ()
    quotas: tuple[Quota, ...] = ()
    left_out = []
    try:
        acls = tuple(sorted(admin.list_acls()))
    except SecurityDisabledError:
        pass  # a cluster without an authorizer has none
    except ClusterAuthorizationFailedError:
        left_out.append(("ACLs", "the client may not describe the cluster"))
    try:
        quotas = admin.quotas()
    except ClusterAuthorizationFailedError:
        left_out.append(("quotas", "the client may not describe the cluster's configuration"))
    return acls, quotas, tuple(left_out)


# Reading


@dataclass(frozen=True)
class Share:
    """What one task reads, reading by reading."""

    end: End
    store: str
    run: str
    readings: tuple[Reading, ...]
    limits: Limits
    bytes_per_second: float | None


def read_all(order: Order, readings: Sequence[Reading], run: str, workers: Workers) -> list[Result]:
    total = sum(map(len, readings))
    at_once = workers.many(total) or THREADS
    least, most = TASK_OFFSETS
    at_most = min(most, max(least, total // (TASKS_PER_CORE * at_once)))
    rate = workers.share(order.bytes_per_second, total)
    shares = [
        Share(order.end, order.store, run, some, order.limits, rate) for some in _shares(readings, at_most)
    ]
    return [result for results in workers.parallel(total)(write_share, shares) for result in results]


def _shares(readings: Sequence[Reading], at_most: int) -> list[tuple[Reading, ...]]:
    """A large partition goes to several tasks, many small ones to one."""
    shares: list[list[Reading]] = []
    room = 0
    for whole in readings:
        start = whole.start
        while start < whole.stop:
            # A task for a few offsets, or another one for a partition's last few, costs more than it spares.
            if not shares or room < min(at_most // 2, whole.stop - start):
                shares.append([])
                room = at_most
            rest = whole.stop - start
            stop = whole.stop if rest <= room + at_most // 2 else start + room
            shares[-1].append(Reading(whole.place, start, stop, whole.topic_id, whole.generation))
            room -= stop - start
            start = stop
    return [tuple(share) for share in shares]


def write_share(share: Share) -> list[Result]:
    objects = open_store(share.store)
    pace = Pace(share.bytes_per_second)
    with kafka.connect(share.end, CLIENT) as client:
        return [_read(client, objects, share, reading, pace) for reading in share.readings]


def _read(client: kafka.Client, objects: Objects, share: Share, reading: Reading, pace: Pace) -> Result:
    writer = segments.Writer(
        objects,
        reading.place,
        share.run,
        reading.start,
        generation=reading.generation,
        limits=share.limits,
    )
    made: list[Segment | None] = []
    gaps: list[Gap] = []
    left_out: list[tuple[str, str]] = []
    reached = reading.start
    wanted = Range(reading.place.topic, reading.place.partition, reading.start, reading.stop)
    pieces = fetch.read(client, wanted, topic_id=UUID(reading.topic_id))
    while True:
        try:
            piece = next(pieces, None)
        except (Failed, KafkaError) as error:
            what = f"{reading.place.topic}-{reading.place.partition} from offset {reached} on"
            left_out.append((what, str(error).rstrip(".")))
            break
        if piece is None:
            break
        if piece.lost:
            made.append(writer.skip(piece.lost[1]))
            gaps.append(Gap(*reading.place, *piece.lost))
        made += writer.add(piece.batches, piece.next_offset)
        reached = piece.next_offset
        pace.spent(sum(map(len, piece.batches)))
    made.append(writer.finish())
    return Result(reading, reached, tuple(filter(None, made)), tuple(gaps), tuple(left_out))


# After


def commit_position(end: End, store_id: str, manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Show the position as a group's, so that Kafka's own tools tell its lag."""
    group = POSITION_GROUP + store_id
    active = {(topic.name, active_instance(topic).number) for topic in manifest.topics}
    positions = {
        (topic, partition): (offset, f"snapshot {manifest.number}")
        for (topic, instance), at in manifest.positions.items()
        if (topic, instance) in active
        for partition, offset in enumerate(at)
        if offset != NOT_READ
    }
    try:
        with kafka.connect(end, CLIENT) as client:
            there = client.topics({topic for topic, _ in positions})
            groups.commit(client, group, {place: at for place, at in positions.items() if place[0] in there})
    except (Failed, KafkaError) as error:
        return ((f"group {group}", f"the position could not be committed: {str(error).rstrip('.')}"),)
    return ()


def _now() -> int:
    return time.time_ns() // 1_000_000


def _say(progress: str) -> None:
    print(progress, file=sys.stderr)
