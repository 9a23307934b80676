"""Reads the new records of topics into segments of a store, and commits them as a snapshot.

The driver plans the offsets to read. Each task reads its share and writes segments. The driver commits them.
If a run is interrupted before that, the store keeps objects that no manifest lists.
"""

import secrets
import sys
import time
from dataclasses import dataclass
from functools import partial

from aqueduct.common import timestamps
from aqueduct.common.wording import count
from aqueduct.errors import Failed, LeftOut, NoMatch, Refused
from aqueduct.snapshots.backup import commit, reading, survey
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import (
    Added,
    BackupPlan,
    Generations,
    ReadingResult,
    plan,
    settle,
)
from aqueduct.snapshots.backup.survey import Surveyed
from aqueduct.store import expiry
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog, Parent
from aqueduct.store.encryption import DataKind
from aqueduct.store.expiry import Expiry, RulesPut
from aqueduct.store.keyring import Keyring, lending
from aqueduct.store.lifecycle import LifecycleRules
from aqueduct.store.manifest import Manifest
from aqueduct.store.objects import Objects
from aqueduct.store.snapshots import Stored
from aqueduct.work.progress import note
from aqueduct.work.workers import Workers


@dataclass(frozen=True, kw_only=True)
class BackupOutcome:
    """A run that committed."""

    manifest: Manifest  # with all that this run added
    stored_bytes: int
    left_out: LeftOut
    seconds: float
    rules: Expiry | None = None  # None: no segments expire
    put: RulesPut | None = None
    unchanged: tuple[str, ...] = ()  # compacted topics that keep their generation, because nothing changed
    notes: tuple[str, ...] = ()  # sentences on options that have no effect


@dataclass(frozen=True, kw_only=True)
class _Admitted:
    """An order that its store accepts, and the snapshot that the run follows."""

    order: BackupOrder
    bucket: LifecycleRules | None  # None: the run requests no lifecycle rules
    objects: Objects
    keys: Keyring
    catalog: Catalog
    parent: Parent


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """The state of the cluster, and the offsets that the run reads."""

    admitted: _Admitted
    surveyed: Surveyed
    started: int  # milliseconds since 1970
    todo: BackupPlan


@dataclass(frozen=True)
class _Expiring:
    """The segments that expire, and the rules of the bucket after they were written."""

    rules: Expiry | None = None
    put: RulesPut | None = None


@dataclass(frozen=True)
class _Recorded:
    """The segments of this run, which no manifest lists yet."""

    run: str  # its folder
    results: tuple[ReadingResult, ...]

    @property
    def left_out(self) -> LeftOut:
        return tuple(skipped for result in self.results for skipped in result.left_out)


def back_up(order: BackupOrder, workers: Workers) -> BackupOutcome:
    """Back up once. Failed if nothing was committed; Refused if the store belongs to another cluster.

    Refused, too, if this snapshot would lack a signature, encryption or expiry that earlier ones have.
    """
    began = time.monotonic()
    admitted = _admit(order)
    planned = _plan(admitted)
    expiring = _put_rules(planned)
    recorded = _read(planned, workers)
    added = settle(planned.todo, recorded.results)
    increment = _commit(planned, expiring, recorded, added)
    unmarked = commit.position(order.end, admitted.catalog.id, increment, admitted.parent.manifest)
    return BackupOutcome(
        manifest=increment,
        stored_bytes=sum(segment.stored_bytes + segment.index_bytes for segment in increment.segments),
        left_out=(
            *planned.surveyed.left_out,
            *planned.todo.left_out,
            *recorded.left_out,
            *(expiring.put.clashes if expiring.put else ()),
            *unmarked,
        ),
        seconds=time.monotonic() - began,
        rules=expiring.rules,
        put=expiring.put,
        unchanged=planned.todo.unchanged,
        notes=planned.surveyed.notes,
    )


def _admit(order: BackupOrder) -> _Admitted:
    """Open the store. Refused if its readers could not use a snapshot of this order like earlier ones."""
    bucket = LifecycleRules(order.store) if order.lifecycle else None  # before anything is written
    objects = open_store(order.store)
    keys = Keyring(objects, order.private_keys)
    catalog = Catalog.open_or_make(objects, order.trust.also(order.signing_key), keys)
    parent = catalog.parent(past_damage=order.past_damage)
    if order.past_damage:
        before = parent.manifest
        _say(
            f"Continuing after snapshot {before.number}."
            if before
            else "No snapshot is usable, so all records are read again."
        )
    if parent.stored:
        _refuse_weaker(order, parent.stored)
    return _Admitted(order=order, bucket=bucket, objects=objects, keys=keys, catalog=catalog, parent=parent)


