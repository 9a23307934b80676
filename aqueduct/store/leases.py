"""Leases: a restore or export writes a lease of its snapshot to the store, and prune keeps the snapshot.

    leases/<snapshot>-<restore id>-<token>.json      one for each renewal; nothing is overwritten

A lease is valid for three hours after its object was written. It is renewed every hour, so two renewals may
fail.
"""

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from aqueduct.common import strict_json
from aqueduct.errors import AqueductError, Failed, labelled
from aqueduct.store import names
from aqueduct.store.objects import Objects

HOLDS_SECONDS = 3 * 3600
REPEATED_SECONDS = 3600
# The store tells its time by what it wrote last. Where it writes no more, ours counts, but for so much.
CLOCKS_DIFFER_SECONDS = 86_400


@dataclass(frozen=True)
class Leases:
    """The leases of a store."""

    held: Mapping[int, frozenset[str]]  # ids of the restores that hold a snapshot, by its number
    over: tuple[str, ...]  # paths of those that hold nothing any more


@dataclass(frozen=True)
class _Lease:
    format: int
    snapshot: int
    restore: str


def read(objects: Objects, newest: float, ours: float) -> Leases:
    """List the leases.

    `newest`: when the newest snapshot was written, by the store's clock; `ours`: now, by our clock.
    """
    listed = [(names.lease_of(entry.path), entry) for entry in objects.list(names.LEASES)]
    written = [entry.written for lease, entry in listed if lease]
    since = max(newest, ours - CLOCKS_DIFFER_SECONDS, *written) - HOLDS_SECONDS
    held: dict[int, set[str]] = {}
    for lease, entry in listed:
        if lease and entry.written >= since:
            held.setdefault(lease.snapshot, set()).add(lease.restore)
    return Leases(
        {number: frozenset(restores) for number, restores in held.items()},
        tuple(entry.path for lease, entry in listed if lease and entry.written < since),
    )


@contextmanager
def leased(objects: Objects, snapshot: int, restore: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lease of a snapshot. Failed if the snapshot was removed.

    Without the right to create objects, the command continues without a lease, and reports this with `say`.
    """
    _lease(objects, snapshot, restore, say)
    # Only now: prune looks for leases after it has removed manifests, too, so one of us sees the other.
    if objects.head(names.snapshot(snapshot)) is None:
        raise Failed(
            "snapshot-removed",
            f"Snapshot {snapshot} of {objects.url} was removed during this run: it was pruned or lost. "
            "Nothing was written. Use another snapshot. `aqueduct snapshots` lists them.",
        )
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(REPEATED_SECONDS):
            _lease(objects, snapshot, restore, say)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _lease(objects: Objects, snapshot: int, restore: str, say: Callable[[str], None]) -> None:
    try:
        path = names.lease(snapshot, restore, secrets.token_hex(4))
        objects.create(path, strict_json.dumps(_Lease(1, snapshot, restore)))
    except AqueductError as error:
        sentence = f"The snapshot is not protected from pruning while this command runs: {error}"
        say(f"Warning: {labelled('snapshot-not-leased', sentence)}")
