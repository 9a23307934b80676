"""The report of an export: a page for people, and JSON for programs."""

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import attrgetter
from typing import Any

from aqueduct import moments
from aqueduct.errors import ExitCode
from aqueduct.export.outcome import ExportOutcome
from aqueduct.export.state import Counts
from aqueduct.wording import count, shortened, some

LINES = 20  # about one kind of thing


def exit_code(outcome: ExportOutcome, *, fail_on_poison: bool) -> ExitCode:
    done = outcome.done
    poison = fail_on_poison and any(each.bad for each in done.counts)
    return ExitCode.INCOMPLETE if done.gaps or done.expired or done.left_out or poison else ExitCode.DONE


def text(outcome: ExportOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: ExportOutcome) -> Iterator[str]:
    done = outcome.done
    sums = [reduce(Counts.plus, some_) for _, some_ in groupby(done.counts, attrgetter("topic"))]
    shown = {each.topic: shortened(each.topic) for each in sums}
    width = max(map(len, ("topic", *shown.values())))
    yield f"{'topic':<{width}}  {'records':>12}  {'bad':>9}  files  {'bytes':>14}  columns"
    for each in sums:
        files = [file for file in done.files if file.topic == each.topic]
        columns = outcome.tables.get(each.topic, "Kafka's")
        yield (
            f"{shown[each.topic]:<{width}}  {each.rows:>12,}  {each.bad:>9,}  {len(files):>5,}  "
            f"{sum(file.bytes for file in files):>14,}  {columns}"
        )
    if tombstones := sum(each.tombstones for each in sums):
        yield f"{count(tombstones, 'tombstone')} left out, as declared."
    if outcome.plan.window.timed and not any(each.rows or each.bad for each in sums):
        yield "Nothing is in the window: no record has a time from --from-time to --to-time."
    if bad := sum(each.bad for each in sums):
        topics = some(each.topic for each in sums if each.bad)
        yield f"{count(bad, 'record')} can't be rows, and are in files _bad-... with why: {topics}."
    yield from _first(
        [
            f"{each.topic}-{each.partition}: offsets {each.start} to {each.stop - 1} were deleted before "
            "they were backed up."
            for each in done.gaps
        ]
    )
    yield from _first(
        [
            f"{each.topic}-{each.partition}: offsets {each.start} to {each.stop - 1} have expired in the "
            f"store by {moments.text(each.expired)}, by a lifecycle rule."
            for each in done.expired
        ]
    )
    if outcome.plan.skipped:
        number = count(len(outcome.plan.skipped), "topic")
        yield f"{number} without that instance: {some(outcome.plan.skipped)}."
    yield from _first([f"Left out: {each.what}: {each.why}." for each in done.left_out])
    yield _last_line(outcome, sums)


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:LINES]
    if len(lines) > LINES:
        yield f"... and {len(lines) - LINES} more of that kind; --report has all."


def _last_line(outcome: ExportOutcome, sums: list[Counts]) -> str:
    done = outcome.done
    records, size = sum(each.rows for each in sums), sum(file.bytes for file in done.files) / 1e6
    name = f"Export of snapshot {done.export.snapshot} to {outcome.url}"
    what = f"{count(records, 'record')} in {count(len(done.files), 'file')}, {size:,.1f} MB"
    if outcome.before:
        return f"{name} had ended before, with {what}: this run wrote nothing."
    earlier = outcome.shares - outcome.written
    of_them = f", of which earlier runs wrote {earlier} of {count(outcome.shares, 'part')}" if earlier else ""
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in outcome.seconds.items())
    return f"{name}: {what}{of_them} ({phases})."


def report(outcome: ExportOutcome) -> dict[str, Any]:
    """Return the report; `from` and `to` (exclusive) are offsets in the backup."""
    done = outcome.done
    stops = {lane.target: lane.stop for lane in outcome.plan.lanes}
    starts = {lane.target: lane.segments[0].start for lane in outcome.plan.lanes if lane.segments}
    return {
        "snapshot": done.export.snapshot,
        "to": outcome.url,
        "format": done.export.files,
        "finished_before": outcome.before,
        "tables": dict(outcome.tables),
        "partitions": [
            {
                **each._asdict(),
                "from": starts.get(each.topic_partition, stops.get(each.topic_partition)),
                "to": stops.get(each.topic_partition),
            }
            for each in done.counts
        ],
        "files": [file._asdict() for file in done.files],
        "gaps": [
            {"topic": each.topic, "partition": each.partition, "from": each.start, "to": each.stop}
            for each in done.gaps
        ]
        + [
            {"topic": each.topic, "partition": each.partition, "from": each.start, "to": each.stop}
            | {"expired": moments.text(each.expired)}
            for each in done.expired
        ],
        "without_instance": list(outcome.plan.skipped),
        "left_out": [each._asdict() for each in done.left_out],
        "shares": {"all": outcome.shares, "written_now": outcome.written},
        "seconds": dict(outcome.seconds),
    }
