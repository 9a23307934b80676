"""Batches of the source as batches to produce: only their headers change, wherever that is possible."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.produce import Ready, ready, renumbered

# A run of many small batches is merged: a record by itself costs more as a batch than as a record of one.
SMALL_BYTES = 4 << 10
LEAST_MERGED = 16


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
