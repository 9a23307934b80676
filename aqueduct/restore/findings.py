"""What a run tells: a page for people, and a report for programs."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from aqueduct.errors import ExitCode
from aqueduct.restore.outcome import Outcome
from aqueduct.wording import count, some

LINES = 20  # about one kind of thing


def exit_code(outcome: Outcome) -> ExitCode:
    return ExitCode.INCOMPLETE if outcome.left_out else ExitCode.DONE


def text(outcome: Outcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    plan = outcome.plan
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for lane in plan.lanes:
        done = outcome.written.get(lane.target)
        of_topic = sums[lane.topic]
        of_topic[0] += 1
        of_topic[1] += done.records if done else 0 if outcome.written else lane.records
        of_topic[2] += done.bytes if done else 0 if outcome.written else lane.unpacked_bytes
    width = max((len(name) for name in sums), default=5)
    if sums and not (outcome.before and not outcome.dry_run):
        yield f"{'topic':<{width}}  partitions  {'records':>12}  {'bytes':>14}  from"
        for name, (partitions, records, size) in sums.items():
            topic, instance = plan.topics[name]
            source = "" if topic.name == name else f"{topic.name} "
            yield (
                f"{name:<{width}}  {partitions:>10}  {records:>12,}  {size:>14,}  "
                f"{source}g{instance.number} ({instance.state})"
            )
    for gap in plan.gaps:
        what = f"offsets {gap.start} to {gap.stop - 1} were deleted before they were backed up"
        yield f"{gap.topic}-{gap.partition}: {what}."
    if plan.skipped:
        yield f"{count(len(plan.skipped), 'topic')} without that instance: {some(plan.skipped)}."
    if outcome.moves:
        number = len({move.group for move in outcome.moves})
        yield f"{count(number, 'group')}: {count(len(outcome.moves), 'offset')} set."
    noted = [move for move in outcome.moves if move.note]
    for move in noted[:LINES]:
        what = f"{move.topic}-{move.partition}, {move.old} became {move.new}"
        yield f"group {move.group}: {what}: {move.note}."
    if len(noted) > LINES:
        yield f"... and {len(noted) - LINES} more of that kind; --report has all."
    for warning in outcome.warnings:
        yield f"Warning: {warning}"
    if outcome.held:
        yield (
            "Records are older or more than retention allows, so it is held for "
            f"{some(sorted(outcome.held))}: the same command with --release-retention "
            "sets it back, and Kafka deletes them."
        )
    for what, why in outcome.left_out:
        yield f"Left out: {what}: {why}."
    yield _last_line(outcome)


def _last_line(outcome: Outcome) -> str:
    name = f"Restore {outcome.restore_id} of snapshot {outcome.plan.snapshot}"
    if outcome.before:
        return f"{name} was finished before: no record was written."
    if outcome.dry_run:
        return f"{name} would write this; nothing was written."
    records = sum(each.records for each in outcome.written.values())
    size = sum(each.bytes for each in outcome.written.values()) / 1e6
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in outcome.seconds.items())
    speed = size / max(outcome.seconds.get("records", 0.0), 1e-9)
    return f"{name}: {count(records, 'record')}, {size:,.1f} MB, {speed:,.0f} MB/s ({phases})."


def report(outcome: Outcome) -> dict[str, Any]:
    """DESIGN's report: `from` and `to` (exclusive) are offsets in the backup, topics those of the target."""
    return {
        "snapshot": outcome.plan.snapshot,
        "restore_id": outcome.restore_id,
        "finished_before": outcome.before,
        "dry_run": outcome.dry_run,
        "partitions": [
            {
                "topic": lane.topic,
                "partition": lane.place.partition,
                "source": lane.place.topic,
                "instance": lane.place.instance,
                "from": lane.segments[0].start if lane.segments else lane.stop,
                "to": lane.stop,
                "records": done.records if (done := outcome.written.get(lane.target)) else 0,
                "bytes": done.bytes if done else 0,
            }
            for lane in outcome.plan.lanes
        ],
        "gaps": [
            {"topic": each.topic, "partition": each.partition, "from": each.start, "to": each.stop}
            for each in outcome.plan.gaps
        ],
        "groups": [
            {
                "group": each.group,
                "topic": each.topic,
                "partition": each.partition,
                "old": each.old,
                "new": each.new,
                **({"note": each.note} if each.note else {}),
            }
            for each in outcome.moves
        ],
        "held": {topic: dict(settings) for topic, settings in outcome.held.items()},
        "warnings": list(outcome.warnings),
        "left_out": [{"what": what, "why": why} for what, why in outcome.left_out],
        "seconds": dict(outcome.seconds),
    }
