"""Reads what is new in topics into segments of a store, and commits it as a snapshot.

The driver decides what is read; each task reads its share and writes segments; the driver commits. Until then
nothing that a task wrote exists: a run that ends in the middle leaves objects that no manifest names.
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
from aqueduct.snapshots.backup.plan import Generations, plan, settle
from aqueduct.store import expiry
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKind
from aqueduct.store.expiry import Expiry, RulesPut
from aqueduct.store.keyring import Keyring, lending
from aqueduct.store.lifecycle import LifecycleRules
from aqueduct.store.manifest import Manifest
from aqueduct.work.workers import Workers


@dataclass(frozen=True)
class BackupOutcome:
    """A run that committed."""

    manifest: Manifest  # with everything that this run added
    stored_bytes: int
    left_out: LeftOut
    seconds: float
    rules: Expiry | None = None  # None: no segment expires
    put: RulesPut | None = None
    unchanged: tuple[str, ...] = ()  # compacted topics that need no new generation, though it would be due
    notes: tuple[str, ...] = ()  # sentences on options that have no effect


def back_up(order: BackupOrder, workers: Workers) -> BackupOutcome:
    """Back up once; Failed if nothing was committed, Refused if the store is another cluster's.

    Refused, too, where the snapshots are signed and this one would not be.
    """
    began = time.monotonic()
    bucket = LifecycleRules(order.store) if order.lifecycle else None  # before anything is written
    objects = open_store(order.store)
    keys = Keyring(objects, order.private_keys)
    catalog = Catalog.open_or_make(objects, order.trust.also(order.signing_key), keys)
    parent = catalog.parent(past_damage=order.past_damage)
    if order.past_damage:
        before = parent.manifest
        _say(f"Going on after {f'snapshot {before.number}' if before else 'none: no snapshot is whole'}.")
    if parent.stored and parent.stored.signed and not order.signing_key:
        raise Refused(
            "backup-option-missing",
            f"Snapshot {parent.stored.manifest.number} of {order.store} is signed, and this run has no key. "
            "Pass --signing-key: readers that trust only signed snapshots would refuse all later ones.",
        )
    if parent.stored and parent.stored.encrypted and not order.recipients:
        raise Refused(
            "backup-option-missing",
            f"Snapshot {parent.stored.manifest.number} of {order.store} is encrypted, and this run has no "
            "--recipient. Pass the public keys of its readers, as before.",
        )
    if parent.manifest and parent.manifest.lifecycle and not order.lifecycle:
        raise Refused(
            "backup-option-missing",
            f"Segments of {order.store} expire by lifecycle rules, since snapshot "
            f"{parent.manifest.number} or before, and this run has no --lifecycle-days. Pass it as before; 0 "
            "removes the rules.",
        )
    state = survey.look(order, parent.manifest)
    if parent.manifest and parent.manifest.cluster != state.cluster and not order.other_cluster:
        raise Refused(
            "backup-cluster-changed",
            f"{order.store} has backups of the cluster {parent.manifest.cluster}, and this one is "
            f"{state.cluster}. If the cluster was re-created, restore it first. If its backups are to follow "
            "those in this store, run once with --other-cluster.",
        )
    started = timestamps.now()
    generations = Generations(int(order.generation_hours * 3_600_000), order.generations)
    todo = plan(parent.manifest, state.sources, now=started, generations=generations)
    rules = put = None
    if bucket and order.lifecycle:
        former = parent.manifest.lifecycle if parent.manifest else {}
        wish = order.lifecycle
        if wish.days and todo.topics and not any(map(wish.chooses, todo.topics)):
            raise NoMatch(
                "pattern-matches-nothing",
                f"--lifecycle-topics-pattern matches none of {count(len(todo.topics), 'topic')}, and would "
                "remove all rules: nothing was done. Let it match some, or give --lifecycle-days 0.",
            )
        rules = expiry.expiry(todo.topics.values(), wish.days, wish.chooses, former)
        put = bucket.put(catalog.id, rules.days)
    readings = todo.readings
    key = keys.create(DataKind.RECORDS, order.recipients) if order.recipients and readings else None
    run = key.id if key else secrets.token_hex(4)
    _say(f"Reading {count(sum(map(len, readings)), 'offset')} of {count(len(readings), 'partition')}.")
    with lending(key):
        results = reading.read_all(order, readings, run, workers)
    left_out = (
        state.left_out + todo.left_out + tuple(skipped for result in results for skipped in result.left_out)
    )
    if readings and all(result.nothing for result in results):
        raise Failed("backup-read-nothing", f"Nothing could be read: {left_out[-1].why}")
    added = settle(todo, results)
    hosts = [receiver.public for receiver in order.private_keys[:1]]
    encrypting = keys.create(DataKind.MANIFEST, [*order.recipients, *hosts]) if order.recipients else None
    revise = None
    if rules and rules.changed and parent.manifest:
        written = parent.manifest.created
        revise = partial(expiry.revised, rules=rules, objects=objects, written=written)
    increment = commit.snapshot(
        *(catalog, parent.follow(), order, state, added),
        run=run,
        started=started,
        encrypting=encrypting,
        rules=rules,
        revise=revise,
    )
    left_out += put.clashes if put else ()
    left_out += commit.position(order.end, catalog.id, increment, parent.manifest)
    stored = sum(segment.stored_bytes + segment.index_bytes for segment in increment.segments)
    seconds = time.monotonic() - began
    return BackupOutcome(increment, stored, left_out, seconds, rules, put, todo.unchanged, state.notes)


def _say(progress: str) -> None:
    print(progress, file=sys.stderr)
