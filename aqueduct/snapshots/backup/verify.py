"""Reads the objects of a snapshot, and compares them with its manifest.

The driver divides the segments into shares, one for each task. A restore does the same before it writes, but
compares only digests.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from zstandard import ZstdError

from aqueduct.common.wording import count
from aqueduct.errors import Failed
from aqueduct.kafka.batches.offsets import Index
from aqueduct.kafka.requests import in_lists
from aqueduct.snapshots.backup.faults import Fault, contradiction
from aqueduct.store import names, segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog, check_not_removed
from aqueduct.store.keyring import Keyring, Locked
from aqueduct.store.manifest import Segment
from aqueduct.store.objects import Objects
from aqueduct.store.signing import EVERYBODY, Trust
from aqueduct.store.snapshots import Snapshot
from aqueduct.work.crossover import Verb, Work
from aqueduct.work.pace import Pace
from aqueduct.work.progress import MEGABYTE, Size, note
from aqueduct.work.workers import Workers

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey

SHARE_BYTES = 64 << 20  # of a task, as stored: half a second of work
SHARE_SEGMENTS = 2_000
SMALL_BYTES = 1 << 20  # of objects up to this size
READERS = 8  # ... this many are read at the same time, because requests take longer than the transfer
BATCHES = 200  # in memory at the same time


@dataclass(frozen=True, kw_only=True)
class Verification:
    snapshot: Snapshot
    faults: tuple[Fault, ...]
    seconds: float
    unopened: str = ""  # why records were not opened


def verify(
    store: str,
    number: int | None,
    workers: Workers,
    *,
    trust: Trust = EVERYBODY,
    private_keys: "Sequence[ReceiverKey]" = (),
    at_least: int | None = None,
    bytes_per_second: int | None = None,
) -> Verification:
    """Check every instance of every topic in the snapshot with this number, or in the newest one."""
    began = time.monotonic()
    objects = open_store(store)
    keys = Keyring(objects, private_keys)
    catalog = Catalog.open(objects, trust, keys)
    snapshot = catalog.snapshot(number, at_least)
    every = [segment for of_partition in snapshot.segments.values() for segment in of_partition]
    unopened = ""
    try:
        segments.lend(keys, every, store)
    except Locked as error:
        unopened = str(error)
    faults = verify_segments(store, every, workers, whole=True, bytes_per_second=bytes_per_second)
    if faults:
        check_not_removed(objects, snapshot.manifest.number)
        # Lifecycle rules may have deleted some objects since the check began.
        snapshot = catalog.retained(snapshot)
        retained = {segment for of_partition in snapshot.segments.values() for segment in of_partition}
        faults = [fault for fault in faults if fault.segment in retained]
    return Verification(
        snapshot=snapshot, faults=tuple(faults), seconds=time.monotonic() - began, unopened=unopened
    )


def verify_segments(
    store: str,
    every: Iterable[Segment],
    workers: Workers,
    *,
    whole: bool,
    bytes_per_second: int | None = None,
) -> list[Fault]:
    """Return the faults of these segments' objects, in their order; Failed if the store cannot be read.

    The check covers missing objects, sizes and SHA-256. With `whole`, it also covers the CRC of each batch,
    and compares the batches with manifest and index.
    """
    with_objects = [segment for segment in every if segment.records]  # the others have no objects
    stored = sum(_size(segment) for segment in with_objects)
    note(f"Reading {count(len(with_objects), 'segment')}, {stored / 1e6:,.1f} MB.")
    parts = [*in_lists(with_objects, SHARE_BYTES, _size, most=SHARE_SEGMENTS)]
    size = sum(segment.unpacked_bytes for segment in with_objects) if whole else stored
    work = Work(Verb.VERIFY, size, len(parts))
    rate = workers.per_task(bytes_per_second, work)
    tasks = [
        VerifyShare(store=store, segments=tuple(some), whole=whole, bytes_per_second=rate) for some in parts
    ]
    return [fault for faults in workers.parallel(work)(check, tasks, STORED) for fault in faults]


@dataclass(frozen=True, kw_only=True)
class VerifyShare:
    """The segments that one task checks."""

    store: str  # URL
    segments: tuple[Segment, ...]
    whole: bool
    bytes_per_second: float | None = None


STORED: Size[VerifyShare] = Size("MB", lambda share: sum(map(_size, share.segments)), MEGABYTE)


def check(share: VerifyShare) -> list[Fault]:
    objects, pace = open_store(share.store), Pace(share.bytes_per_second)

    def faults(segment: Segment) -> list[Fault]:
        pace.spent(_size(segment))
        return list(_faults(objects, segment, whole=share.whole))

    small = [segment for segment in share.segments if _size(segment) <= SMALL_BYTES]
    with ThreadPoolExecutor(1 if share.bytes_per_second else READERS) as pool:
        faults_by_segment = dict(zip(small, pool.map(faults, small), strict=True))
    return [
        fault
        for segment in share.segments
        for fault in (faults_by_segment[segment] if segment in faults_by_segment else faults(segment))
    ]


def _faults(objects: Objects, segment: Segment, *, whole: bool) -> Iterator[Fault]:
    index = stored = None
    opened = segments.readable(segment)
    try:
        if opened:
            index = segments.read_index(objects, segment)
        else:
            segments.check_index(objects, segment)
    except Failed as error:
        yield _fault(objects, segment, segment.index_path, error)
    try:
        stored = segments.read(objects, segment) if opened else segments.check(objects, segment)
    except Failed as error:
        yield _fault(objects, segment, segment.path, error)
    if not whole or index is None or stored is None:
        return
    problem: object
    try:
        problem = contradiction(segment, index, _described(segment, stored, len(index) + 1))
    except (Failed, ZstdError) as error:
        problem = error
    if problem:
        reason = str(problem).rstrip(".")
        yield Fault(segment, segment.path, f"{objects.url}/{segment.path} is not a valid segment: {reason}.")


def _fault(objects: Objects, segment: Segment, path: str, error: Failed) -> Fault:
    if objects.head(names.STORE) is None:  # or Failed: then the whole store has a fault, not the object
        raise Failed(
            "backup-missing",
            f"{objects.url} is no longer a store: {names.STORE} was deleted. Restore it from a copy.",
        )
    return Fault(segment, path, str(error), error.id)


def _described(segment: Segment, stored: memoryview, most: int) -> Index:
    """Build the index from the batches themselves, at most `most` of them, and check their CRCs."""
    batches = islice(segments.batches(segment, stored), most)
    return Index.joined(Index.of(some) for some in iter(lambda: list(islice(batches, BATCHES)), []))


def _size(segment: Segment) -> int:
    return segment.stored_bytes + segment.index_bytes
