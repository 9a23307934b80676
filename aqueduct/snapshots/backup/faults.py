"""Faults of the objects of a snapshot, and the report of a verify."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened
from aqueduct.errors import ExitCode
from aqueduct.kafka.batches.offsets import Index
from aqueduct.store.manifest import Segment
from aqueduct.store.snapshots import Snapshot


class Fault(NamedTuple):
    """A segment that a restore cannot use, because one of its objects differs from the manifest."""

    segment: Segment
    path: str  # of the object
    why: str  # a sentence with the URL of the object
    id: str = "object-damaged"


def contradiction(segment: Segment, index: Index, batches: Index) -> str | None:
    """Return a difference between the manifest, the index and the batches; None if there is none."""
    if len(index) != len(batches):
        return f"batches: {len(batches)} in the segment, {len(index)} in its index"
    for field in fields(Index):
        indexed, actual = getattr(index, field.name), getattr(batches, field.name)
        if different := np.flatnonzero(indexed != actual).tolist():
            number = different[0]
            values = f"{actual[number]} in the segment, {indexed[number]} in its index"
            return f"{field.name} of batch {number}: {values}"
    for name, is_so in _facts(batches).items():
        if (stated := getattr(segment, name)) != is_so:
            return f"{name}: {is_so} in the segment, {stated} in the manifest"
    if np.any(batches.base_offset[1:] <= batches.last_offset[:-1]):
        return "its offsets do not ascend from batch to batch"
    if batches.base_offset[0] < segment.start or batches.last_offset[-1] >= segment.stop:
        return f"it has offsets outside its range, {segment.start} to {segment.stop - 1}"
    return None


def _facts(batches: Index) -> dict[str, int | None]:
    """Return the values that the manifest repeats: offsets, records, uncompressed bytes, newest timestamp."""
    return {
        "first_offset": int(batches.base_offset[0]) if len(batches) else None,
        "last_offset": int(batches.last_offset[-1]) if len(batches) else None,
        "records": batches.records,
        "unpacked_bytes": int(batches.size.sum()),
        "max_time": int(batches.max_time.max()) if len(batches) else None,
    }


def exit_code(snapshot: Snapshot, faults: Sequence[Fault]) -> ExitCode:
    """Return the exit code.

    Gaps are no damage, and the backup reported them. Only this report shows the offsets that have expired.
    """
    if faults:
        return ExitCode.FAILED
    old = any(gap.expired is not None for gaps in snapshot.gaps.values() for gap in gaps)
    return ExitCode.INCOMPLETE if old else ExitCode.DONE


def text(snapshot: Snapshot, faults: Sequence[Fault], seconds: float) -> str:
    """Return the report as text."""
    return "\n".join(_lines(snapshot, faults, seconds))


def _lines(snapshot: Snapshot, faults: Sequence[Fault], seconds: float) -> Iterator[str]:
    of_topic: defaultdict[str, list[Segment]] = defaultdict(list)
    for segments in snapshot.segments.values():
        for segment in segments:
            of_topic[segment.topic].append(segment)
    shown = {name: shortened(name) for name in snapshot.topics}
    width = max(map(len, ("topic", *shown.values())))
    yield f"{'topic':<{width}}  {'records':>13}  {'bytes':>17}  {'stored bytes':>17}"
    for name in sorted(snapshot.topics):
        yield f"{shown[name]:<{width}}  {{:>13,}}  {{:>17,}}  {{:>17,}}".format(*_sums(of_topic[name]))
    for gaps in snapshot.gaps.values():
        for gap in gaps:
            missing = f"offsets {gap.start} to {gap.stop - 1} are not in the backup"
            reason = "they were deleted before they were read"
            if gap.expired is not None:
                by = timestamps.text(gap.expired)
                reason = f"a lifecycle rule of the store deleted them by {by}"
            yield f"{gap.stored_partition}: {missing}: {reason}."
    for fault in faults:
        segment = fault.segment
        covered = f"offsets {segment.start} to {segment.stop - 1}"
        yield f"DAMAGED: {segment.stored_partition}, {covered}: {fault.why}"
    objects = [segment for segments in of_topic.values() for segment in segments if segment.records]
    records, unpacked, stored = _sums(objects)
    yield (
        f"Snapshot {snapshot.manifest.number}: {count(len(objects), 'segment')}, {count(records, 'record')}, "
        f"{unpacked / 1e6:,.1f} MB ({stored / 1e6:,.1f} MB stored); {seconds:.1f} s, "
        f"{unpacked / 1e6 / max(seconds, 1e-9):,.0f} MB/s."
    )
    if faults:
        damaged = len({fault.segment for fault in faults})
        yield (
            f"Damaged: {count(damaged, 'segment')}. Restore their objects from a copy of the store. Until "
            "then, a restore that needs them is refused. Restores of older snapshots may not need them."
        )
    else:
        yield "No object is damaged."


def _sums(segments: Sequence[Segment]) -> tuple[int, int, int]:
    """Return the records, the uncompressed bytes and the stored bytes."""
    return (
        sum(segment.records for segment in segments),
        sum(segment.unpacked_bytes for segment in segments),
        sum(segment.stored_bytes + segment.index_bytes for segment in segments),
    )


def report(snapshot: Snapshot, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return the JSON report, with the damaged objects. `to` is exclusive."""
    return {
        "snapshot": snapshot.manifest.number,
        "partitions": [
            {
                **partition._asdict(),
                "from": segments[0].start,
                "to": segments[-1].stop,
                "records": sum(segment.records for segment in segments),
                "bytes": sum(segment.unpacked_bytes for segment in segments),
            }
            for partition, segments in snapshot.segments.items()
        ],
        "gaps": [
            {**partition._asdict(), "from": gap.start, "to": gap.stop}
            | ({"expired": timestamps.text(gap.expired)} if gap.expired is not None else {})
            for partition, gaps in snapshot.gaps.items()
            for gap in gaps
        ],
        "groups": [],
        "left_out": [],
        "damaged": [
            {
                **fault.segment.stored_partition._asdict(),
                "from": fault.segment.start,
                "to": fault.segment.stop,
                "object": fault.path,
                "id": fault.id,
                "why": fault.why,
            }
            for fault in faults
        ],
    }
