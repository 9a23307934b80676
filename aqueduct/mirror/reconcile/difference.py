"""Differences between two ends of a flow, once their digests have told that there are any.

A stream is an iterator of blocks of records in the order of one partition; it is read once and never held.
Streams are numbered as a flow's ends are: 0 is the target's, the others are the sources'.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aqueduct.common.offset_sets import Span
from aqueduct.mirror.reconcile.digest import Fingerprints

NAMED_SPANS = 20  # a report names so many, and counts the rest
STEP = 1 << 16  # records are struck out so many at a time, or more where more wait for their equal

OffsetColumn = NDArray[np.int64]
Stream = Iterator[tuple[Fingerprints, OffsetColumn]]
FingerprintRows = NDArray[np.void]

RECORD = np.dtype([("fingerprint", np.uint64), ("offset", np.int64), ("stream", np.int64)])


@dataclass(frozen=True)
class Unmatched:
    """Records of one stream that have no equal at the other end."""

    records: int = 0
    spans: tuple[Span, ...] = ()  # the first NAMED_SPANS of their offsets

    @classmethod
    def of(cls, offsets: OffsetColumn) -> "Unmatched":
        breaks = np.flatnonzero(np.diff(offsets) > 1) + 1
        runs = np.split(offsets, breaks[:NAMED_SPANS])[:NAMED_SPANS]
        return cls(len(offsets), tuple((int(run[0]), int(run[-1])) for run in runs if len(run)))


def unmatched(streams: Sequence[Stream]) -> list[Unmatched]:
    """Strike out equal records of target and sources in pairs; return what is left of each stream.

    The ends are read in step, so only records that wait for their equal are held (24 bytes each): about as
    many as are missing, extra or out of place.
    """
    waiting: list[list[FingerprintRows]] = [[], []]  # the target's and the sources'
    held = fresh = 0
    for stream, records in _in_step(streams):
        waiting[stream > 0].append(records)
        fresh += len(records)
        if fresh >= max(STEP, held):
            waiting = _strike_out(*waiting)
            held, fresh = sum(len(records) for (records,) in waiting), 0
    (extra,), (missing,) = _strike_out(*waiting)
    left = [missing["offset"][missing["stream"] == stream] for stream in range(1, len(streams))]
    return [Unmatched.of(offsets) for offsets in (extra["offset"], *left)]


def _in_step(streams: Sequence[Stream]) -> Iterator[tuple[int, FingerprintRows]]:
    """Yield blocks of all streams.

    The next one is always of the end (target or sources) that has given less.
    """
    given = [0] * len(streams)
    open_streams = set(range(len(streams)))
    while open_streams:
        stream = min(open_streams, key=lambda i: (sum(given[1:]) if i else given[0], given[i]))
        block = next(streams[stream], None)
        if block is None:
            open_streams.remove(stream)
            continue
        fingerprints, offsets = block
        given[stream] += len(offsets)
        records = np.empty(len(offsets), RECORD)
        records["fingerprint"], records["offset"], records["stream"] = fingerprints, offsets, stream
        yield stream, records


def _strike_out(*ends: list[FingerprintRows]) -> list[list[FingerprintRows]]:
    ours, theirs = (np.concatenate([np.empty(0, RECORD), *blocks]) for blocks in ends)
    return [[_without_equal(ours, theirs)], [_without_equal(theirs, ours)]]


def _without_equal(ours: FingerprintRows, theirs: FingerprintRows) -> FingerprintRows:
    """Keep our last n - m of n equal records of ours and m of theirs."""
    order = np.argsort(ours["fingerprint"], kind="stable")
    mine, other = ours["fingerprint"][order], np.sort(theirs["fingerprint"])
    nth = np.arange(len(mine)) - np.searchsorted(mine, mine)
    equals = np.searchsorted(other, mine, "right") - np.searchsorted(other, mine)
    return ours[np.sort(order[nth >= equals])]


def out_of_order(streams: Sequence[Stream]) -> tuple[int, int] | None:
    """Return the first record, as (stream, offset), that is out of order.

    It is in the target before one that it follows in its source. None if each source's records are in the
    target in their order, whatever stands between them; both ends must have the same records. Record by
    record, because any of equal ones may be the source's next.
    """
    target, *sources = map(_each, streams)
    awaited = [next(source, None) for source in sources]
    for fingerprint, _ in target:
        for number, record in enumerate(awaited):
            if record and record[0] == fingerprint:
                awaited[number] = next(sources[number], None)
    return next(((number, record[1]) for number, record in enumerate(awaited, 1) if record), None)


def _each(stream: Stream) -> Iterator[tuple[int, int]]:
    for fingerprints, offsets in stream:
        yield from zip(fingerprints.tolist(), offsets.tolist(), strict=True)
