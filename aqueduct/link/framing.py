"""The batches of a partition that cross together, as one frame."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aqueduct.kafka.batches.batch import Batch, Unopened
from aqueduct.kafka.batches.cutting import split

FRAME_BYTES = 512 << 10  # of batches: what is lost with one datagram too many is about a block's


@dataclass(frozen=True)
class FrameSpan:
    """All that a partition has from `start` to `stop`, exclusive."""

    start: int
    stop: int
    batches: tuple[Batch, ...]

    @property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    @property
    def count(self) -> int:
        """Return the number of records."""
        return sum(batch.count for batch in self.batches)


@dataclass(frozen=True)
class TooLarge:
    """Offsets, `stop` exclusive, of one record, or of a batch that can't be parted, which is too large."""

    start: int
    stop: int
    size: int  # bytes


def frame_spans(
    batches: Iterable[Batch], start: int, stop: int, largest: int
) -> Iterator[FrameSpan | TooLarge]:
    """Yield all from `start` to `stop`, exclusive, in order.

    A span has at most FRAME_BYTES, or one batch of at most `largest` bytes; one of more is split. Only a
    record that is over it by itself, with a batch's header, is too large, or a batch that inflates too much.
    """
    some: list[Batch] = []
    size = 0
    for batch in (part for whole in batches for part in _split(whole, largest)):
        too_large = len(batch) > largest
        if batch.base_offset > start and (too_large or (some and size + len(batch) > FRAME_BYTES)):
            yield FrameSpan(start, batch.base_offset, tuple(some))
            some, size, start = [], 0, batch.base_offset
        if too_large:
            start = batch.last_offset + 1
            yield TooLarge(batch.base_offset, start, len(batch))
        else:
            some.append(batch)
            size += len(batch)
    if stop > start:
        yield FrameSpan(start, stop, tuple(some))


def _split(batch: Batch, largest: int) -> Iterator[Batch]:
    try:
        yield from split(batch, largest)
    except Unopened:  # before the first part
        yield batch
