"""The report of a restore, as text and as JSON."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.wording import NAME_COLUMNS, count, shortened, some
from aqueduct.errors import ExitCode, LeftOut, Skipped, labelled, left_out_entries
from aqueduct.snapshots.restore.outcome import DroppedSetting, Move, RestoreOutcome
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan

LINES = 20  # of the same kind
RETENTION_HELD = "retention-held"


def summary(plan: RestorePlan) -> str:
    """Return the size of a plan, as the end of a sentence."""
    size = sum(lane.unpacked_bytes for lane in plan.lanes) / 1e6
    at_most = "at most " if plan.at_most else ""
    number = sum(lane.records for lane in plan.lanes)
    return (
        f"snapshot {plan.snapshot}, {count(len(plan.topics), 'topic')}, "
        f"{count(len(plan.lanes), 'partition')}, {at_most}{count(number, 'record')}, {size:,.1f} MB."
    )


def dropped(settings: Iterable[DroppedSetting]) -> LeftOut:
    """Return the settings that the target refuses as skipped items, one for each setting and value."""
    topics: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for setting in settings:
        topics[setting.key, setting.value, setting.why].append(setting.topic)
    return tuple(
        Skipped(
            f"setting {key}={value} of {some(names)}",
            f"the target refuses it: {reason.rstrip('.')}",
            "setting-unsupported",
        )
        for (key, value, reason), names in topics.items()
    )


def exit_code(outcome: RestoreOutcome) -> ExitCode:
    return ExitCode.INCOMPLETE if outcome.left_out else ExitCode.DONE


def text(outcome: RestoreOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: RestoreOutcome) -> Iterator[str]:
    yield from _table(outcome)
    yield from _of_records(outcome)
    yield from _of_groups(outcome)
    yield from _of_settings(outcome)
    for warning in outcome.warnings:
        yield f"Warning: {labelled(warning.id, warning.message)}"
    yield from _of_retention(outcome)
    yield from _first([f"Skipped: {skipped}." for skipped in outcome.left_out])
    yield _last_line(outcome)


def _table(outcome: RestoreOutcome) -> Iterator[str]:
    """Yield the number of records and bytes of each topic."""
    plan = outcome.plan
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    forgotten = outcome.forgotten
    for lane in (lane for lane in plan.lanes if lane.topic not in forgotten):
        amounts = _amounts(outcome, lane)
        of_topic = sums[lane.topic]
        of_topic[0] += 1
        of_topic[1] += amounts["records"] or 0
        of_topic[2] += amounts["bytes"] or 0
    renamed = any(topic.name != name for name, (topic, _) in plan.topics.items())
    columns = NAME_COLUMNS // 2 if renamed else NAME_COLUMNS
    shown = {name: shortened(name, columns) for name in sums}
    width = max(map(len, ("topic", *shown.values())))
    if sums:
        yield f"{'topic':<{width}}  partitions  {'records':>12}  {'bytes':>14}  from"
        for name, (partitions, records, size) in sums.items():
            topic, instance = plan.topics[name]
            source = "" if topic.name == name else f"{shortened(topic.name, columns)} "
            yield (
                f"{shown[name]:<{width}}  {partitions:>10}  {records:>12,}  {size:>14,}  "
                f"{source}g{instance.number} ({instance.state})"
            )


def _of_records(outcome: RestoreOutcome) -> Iterator[str]:
    """Yield lines about the records, beside the table."""
    plan, forgotten = outcome.plan, outcome.forgotten
    if forgotten:
        yield (
            f"The number of restored records of {some(sorted(forgotten))} is unknown: the target has deleted "
            "the progress of their restore (offsets.retention.minutes)."
        )
    if recount := outcome.recount:
        how = f"; in {recount.read:,} of them, batch headers were counted" if recount.read else ""
        yield f"Final check: {count(recount.partitions, 'partition')} with all restored records{how}."
    yield from _first(
        [
            f"{name} continues after restore {some(restores)}."
            for name, restores in sorted(plan.continues.items())
        ]
    )
    for gap in (gap for gap in plan.gaps if gap.expired is None):
        loss = f"offsets {gap.start} to {gap.stop - 1} were deleted before they were backed up"
        yield f"{gap.topic}-{gap.partition}: {loss}."
    if plan.skipped:
        yield f"{count(len(plan.skipped), 'topic')} without the selected instance: {some(plan.skipped)}."
    if plan.window.timed and not forgotten and not _records(outcome):
        yield "No record was restored: no record has a timestamp from --from-time to --to-time."


def _of_groups(outcome: RestoreOutcome) -> Iterator[str]:
    if outcome.moves:
        number = len({move.group for move in outcome.moves})
        yield f"{count(number, 'group')}: {count(len(outcome.moves), 'offset')} set."
    noted = [
        f"group {move.group}: {move.topic}-{move.partition}, offset {move.old} became {move.new}: "
        f"{move.note}."
        for move in outcome.moves
        if move.note
    ]
    yield from _first(noted)


def _of_settings(outcome: RestoreOutcome) -> Iterator[str]:
    if outcome.settled:
        number = len(outcome.settled)
        yield f"Settings of the backup applied to {count(number, 'topic')}: {some(outcome.settled)}."
    if rights := outcome.rights:
        already = f" ({rights.known} more existed already)" if rights.known else ""
        yield f"{count(rights.acls, 'ACL')} set{already}; {count(rights.quotas, 'quota')} set."


def _of_retention(outcome: RestoreOutcome) -> Iterator[str]:
    if outcome.held:
        sentence = (
            f"Retention stays disabled for {some(sorted(outcome.held))}, because it would delete restored "
            "records at once. To enable it, run the same command with --release-retention. Kafka then "
            "deletes these records."
        )
        yield f"Warning: {labelled(RETENTION_HELD, sentence)}"


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:LINES]
    if len(lines) > LINES:
        yield f"... and {len(lines) - LINES} more such lines. To list all, pass --report FILE."


def _records(outcome: RestoreOutcome) -> int:
    """Return the records of this restore in all runs; in a dry run, the maximum."""
    if outcome.planned:
        return sum(lane.records for lane in outcome.plan.lanes)
    return sum(restored.progress.records for restored in outcome.written.values())


def _last_line(outcome: RestoreOutcome) -> str:
    name = f"Restore {outcome.restore_id} of snapshot {outcome.plan.snapshot}"
    records, megabytes = _records(outcome), sum(e.progress.bytes for e in outcome.written.values()) / 1e6
    if outcome.before:
        had = f": {count(records, 'record')}, {megabytes:,.1f} MB" if not outcome.forgotten else ""
        return f"{name} was already complete{had}. This run wrote no record."
    if outcome.planned:
        at_most = "at most " if outcome.plan.at_most else ""
        return f"{name} would write {at_most}{count(records, 'record')}; nothing was written."
    now = sum(restored.records for restored in outcome.written.values())
    size = sum(restored.bytes for restored in outcome.written.values()) / 1e6
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in outcome.seconds.items())
    speed = f"{size / max(outcome.seconds.get('records', 0.0), 1e-9):,.0f} MB/s"
    total = f"{count(records, 'record')}, {megabytes:,.1f} MB"
    of_this = f", of which this run wrote {count(now, 'record')}, {size:,.1f} MB" if now < records else ""
    return f"{name}: {total}{of_this}, {speed} ({phases})."


def report(outcome: RestoreOutcome) -> dict[str, Any]:
    """Return the JSON report. `from` and `to` (exclusive) are offsets in the backup, topics the target's."""
    return {
        "snapshot": outcome.plan.snapshot,
        "restore_id": outcome.restore_id,
        "finished_before": outcome.before,
        "dry_run": outcome.dry_run,
        "links_stopped": outcome.stopped,
        "continues": {topic: list(restores) for topic, restores in outcome.plan.continues.items()},
        "at_most": outcome.planned and outcome.plan.at_most,  # the records of partitions
        "partitions": [
            {
                "topic": lane.topic,
                "partition": lane.stored_partition.partition,
                "source": lane.stored_partition.topic,
                "instance": lane.stored_partition.instance,
                "from": lane.segments[0].start if lane.segments else lane.stop,
                "to": lane.stop,
                **_amounts(outcome, lane),
            }
            for lane in outcome.plan.lanes
        ],
        "gaps": [
            {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            | ({"expired": timestamps.text(gap.expired)} if gap.expired is not None else {})
            for gap in outcome.plan.gaps
        ],
        "groups": moved(outcome.moves),
        "settings_of_backup": list(outcome.settled),
        "rights": asdict(outcome.rights) if outcome.rights else None,
        "recount": asdict(outcome.recount) if outcome.recount else None,
        "dropped_settings": [asdict(setting) for setting in outcome.dropped],
        "held": [
            {"id": RETENTION_HELD, "topic": topic, "settings": dict(settings)}
            for topic, settings in outcome.held.items()
        ],
        "warnings": [asdict(warning) for warning in outcome.warnings],
        "without_instance": list(outcome.plan.skipped),
        "left_out": left_out_entries(outcome.left_out),
        "ranges": [flow_range.entry() for flow_range in outcome.ranges],
        "seconds": dict(outcome.seconds),
    }


def moved(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Return the changed group offsets in the format of JSON reports."""
    return [
        {
            "group": move.group,
            "topic": move.topic,
            "partition": move.partition,
            "old": move.old,
            "new": move.new,
            **({"type": "share"} if move.share else {}),
            **({"note": move.note} if move.note else {}),
        }
        for move in moves
    ]


def _amounts(outcome: RestoreOutcome, lane: RestoreLane) -> dict[str, int | None]:
    """Return the records and bytes of all runs of this restore, and of this run.

    In a dry run: what it would write. None: the target has deleted the progress.
    """
    if restored := outcome.written.get(lane.target):
        in_all = {"records": restored.progress.records, "bytes": restored.progress.bytes}
        return {**in_all, "records_now": restored.records, "bytes_now": restored.bytes}
    planned = (lane.records, lane.unpacked_bytes) if outcome.planned else (None, None)
    return {"records": planned[0], "bytes": planned[1], "records_now": 0, "bytes_now": 0}
