"""The report of an export, as text and as JSON."""

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import attrgetter
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened, some
from aqueduct.errors import ExitCode
from aqueduct.snapshots.export.outcome import ExportOutcome
from aqueduct.snapshots.export.state import Counts

LINES = 20  # of the same kind


def exit_code(outcome: ExportOutcome, *, fail_on_poison: bool) -> ExitCode:
    ended = outcome.done
    poison = fail_on_poison and any(counts.bad for counts in ended.counts)
    return ExitCode.INCOMPLETE if ended.gaps or ended.expired or ended.left_out or poison else ExitCode.DONE


def text(outcome: ExportOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: ExportOutcome) -> Iterator[str]:
    ended = outcome.done
    sums = [reduce(Counts.plus, some_) for _, some_ in groupby(ended.counts, attrgetter("topic"))]
    shown = {total.topic: shortened(total.topic) for total in sums}
    width = max(map(len, ("topic", *shown.values())))
    yield f"{'topic':<{width}}  {'records':>12}  {'rejected':>9}  files  {'bytes':>14}  columns"
    for total in sums:
        files = [file for file in ended.files if file.topic == total.topic]
        columns = outcome.tables.get(total.topic, "Kafka's")
        yield (
            f"{shown[total.topic]:<{width}}  {total.rows:>12,}  {total.bad:>9,}  {len(files):>5,}  "
            f"{sum(file.bytes for file in files):>14,}  {columns}"
        )
    if tombstones := sum(total.tombstones for total in sums):
        yield f"{count(tombstones, 'tombstone')} skipped, as declared (tombstones: drop)."
    if outcome.plan.window.timed and not any(total.rows or total.bad for total in sums):
        yield "No record was exported: no record has a timestamp from --from-time to --to-time."
    if bad := sum(total.bad for total in sums):
        topics = some(total.topic for total in sums if total.bad)
        yield f"{count(bad, 'rejected record')} of {topics} written to files _bad-..., with the reason."
    yield from _first(
        [
            f"{gap.topic}-{gap.partition}: offsets {gap.start} to {gap.stop - 1} were deleted before "
            "they were backed up."
            for gap in ended.gaps
        ]
    )
    yield from _first(
        [
            f"{span.topic}-{span.partition}: a lifecycle rule of the store deleted offsets {span.start} to "
            f"{span.stop - 1} by {timestamps.text(span.expired)}."
            for span in ended.expired
        ]
    )
    if outcome.plan.skipped:
        number = count(len(outcome.plan.skipped), "topic")
        yield f"{number} without the selected instance: {some(outcome.plan.skipped)}."
    yield from _first([f"Skipped: {unread.what}: {unread.why}." for unread in ended.left_out])
    yield _last_line(outcome, sums)


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:LINES]
    if len(lines) > LINES:
        yield f"... and {len(lines) - LINES} more such lines. To list all, pass --report FILE."


def _last_line(outcome: ExportOutcome, sums: list[Counts]) -> str:
    ended = outcome.done
    records, size = sum(total.rows for total in sums), sum(file.bytes for file in ended.files) / 1e6
    name = f"Export of snapshot {ended.export.snapshot} to {outcome.url}"
    amount = f"{count(records, 'record')} in {count(len(ended.files), 'file')}, {size:,.1f} MB"
    if outcome.before:
        return f"{name} was already complete: {amount}. This run wrote nothing."
    earlier = outcome.shares - outcome.written
    of_them = f", of which earlier runs wrote {earlier} of {count(outcome.shares, 'part')}" if earlier else ""
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in outcome.seconds.items())
    return f"{name}: {amount}{of_them} ({phases})."


def report(outcome: ExportOutcome) -> dict[str, Any]:
    """Return the JSON report. `from` and `to` (exclusive) are offsets in the backup."""
    ended = outcome.done
    stops = {lane.target: lane.stop for lane in outcome.plan.lanes}
    starts = {lane.target: lane.segments[0].start for lane in outcome.plan.lanes if lane.segments}
    return {
        "snapshot": ended.export.snapshot,
        "to": outcome.url,
        "format": ended.export.files,
        "finished_before": outcome.before,
        "tables": dict(outcome.tables),
        "partitions": [
            {
                **counts._asdict(),
                "from": starts.get(counts.topic_partition, stops.get(counts.topic_partition)),
                "to": stops.get(counts.topic_partition),
            }
            for counts in ended.counts
        ],
        "files": [file._asdict() for file in ended.files],
        "gaps": [
            {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            for gap in ended.gaps
        ]
        + [
            {"topic": span.topic, "partition": span.partition, "from": span.start, "to": span.stop}
            | {"expired": timestamps.text(span.expired)}
            for span in ended.expired
        ],
        "without_instance": list(outcome.plan.skipped),
        "left_out": [unread._asdict() for unread in ended.left_out],
        "shares": {"all": outcome.shares, "written_now": outcome.written},
        "seconds": dict(outcome.seconds),
    }
