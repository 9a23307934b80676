"""Checks of names, numbers and sizes in a store, before they are used.

A writer can create any object. After these checks, an object cannot lead outside the store's folders, or need
unlimited memory or time. Only a signature proves that a backup wrote it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.store.manifest import NOT_READ, Chain, Manifest
from aqueduct.store.objects import Entry

MOST_SNAPSHOTS = 1_000_000_000  # one a second for thirty years; names have room for ten times as many
# Snapshots in a row that are not there, though those before and after are; and, pruned, one a second more.
MOST_MISSING = 1_000
MOST_MANIFEST_BYTES = 512 << 20  # stored: more than one that unpacks to as much as it may
MOST_OBJECT_BYTES = 1 << 32  # of a segment, packed or not, and of its index: segment.bytes ends at 2 GiB
MOST_PARTITIONS = 1 << 20
LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999
LONG = (1 << 63) - 1
SHORT = (1 << 15) - 1

_RUN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def odd_snapshots(
    listed: Mapping[int, Entry], created: Callable[[int], int | None] = lambda _: None
) -> dict[int, str]:
    """Return why no backup can have written these snapshots, by number. `listed`: all, ascending.

    `created` returns the time in a readable manifest, in milliseconds. It is called only if the times of the
    listing do not explain missing numbers, as in a copy of a store, where all objects are new.
    """
    odd, before = {}, 0
    for number, entry in listed.items():
        if number < 1 or number > MOST_SNAPSHOTS:
            odd[number] = "has a number that is too large or too small for a backup"
        elif before and number - before > _most_further(listed, created, before, number):
            odd[number] = f"follows snapshot {before}, but no backup skips so many numbers"
        elif entry.size > MOST_MANIFEST_BYTES:
            odd[number] = f"has {entry.size:,} bytes, which is too large for a manifest"
        else:
            before = number
    return odd


def _most_further(
    listed: Mapping[int, Entry], created: Callable[[int], int | None], before: int, number: int
) -> float:
    """Return how far one snapshot can be from the one before it, by the time between them."""
    if number - before <= MOST_MISSING:
        return MOST_MISSING
    seconds = listed[number].written - listed[before].written
    if number - before > MOST_MISSING + seconds:
        began, ended = created(before), created(number)
        if began is not None and ended is not None:
            # Who plants a snapshot says what he likes, but the store tells when he did it.
            seconds = min(ended / 1000, listed[number].written) - began / 1000
    return MOST_MISSING + seconds


def fault(manifest: Manifest) -> str:
    """Return the first invalid value in a manifest; empty if all are valid."""
    return next(_faults(manifest), "")


def _faults(manifest: Manifest) -> Iterator[str]:
    if reason := _of_chain(manifest.chain):
        yield f"its chain is invalid: {reason}"
    for field_name in ("created", "started", "ended"):
        if not 0 <= getattr(manifest, field_name) <= LAST_MILLISECOND:
            yield f"its time ({field_name}) is invalid"
    names = {topic.name for topic in manifest.topics}
    pieces = (manifest.segments, manifest.gaps)
    names.update(piece.topic for rows in pieces for piece in rows)
    names.update(topic for topic, _ in manifest.positions)
    for name in sorted(names):
        if not LEGAL_NAME.fullmatch(name):
            yield f"the topic name {name[:40]!r} is invalid"
    yield from _of_topics(manifest)
    yield from _of_positions(manifest)
    yield from _of_segments(manifest)
    yield from _of_gaps(manifest)
    if not _within(manifest.lifecycle.values(), 1, LONG):
        yield "the days of a lifecycle rule are invalid"
    if not _within(
        (stored_offset.offset for group in manifest.every_group for stored_offset in group.offsets), -1, LONG
    ):
        yield "the offset of a group is invalid"


def _of_topics(manifest: Manifest) -> Iterator[str]:
    for topic in manifest.topics:
        factor, numbers = topic.replication_factor, [instance.number for instance in topic.instances]
        if not 1 <= factor <= SHORT or not _within(numbers, 1, LONG):
            yield f"numbers of topic {topic.name} are invalid"


def _of_positions(manifest: Manifest) -> Iterator[str]:
    for of in (manifest.starts, manifest.positions, manifest.epochs, manifest.generation_ends):
        # All at once, for there may be a million of them; one by one to tell which.
        if max(map(len, of.values()), default=0) <= MOST_PARTITIONS and _within(
            chain.from_iterable(of.values()), NOT_READ, LONG
        ):
            continue
        for lineage, offsets in of.items():
            if len(offsets) > MOST_PARTITIONS or not _within(offsets, NOT_READ, LONG):
                yield f"offsets of {lineage[0]} are invalid"


def _of_gaps(manifest: Manifest) -> Iterator[str]:
    for gap in manifest.gaps:
        if not (
            gap.instance >= 1
            and 0 <= gap.partition < MOST_PARTITIONS
            and 0 <= gap.start < gap.stop <= LONG
            and 0 <= (gap.expired or 0) <= LAST_MILLISECOND
        ):
            yield f"a gap of {gap.topic} is invalid"


def _of_chain(position: Chain) -> str:
    if position.base_bytes < 0 or position.increments_bytes < 0:
        return "sizes of earlier manifests are negative"
    if not 0 <= position.base_created <= LAST_MILLISECOND:
        return "the time of its full manifest is invalid"
    if position.base == position.number and position.parent is None:
        return ""
    if position.parent is None or not 1 <= position.parent < position.number:
        return f"it follows snapshot {position.parent}"
    return (
        ""
        if position.base == position.number or 1 <= position.base <= position.parent
        else f"it builds on snapshot {position.base}"
    )


# Of a segment's columns, those that are whole numbers: at least and at most.
_LIMITS = {
    "instance": (1, LONG),
    "partition": (0, MOST_PARTITIONS),
    "start": (0, LONG),
    "stop": (1, LONG),
    "records": (0, LONG),
    "unpacked_bytes": (0, MOST_OBJECT_BYTES),
    "stored_bytes": (0, MOST_OBJECT_BYTES),
    "index_bytes": (0, MOST_OBJECT_BYTES),
}


def _of_segments(manifest: Manifest) -> Iterator[str]:
    if not manifest.segments:
        return
    fields = type(manifest.segments[0])._fields
    columns = dict(zip(fields, zip(*manifest.segments, strict=True), strict=True))
    for name, (least, most) in _LIMITS.items():
        if not _within(columns[name], least, most):
            yield f"{name} of a segment is invalid"
    if not _within((expires for expires in columns["expires"] if expires is not None), 0, LAST_MILLISECOND):
        yield "the expiry of a segment is invalid"
    for run in set(columns["run"]):
        if not _RUN.fullmatch(run):
            yield f"the run id {run[:40]!r} is invalid"


def _within(numbers: Iterable[int], least: int, most: int) -> bool:
    all_numbers = tuple(numbers)
    return not all_numbers or (least <= min(all_numbers) and max(all_numbers) <= most)
