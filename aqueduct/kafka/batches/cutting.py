"""Parts of a batch: the records inside a range of offsets and a window of time, or as many as fit a size."""

from collections.abc import Iterator
from dataclasses import dataclass

from aqueduct.kafka.batches.batch import HEADER, Batch, walk
from aqueduct.kafka.batches.records import Records, build

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Window:
    """Offsets `start` to `stop`, exclusive; times `first_time` to `last_time`, inclusive.

    Times are milliseconds since 1970; a record without one has the time -1.
    """

    start: int = 0
    stop: int = _MOST
    first_time: int = _LEAST
    last_time: int = _MOST

    @property
    def timed(self) -> bool:
        """Tell whether times are a reason to leave records out."""
        return self.first_time != _LEAST or self.last_time != _MOST


def cut(batch: Batch, window: Window) -> Batch | None:
    """Return the batch itself if all of it is inside, None if nothing is, else a new one of the inside.

    A new one keeps offsets, times, codec and attributes. Its offsets start and end with its records: it never
    reaches beyond the window, even where the batch did so with nothing but offsets of removed records.
    """
    # The header tells the least time only where all are the same.
    least = batch.max_time if batch.log_append_time or batch.count == 1 else _LEAST
    if (
        not batch.count
        or batch.last_offset < window.start
        or batch.base_offset >= window.stop
        or batch.max_time < window.first_time
        or least > window.last_time
    ):
        return None
    within = window.start <= batch.base_offset and batch.last_offset < window.stop
    if within and window.first_time <= least and batch.max_time <= window.last_time:
        return batch
    records = Records.of([batch])
    keep = (window.start <= records.offsets) & (records.offsets < window.stop)
    keep &= (window.first_time <= records.times) & (records.times <= window.last_time)
    if within and keep.all():
        return batch
    return _rebuilt(batch, records.where(keep)) if keep.any() else None


def split(batch: Batch, max_bytes: int) -> Iterator[Batch]:
    """Yield the batch itself if it isn't larger, else its records in halves, and halves of these.

    Offsets, times, codec and attributes are kept. A batch of one record may be larger all the same.
    """
    if len(batch) <= max_bytes or batch.count < 2:
        yield batch
    else:
        yield from _halves(batch, Records.of([batch]), max_bytes)


def _halves(batch: Batch, records: Records, max_bytes: int) -> Iterator[Batch]:
    middle = len(records) // 2
    for half in (records[:middle], records[middle:]):
        made = _rebuilt(batch, half)
        if len(made) <= max_bytes or len(half) == 1:
            yield made
        else:
            yield from _halves(batch, half, max_bytes)


def _rebuilt(batch: Batch, records: Records) -> Batch:
    """Rebuild a batch as the log cleaner would, but for offsets at the edges (MemoryRecords.filterTo)."""
    encoded = build(
        records,
        codec=batch.codec,
        attributes=batch.attributes,
        base_time=batch.base_time,  # it may be a delete horizon
        producer=HEADER.unpack_from(batch.data)[9:12],
    )
    return next(walk(encoded, check_crc=False))
