"""Removes snapshots of a store, and the objects that only these snapshots use.

A prune creates no objects. So it cannot disturb a running backup, and needs no permission to create objects.
Manifests are removed before the objects that they list. Objects that no manifest lists stay as long as a
running backup may still commit them. Before the removal, a sample of the remaining objects is checked.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aqueduct.common import timestamps
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.backup.faults import Fault
from aqueduct.snapshots.prune.outcome import Amount, OpenedSample, PruneOutcome, Shrunk, Swept
from aqueduct.snapshots.prune.plan import Pruned, PrunePlan, plan
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.snapshots.prune.referenced_segments import Digests, NamedSegments, digests
from aqueduct.snapshots.prune.sample import SAMPLE_BYTES, Samples, open_sample
from aqueduct.store import leases, names
from aqueduct.store.backends import open_editable
from aqueduct.store.catalog import Catalog
from aqueduct.store.clock import Clock
from aqueduct.store.keyring import Keyring
from aqueduct.store.leases import Leases
from aqueduct.store.manifest import Manifest
from aqueduct.store.objects import EditableObjects, Entry
from aqueduct.store.signing import EVERYBODY, Trust
from aqueduct.store.snapshots import Broken
from aqueduct.work.progress import note

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey

REQUEST_PATHS = 1000  # objects that one request removes: the maximum of S3
REQUESTS = 8  # at the same time
TRIES = 10  # if another prune removes manifests while they are read


@dataclass(frozen=True, kw_only=True)
class PruneOrder:
    """The request for a prune."""

    store: str  # URL
    keep: KeepPolicy
    execute: bool = False  # else only a preview
    orphan_hours: float = 48
    trust: Trust = EVERYBODY
    private_keys: "tuple[ReceiverKey, ...]" = ()  # that decrypt manifests
    copied_through: int = 0  # snapshots up to this one were copied, and are as old as their manifests state
    wrong_clock: frozenset[int] = frozenset()  # snapshots of hosts whose clocks were wrong
    allow_less: bool = False  # also remove data of a topic that has far less data in the newest snapshot
    past_damage: bool = False  # also remove snapshots if objects of remaining ones are damaged
    sample_bytes: int = SAMPLE_BYTES  # size of the sample that is checked before the removal; 0: none


def prune(order: PruneOrder) -> PruneOutcome:
    """Prune a store, or preview it.

    Nothing is removed, and the outcome has the reason (`refused`, `damaged`), if the newest snapshot has far
    less data of a topic than would be removed, or if objects of remaining snapshots are damaged.
    Refused if there is no snapshot, or if the times of manifests run backwards. Failed, with nothing removed,
    if a snapshot is unusable: the objects that it lists would count as orphans.
    """
    began = time.monotonic()
    objects = open_editable(order.store)
    keys = Keyring(objects, order.private_keys)
    catalog = Catalog.open(objects, order.trust, keys)
    stock, planned, opened = _plan_prune(catalog, objects, keys, order)
    prune_plan = stock.plan
    left_out = [
        Skipped(f"snapshot {number}", f"it is kept for now: {prune_plan.stay[number]}", "snapshot-leased")
        for number in prune_plan.leased
    ]
    left_out += _doubtful(stock, order)
    if prune_plan.go:
        shrunk = planned.shrunk() if planned and not order.allow_less else ()
        if shrunk or (opened.faults and not order.past_damage):
            preview = planned or _sweep(objects, stock, order, keep_all=False, remove=False)
            return _outcome(stock, preview, left_out, began, opened, refused=shrunk, damaged=opened.faults)
        left_out += [
            Skipped(fault.path, fault.why.rstrip("."), "remaining-snapshot-damaged")
            for fault in opened.faults
        ]
    if order.execute:
        for some_ in prune_plan.rounds:
            for paths in in_lists(map(names.snapshot, some_), REQUEST_PATHS):
                objects.remove_many(paths)
        for paths in in_lists(stock.leases.over, REQUEST_PATHS):
            objects.remove_many(paths)
    # A restore may have begun while its snapshot was removed. Only this restore knows which objects it reads.
    newest = max(stock.listed)
    late = {
        number for number in _leases(objects, stock.newest).held if number <= newest
    } - prune_plan.stay.keys()
    if late:
        reason = (
            f"restores use removed snapshots ({some(sorted(late))}). Run the command again after the "
            "restores have ended"
        )
        left_out.append(Skipped("all objects", reason, "restores-use-pruned-snapshots"))
    swept = planned if not order.execute and not late else None
    swept = swept or _sweep(objects, stock, order, keep_all=bool(late), remove=order.execute)
    return _outcome(stock, swept, left_out, began, opened, executed=order.execute)


def _plan_prune(
    catalog: Catalog, objects: EditableObjects, keys: Keyring, order: PruneOrder
) -> tuple["_Stock", Swept | None, OpenedSample]:
    """Return the plan, the preview of the removal (None: no data), and the result of checking a sample.

    If another prune removes remaining snapshots at the same time, everything is read again.
    """
    for _ in range(TRIES):
        stock = _read_until_stable(catalog, objects, order)
        if not stock.plan.go:
            return stock, None, OpenedSample()
        planned = None
        if len(stock.kept) < len(stock.ever):  # else no data is removed
            planned = _sweep(objects, stock, order, keep_all=False, remove=False)
        if opened := _opened(catalog, keys, stock, planned, order):
            return stock, planned, opened
    raise _snapshots_changing(order.store)


def _opened(
    catalog: Catalog, keys: Keyring, stock: "_Stock", planned: Swept | None, order: PruneOrder
) -> OpenedSample | None:
    """Check a sample of the remaining segments; None if another prune has removed some of them."""
    chosen = stock.samples.chosen(planned.gone.keys() if planned else (), order.sample_bytes)
    if not chosen:
        return OpenedSample()
    note(f"Checking a sample of the remaining snapshots: {count(len(chosen), 'segment')}.")
    opened = open_sample(order.store, keys, chosen)
    if opened.faults and not stock.plan.stay.keys() <= catalog.listed().keys():
        return None
    return opened


def _outcome(
    stock: "_Stock",
    swept: Swept,
    left_out: Sequence[Skipped],
    began: float,
    opened: OpenedSample,
    *,
    executed: bool = False,
    refused: tuple[Shrunk, ...] = (),
    damaged: tuple[Fault, ...] = (),
) -> PruneOutcome:
    return PruneOutcome(
        plan=stock.plan,
        times={snapshot.number: snapshot.time for snapshot in stock.snapshots},
        manifest_bytes=sum(stock.listed[number].size for number in stock.plan.go),
        swept=swept,
        executed=executed,
        left_out=tuple(left_out),
        seconds=time.monotonic() - began,
        opened=opened,
        refused=refused,
        damaged=damaged,
    )


def _doubtful(stock: "_Stock", order: PruneOrder) -> list[Skipped]:
    """Return the snapshots that stay because their times are doubtful, consecutive ones as one item."""
    some_ = [snapshot for snapshot in stock.snapshots if snapshot.doubtful]
    rows: list[list[Pruned]] = []
    for snapshot in some_:
        if rows and rows[-1][-1].number + 1 == snapshot.number != order.copied_through + 1:
            rows[-1].append(snapshot)
        else:
            rows.append([snapshot])
    return [
        Skipped(
            f"snapshots {row[0].number} to {row[-1].number}" if row[1:] else f"snapshot {row[0].number}",
            f"{'they stay' if row[1:] else 'it stays'}: {row[-1].doubtful}. {_reason(row[0], order)}",
            "snapshot-times-disagree",
        )
        for row in rows
    ]


def _reason(snapshot: Pruned, order: PruneOrder) -> str:
    if snapshot.number <= order.copied_through and snapshot.number not in order.wrong_clock:
        return "Either it was copied later than other snapshots, or an attacker wrote it"
    return (
        "Either the store was copied, or a clock was wrong, or an attacker wrote it. If the store was "
        "copied, pass the number of the last copied snapshot with --copied-through"
    )


@dataclass(frozen=True, kw_only=True)
class _Stock:
    """The snapshots of a store, and the plan for them."""

    listed: Mapping[int, Entry]  # manifests, by number
    snapshots: tuple[Pruned, ...]
    leases: Leases
    plan: PrunePlan
    ever: NamedSegments  # the segments that any manifest lists
    kept: NamedSegments  # those of the remaining snapshots
    last: NamedSegments  # those of the newest snapshot
    stated: Mapping[str, int]  # by topic: bytes of the newest snapshot's objects, as its manifests state them
    samples: Samples  # of the remaining snapshots

    @property
    def newest(self) -> Entry:
        return self.listed[max(self.listed)]


def _read_until_stable(catalog: Catalog, objects: EditableObjects, order: PruneOrder) -> _Stock:
    """Read all manifests, and remaining full ones twice. Start again if another prune removed some."""
    for _ in range(TRIES):
        listed = catalog.listed()
        if not listed:
            raise Refused("snapshot-missing", f"{order.store} contains no snapshot. Check --store.")
        if absent := sorted(order.wrong_clock - listed.keys()):
            raise Refused(
                "snapshot-missing",
                f"--wrong-clock {absent[0]}: {order.store} has no snapshot with this number. Run aqueduct "
                "snapshots to list the snapshots. Nothing was removed.",
            )
        note(f"Reading {count(len(listed), 'manifest')}.")
        try:
            if stock := _read(catalog, objects, order, listed):
                return stock
        except Broken as error:
            if listed.keys() <= catalog.listed().keys():
                raise Failed(error.id, _unusable_snapshot(error, objects.url)) from None
    raise _snapshots_changing(order.store)


def _snapshots_changing(url: str) -> Failed:
    return Failed(
        "snapshots-changing",
        f"Snapshots of {url} were removed, or restores began, while this prune read them. Nothing was "
        "removed. Run the command again after other prunes have ended.",
    )


def _read(
    catalog: Catalog, objects: EditableObjects, order: PruneOrder, listed: Mapping[int, Entry]
) -> _Stock | None:
    """Read the manifests and plan the prune; None if the store has changed meanwhile."""
    ever, snapshots = NamedSegments(), []
    added = dict[
        int, Digests
    ]()  # of increments only; full manifests repeat the earlier segments, so they are read again
    times = {number: int(entry.written * 1000) for number, entry in listed.items()}
    clock = Clock(copied_through=order.copied_through, wrong=order.wrong_clock, written=times)
    for manifest in catalog.every(listed):
        named = _listed_segments(manifest)
        ever.add(named)
        if not manifest.full:
            added[manifest.number] = named
        made, doubtful = clock.time(manifest.number, manifest.created, times[manifest.number])
        snapshots.append(
            Pruned(number=manifest.number, time=made, base=manifest.chain.base, doubtful=doubtful)
        )
    if len(snapshots) < len(listed):
        return None
    if clock.backwards:
        raise Refused("snapshot-time-backwards", _time_backwards(clock, objects.url))
    newest = listed[max(listed)]
    now = _leases(objects, newest)
    prune_plan = plan(snapshots, order.keep, now.held)
    kept, last = NamedSegments(), NamedSegments()
    stated, samples = Counter[str](), Samples()
    for number in prune_plan.stay:
        in_newest = number >= snapshots[-1].base
        if number in added and not prune_plan.go:
            named = added[number]
        else:
            manifest = catalog.manifest(number)
            named = _listed_segments(manifest)
            (samples.newest if in_newest else samples.others).add(manifest.segments)
            if in_newest:
                for segment in manifest.segments:
                    stated[segment.topic] += segment.stored_bytes + segment.index_bytes
        kept.add(named)
        if in_newest:
            last.add(named)
    if _leases(objects, newest).held.keys() & set(prune_plan.go):
        return None  # a restore has begun that is not in the plan
    return _Stock(
        listed=listed,
        snapshots=tuple(snapshots),
        leases=now,
        plan=prune_plan,
        ever=ever,
        kept=kept,
        last=last,
        stated=stated,
        samples=samples,
    )


def _time_backwards(clock: Clock, url: str) -> str:
    number, made, before = clock.backwards[0]
    others = len(clock.backwards) - 1
    more = f" ({count(others, 'more snapshot')} with the same fault)" if others else ""
    return (
        f"Snapshot {number} of {url} has the time {timestamps.text(made)}, but an earlier snapshot has the "
        f"later time {timestamps.text(before)}{more}. Nothing was removed. Find out who wrote snapshot "
        f"{number}. If none of your backups did, move it and the snapshots that build on it out of "
        f"{names.SNAPSHOTS}/. If the clock of a host was wrong, pass --wrong-clock {number} to keep it."
    )


def _listed_segments(manifest: Manifest) -> Digests:
    """Return the segments that a manifest lists and that have objects."""
    return digests(segment.stem for segment in manifest.segments if segment.records)


def _unusable_snapshot(error: Broken, url: str) -> str:
    return (
        f"{error} Nothing was removed, because objects that only this snapshot uses would count as orphans. "
        f"Restore the snapshot from a copy of {url}. To abandon it, move it and the snapshots that build on "
        f"it out of {names.SNAPSHOTS}/: they are then lost."
    )


def _leases(objects: EditableObjects, newest: Entry) -> Leases:
    return leases.read(objects, newest.written, time.time())


def _sweep(
    objects: EditableObjects, stock: _Stock, order: PruneOrder, *, keep_all: bool, remove: bool
) -> Swept:
    """List all objects below the folders of topics, and remove those that the plan selects.

    Uncommitted objects of a run are newer than the newest manifest: a run that began before that manifest
    can no longer commit. So the age of an object is determined by the clock of the store alone.
    """
    before = stock.newest.written - order.orphan_hours * 3600
    swept = Swept(stated=stock.stated)
    with ThreadPoolExecutor(REQUESTS) as pool:
        for entries in in_lists(objects.list(names.TOPICS), REQUESTS * REQUEST_PATHS):
            going = list(_removable_paths(entries, stock, before, swept))
            if remove and not keep_all:
                for _ in pool.map(objects.remove_many, in_lists(going, REQUEST_PATHS)):
                    pass
    return Swept(young=swept.young, strange=swept.strange) if keep_all else swept


def _removable_paths(entries: Iterable[Entry], stock: _Stock, before: float, swept: Swept) -> Iterator[str]:
    """Yield the paths of objects to be removed, and count all objects."""
    segments = []
    for entry in entries:
        if of := names.segment_of(entry.path):
            segments.append((entry, of))
        else:
            swept.strange.add(entry.size)
    stems = [of.stem for _, of in segments]
    kept, ever, last = stock.kept.has(stems), stock.ever.has(stems), stock.last.has(stems)
    for (entry, of), stays, was_named, in_newest in zip(segments, kept, ever, last, strict=True):
        if in_newest:
            swept.newest.setdefault(of.topic, Amount()).add(entry.size)
        if stays:
            continue
        if was_named:
            swept.gone.setdefault(of.topic, Amount()).add(entry.size)
            swept.parts.setdefault((of.topic, of.generation), Amount()).add(entry.size)
        elif entry.written < before:
            swept.orphans.add(entry.size)
        else:
            swept.young.add(entry.size)
            continue
        yield entry.path
