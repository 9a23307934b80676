"""Reads the objects of a snapshot and says which are not what its manifest says.

The driver cuts the segments into shares; each task reads those of one. Restore does the same before it
writes, but only hashes.
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

SHARE_BYTES = 64 << 20  # of a task, as they are stored: half a second of work
SHARE_SEGMENTS = 2_000
SMALL_BYTES = 1 << 20  # of objects up to this size
READERS = 8  # ... so many are read at once: to ask the store takes longer than to read them
BATCHES = 200  # whose bytes are in memory at once


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
    """Check every instance of every topic of the snapshot of that number, or the newest."""
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
        # The store may have removed some meanwhile, whose time had come.
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
    """Return the faults of these segments' objects, in their order; Failed if the store can't be read.

    Missing objects, sizes and SHA-256; and if `whole`, also every batch's CRC, and whether manifest and
    index agree with the batches.
    """
    with_objects = [segment for segment in every if segment.records]  # others have no object
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
        yield Fault(segment, segment.path, f"{objects.url}/{segment.path} was written wrongly: {reason}.")


def _fault(objects: Objects, segment: Segment, path: str, error: Failed) -> Fault:
    if objects.head(names.STORE) is None:  # Failed too, if it is the store that is wrong, not the object
        raise Failed("backup-missing", f"{objects.url} isn't a store any more: {names.STORE} is gone.")
    return Fault(segment, path, str(error), error.id)


def _described(segment: Segment, stored: memoryview, most: int) -> Index:
    """Build the index from the batches themselves, at most so many, and check their CRCs."""
    batches = islice(segments.batches(segment, stored), most)
    return Index.joined(Index.of(some) for some in iter(lambda: list(islice(batches, BATCHES)), []))


def _size(segment: Segment) -> int:
    return segment.stored_bytes + segment.index_bytes
