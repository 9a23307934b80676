"""Reads a snapshot's records from its store, as `reader` reads a cluster's."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zstandard import ZstdError

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import unpack
from aqueduct.kafka.requests import in_lists
from aqueduct.mirror.reconcile import stored
from aqueduct.mirror.reconcile.digest import RecordColumns, RecordHeader
from aqueduct.mirror.reconcile.stored import StoredEnd
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Segment
from aqueduct.store.objects import Objects
from aqueduct.store.signing import EVERYBODY, Trust
from aqueduct.store.snapshots import Snapshot

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey

# Batches whose records are in memory at once: so many, or so many bytes of them, or one.
BATCHES = 200
READ_BYTES = 64 << 20


def open_snapshot(
    role: str,
    url: str,
    number: int | None = None,
    *,
    trust: Trust = EVERYBODY,
    private_keys: "Sequence[ReceiverKey]" = (),
) -> StoredEnd:
    """Return the snapshot of that number, or the newest; Refused without one, Failed if it is damaged."""
    objects = open_store(url)
    keys = Keyring(objects, private_keys)
    return opened(role, url, Catalog.open(objects, trust, keys).snapshot(number), keys)


def opened(role: str, url: str, snapshot: Snapshot, keys: Keyring) -> StoredEnd:
    """Return a snapshot as an end, whose keys tasks are lent; Locked if they can't be opened."""
    end = StoredEnd.of(role, url, snapshot)
    segments.lend(keys, (segment for _, some in end.partitions.values() for segment in some), url)
    return end


def read(
    end: StoredEnd, parts: Sequence[Range], header: RecordHeader | None = None
) -> Iterator[tuple[Range, RecordColumns]]:
    """Yield the records of ranges of different partitions, one range after the other, in order.

    Failed where an object is not what was written.
    """
    objects = open_store(end.url)
    for whole in parts:
        for segment in end.partitions[whole.topic_partition][1]:
            if segment.stop > whole.start and segment.start < whole.stop:
                for records in _of_segment(objects, segment, whole, header):
                    yield whole, records


def _of_segment(
    objects: Objects, segment: Segment, whole: Range, header: RecordHeader | None
) -> Iterator[RecordColumns]:
    batches = segments.batches(segment, segments.read(objects, segment))
    try:
        opened_batches = ((batch, unpack(batch)) for batch in batches)
        for some in in_lists(opened_batches, READ_BYTES, lambda pair: len(pair[1]), most=BATCHES):
            of, payloads = zip(*some, strict=True)
            yield stored.columns(of, payloads, whole, header)
    except ZstdError as error:
        raise Failed("object-damaged", f"{objects.url}/{segment.path} is damaged: {error}.") from None
