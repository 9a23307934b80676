"""Batches as they were read, made ready for a Produce request.

The broker wants one batch per partition and request, offsets from 0 without holes, the records' own
times, and a producer's id, epoch and sequence (Kafka's LogValidator, ProduceRequest.validateRecords).
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import CODEC, CRC_FROM, TRANSACTIONAL, Batch, Unopened, seal, unpack
from aqueduct.kafka.batches.records import Records, build

SMALL_BYTES = 64 << 10  # a batch of less costs more to send by itself than to merge with its neighbours
MERGED_BYTES = 1 << 20
UNPACKED_BYTES = 8 << 20  # of what is merged: bounds memory where data compress a thousandfold

_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43


class RecordTooLarge(Failed):
    """A record that is larger by itself than a topic allows a batch to be."""

    id = "record-too-large"


@dataclass(frozen=True)
class Ready:
    """One batch of offsets 0 to count - 1. Its producer is still to come: see `stamp`."""

    data: bytearray
    count: int  # of records
    next_offset: int  # where it was read, after the last record of it


def _refuse(_: Batch, error: Unopened) -> None:
    raise error


def ready(
    batches: Iterable[Batch],
    *,
    max_bytes: int,
    leave_out: Callable[[Batch, Unopened], None] = _refuse,
) -> Iterator[Ready]:
    """Yield the records of data batches in order, as batches to produce.

    Runs of small batches are merged, batches over `max_bytes` split. Codecs and times are kept; times of
    LogAppendTime become the records' own. `max_bytes` is the target's max.message.bytes. RecordTooLarge at a
    record that is over it. `leave_out` is told of a batch that must be opened, and takes too much for that.
    """
    for run, payloads in _runs(batches, min(MERGED_BYTES, max_bytes)):
        first, stop = run[0], run[-1].last_offset + 1
        if len(run) == 1 and (unopened := renumbered(first, max_bytes)):
            yield unopened
        else:
            try:
                records = Records.of(run, payloads)
            except Unopened as error:  # alone in its run
                leave_out(first, error)
            else:
                yield from _rebuilt(records, first.codec, stop, max_bytes)


def renumbered(batch: Batch, max_bytes: int) -> Ready | None:
    """Return a batch with its records as they stand in it; None if it must be rebuilt: see `ready`."""
    if not batch.dense or batch.log_append_time or len(batch) > max_bytes:
        return None
    encoded = bytearray(batch.data)
    _OFFSET.pack_into(encoded, 0, 0)
    _LEADER_EPOCH.pack_into(encoded, _LEADER_EPOCH_AT, -1)
    return Ready(encoded, batch.count, batch.last_offset + 1)


def stamp(encoded: bytearray, *, producer_id: int, epoch: int, sequence: int, transactional: bool) -> None:
    """Make a ready batch the producer's, in place; `sequence` is the number of its first record."""
    (attributes,) = _ATTRIBUTES.unpack_from(encoded, CRC_FROM)
    _ATTRIBUTES.pack_into(encoded, CRC_FROM, attributes & CODEC | (TRANSACTIONAL if transactional else 0))
    _PRODUCER.pack_into(encoded, _PRODUCER_AT, producer_id, epoch, sequence)
    seal(encoded)


def _runs(batches: Iterable[Batch], at_most: int) -> Iterator[tuple[list[Batch], list[bytes] | None]]:
    """Yield neighbours that become one batch, with their content unpacked; or one batch that isn't small."""
    run: list[Batch] = []
    payloads: list[bytes] = []
    stored = unpacked = 0
    for batch in filter(attrgetter("count"), batches):
        size = len(batch.data)
        small = size < SMALL_BYTES
        payload = b""
        if small:
            try:
                payload = unpack(batch, UNPACKED_BYTES)
            except Unopened:  # what packs so well is best moved as it is
                small = False
        if run and not (
            small
            and stored + size <= at_most
            and unpacked + len(payload) <= UNPACKED_BYTES
            and not (batch.attributes ^ run[0].attributes) & CODEC
        ):
            yield run, payloads
            run, payloads, stored, unpacked = [], [], 0, 0
        if small:
            run.append(batch)
            payloads.append(payload)
            stored += size
            unpacked += len(payload)
        else:
            yield [batch], None
    if run:
        yield run, payloads


def _rebuilt(records: Records, codec: str, stop: int, max_bytes: int) -> Iterator[Ready]:
    """Rebuild a batch, in halves, and halves of these, where it is too large."""
    count = len(records)
    batch = build(Records(records.times, np.arange(count), records.bodies), codec=codec)
    if len(batch) <= max_bytes:
        yield Ready(batch, count, stop)
    elif count > 1:
        middle = count // 2
        yield from _rebuilt(records[:middle], codec, int(records.offsets[middle - 1]) + 1, max_bytes)
        yield from _rebuilt(records[middle:], codec, stop, max_bytes)
    else:
        raise RecordTooLarge(
            f"The record at offset {stop - 1} needs a batch of {len(batch)} bytes, but the topic allows "
            f"only {max_bytes} bytes. Increase max.message.bytes of the topic.",
        )