def _refuse_weaker(order: BackupOrder, former: Stored) -> None:
    """Refuse an order that lacks what earlier snapshots have: signature, encryption or expiry."""
    if former.signed and not order.signing_key:
        raise Refused(
            "backup-option-missing",
            f"Snapshot {former.manifest.number} of {order.store} is signed, but this run has no signing key. "
            "Pass --signing-key. Otherwise readers that trust only signed snapshots would refuse later ones.",
        )
    if former.encrypted and not order.recipients:
        raise Refused(
            "backup-option-missing",
            f"Snapshot {former.manifest.number} of {order.store} is encrypted, but this run has no "
            "--recipient. Pass the public keys of its readers, as before.",
        )
    if former.manifest.lifecycle and not order.lifecycle:
        raise Refused(
            "backup-option-missing",
            f"Segments of {order.store} expire by lifecycle rules since snapshot "
            f"{former.manifest.number} or earlier, but this run has no --lifecycle-days. Pass "
            "--lifecycle-days as before; 0 removes the rules.",
        )


def _plan(admitted: _Admitted) -> _Planned:
    """Inspect the cluster and plan the offsets to read. Refused if it is another cluster than before."""
    order, parent = admitted.order, admitted.parent.manifest
    surveyed = survey.look(order, parent)
    if parent and parent.cluster != surveyed.cluster and not order.other_cluster:
        raise Refused(
            "backup-cluster-changed",
            f"{order.store} has backups of the cluster {parent.cluster}, but this cluster is "
            f"{surveyed.cluster}. If the cluster was re-created, restore it first. To continue this store "
            "with backups of this cluster, run once with --other-cluster.",
        )
    started = timestamps.now()
    generations = Generations(int(order.generation_hours * 3_600_000), order.generations)
    todo = plan(parent, surveyed.sources, now=started, generations=generations)
    return _Planned(admitted=admitted, surveyed=surveyed, started=started, todo=todo)


def _put_rules(planned: _Planned) -> _Expiring:
    """Write the requested lifecycle rules into the bucket."""
    admitted, topics = planned.admitted, planned.todo.topics
    wish, parent = admitted.order.lifecycle, admitted.parent.manifest
    if not (admitted.bucket and wish):
        return _Expiring()
    if wish.days and topics and not any(map(wish.chooses, topics)):
        raise NoMatch(
            "pattern-matches-nothing",
            f"--lifecycle-topics-pattern matches none of {count(len(topics), 'topic')}, so all rules would "
            "be removed. Nothing was done. Correct the pattern, or pass --lifecycle-days 0 to remove them.",
        )
    rules = expiry.expiry(topics.values(), wish.days, wish.chooses, parent.lifecycle if parent else {})
    return _Expiring(rules, admitted.bucket.put(admitted.catalog.id, rules.days))


def _read(planned: _Planned, workers: Workers) -> _Recorded:
    """Read the planned offsets into segments, encrypted if requested. Failed if nothing can be read."""
    order, keys, readings = planned.admitted.order, planned.admitted.keys, planned.todo.readings
    key = keys.create(DataKind.RECORDS, order.recipients) if order.recipients and readings else None
    run = key.id if key else secrets.token_hex(4)
    note(f"Reading {count(sum(map(len, readings)), 'offset')} of {count(len(readings), 'partition')}.")
    with lending(key):
        recorded = _Recorded(run, tuple(reading.read_all(order, readings, run, workers)))
    if readings and all(result.nothing for result in recorded.results):
        raise Failed("backup-read-nothing", f"Nothing could be read: {recorded.left_out[-1].why}")
    return recorded


def _commit(planned: _Planned, expiring: _Expiring, recorded: _Recorded, added: Added) -> Manifest:
    """Commit the snapshot, encrypted for its readers and this host if requested."""
    admitted, rules = planned.admitted, expiring.rules
    order, parent = admitted.order, admitted.parent.manifest
    hosts = [receiver.public for receiver in order.private_keys[:1]]
    readers = [*order.recipients, *hosts] if order.recipients else []
    revise = None
    if rules and rules.changed and parent:
        revise = partial(expiry.revised, rules=rules, objects=admitted.objects, written=parent.created)
    return commit.snapshot(
        *(admitted.catalog, admitted.parent.follow(), order, planned.surveyed, added),
        run=recorded.run,
        started=planned.started,
        encrypting=admitted.keys.create(DataKind.MANIFEST, readers) if readers else None,
        rules=rules,
        revise=revise,
    )


def _say(progress: str) -> None:
    print(progress, file=sys.stderr)
