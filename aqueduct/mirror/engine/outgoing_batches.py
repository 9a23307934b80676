"""Batches of the source as batches to produce: only their headers change, wherever that is possible."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.batches.produce import Ready, RecordTooLarge, ready, renumbered

# A run of many small batches is merged: a record by itself costs more as a batch than as a record of one.
SMALL_BYTES = 4 << 10
LEAST_MERGED = 16


@dataclass(frozen=True)
class Outgoing:
    """The batches to produce for batches of the source."""

    pieces: tuple[Ready, ...]
    error: RecordTooLarge | Damaged | None = None  # the reason why the next batch is not among them


def outgoing(batches: Sequence[Batch], max_bytes: int) -> Outgoing:
    """Return `pieces`, up to the first source batch that cannot be mirrored. No batch is there in part."""
    made: list[Ready] = []
    try:
        for piece in pieces(batches, max_bytes):
            made.append(piece)
    except (RecordTooLarge, Damaged) as error:
        ends = {batch.last_offset + 1 for batch in batches}
        while made and made[-1].next_offset not in ends:
            made.pop()
        return Outgoing(tuple(made), error)
    return Outgoing(tuple(made))


def pieces(batches: Sequence[Batch], max_bytes: int) -> Iterator[Ready]:
    """Yield the records of a partition's batches in order, as batches that are at most `max_bytes` long.

    A batch keeps its records as they are, compressed, unless it is small among small ones, has lost records
    to compaction, has the broker's times, or is too large. RecordTooLarge at a record that does not fit.
    """
    for is_small, run in groupby(batches, _is_small):
        neighbours = list(run)
        if is_small and len(neighbours) >= LEAST_MERGED:
            yield from ready(neighbours, max_bytes=max_bytes)
        else:
            yield from _one_by_one(neighbours, max_bytes)


def _one_by_one(batches: Iterable[Batch], max_bytes: int) -> Iterator[Ready]:
    for batch in batches:
        if unopened := renumbered(batch, max_bytes):
            yield unopened
        else:
            yield from ready([batch], max_bytes=max_bytes)


def _is_small(batch: Batch) -> bool:
    return len(batch) < SMALL_BYTES
