"""The report of a drill, as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened, some
from aqueduct.errors import ExitCode, left_out_entries
from aqueduct.mirror.reconcile import report as reconcile
from aqueduct.snapshots.drill.outcome import LIVE, RECOVERY, Compared, Consumed, DrillOutcome
from aqueduct.snapshots.restore import report as restore

LINES = 20  # of the same kind


def text(outcome: DrillOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: DrillOutcome) -> Iterator[str]:
    manifest = outcome.snapshot.manifest
    yield (
        f"Snapshot {manifest.number} of {outcome.store}, begun {timestamps.text(manifest.started)}: "
        f"{count(len(outcome.newest), 'topic')}, {count(outcome.records, 'record')}, "
        f"{outcome.bytes / 1e6:,.1f} MB restored."
    )
    yield from _table(outcome)
    if others := _count_unselected(outcome):
        yield f"{count(others, 'topic')} of the snapshot not selected."
    if outcome.restored.plan.skipped:
        yield f"{count(len(outcome.restored.plan.skipped), 'topic')} without a complete instance."
    if gaps := [gap for gap in outcome.restored.plan.gaps if gap.expired is None]:
        lost = sum(gap.stop - gap.start for gap in gaps)
        yield f"{count(lost, 'offset')} deleted before they were backed up."
    yield from _differences(outcome.compared, "The scratch cluster and the store")
    yield _consumed(outcome.consumed)
    if outcome.live:
        yield from _differences(
            outcome.live.compared, "The store and the live cluster at their common offsets"
        )
        if outcome.live.thinned:
            yield (
                f"{count(outcome.live.thinned, 'partition')} of compacted topics: the live cluster lacks "
                "records of the snapshot because of compaction. Its other records are equal."
            )
        if outcome.live.gone:
            gone = outcome.live.gone
            yield f"{count(len(gone), 'topic')} no longer in the live cluster: {some(gone)}."
        yield from _first([f"Truncated: {partition}." for partition in outcome.live.cut])
        behind = sum(outcome.live.behind.values())
        yield f"The live cluster has {count(behind, 'offset')} after the snapshot: a loss would destroy them."
    yield from _first([f"Skipped: {skipped}." for skipped in outcome.left_out])
    yield from _recovery(outcome)
    yield _verdict(outcome)


def _table(outcome: DrillOutcome) -> Iterator[str]:
    records = dict.fromkeys(outcome.newest, 0)
    for (topic, _), written in outcome.restored.written.items():
        records[topic] += written.progress.records
    shown = {name: shortened(name) for name in sorted(outcome.newest)[:LINES]}
    width = max(map(len, ("topic", *shown.values())))
    yield f"{'topic':<{width}}  {'records':>12}  newest record"
    for name, short in shown.items():
        time = outcome.newest[name]
        yield (
            f"{short:<{width}}  {records[name]:>12,}  {timestamps.text(time) if time is not None else 'none'}"
        )
    if len(outcome.newest) > LINES:
        yield f"... and {len(outcome.newest) - LINES} more topics. To list all, pass --report FILE."


def _differences(compared: Compared, which: str) -> Iterator[str]:
    unequal = [difference.why for difference in reconcile.sentences(compared.flow, compared.unequal)]
    yield from _first(unequal)
    equal = len(compared.verdicts) - len(compared.unequal)
    yield f"{which}: {count(equal, 'partition')} equal, {len(unequal) or 'none'} unequal."


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:LINES]
    if len(lines) > LINES:
        yield f"... and {len(lines) - LINES} more such lines. To list all, pass --report FILE."


def _consumed(consumed: Consumed | None) -> str:
    if consumed is None:
        return "No record was consumed, because no restored topic has records."
    group = f"Group {consumed.group}" if consumed.of_snapshot else f"The new group {consumed.group}"
    partition = f"{consumed.topic}-{consumed.partition}"
    if consumed.offset is None:
        return (
            f"{group} received no record of {partition}; the record at offset {consumed.stored_offset} of "
            "the store was expected."
        )
    expected = f"offset {consumed.stored_offset} in the store"
    received = f"offset {consumed.offset} in the scratch cluster"
    if consumed.right:
        return f"{group} received the expected record of {partition}: {expected}, {received}."
    return f"{group} received AN UNEXPECTED RECORD of {partition}: {received}. Expected was {expected}."


def _recovery(outcome: DrillOutcome) -> Iterator[str]:
    phases = ", ".join(f"{phase} {outcome.seconds.get(phase, 0.0):.1f} s" for phase in RECOVERY)
    yield f"Recovery took {outcome.recovery_seconds:.1f} s (RTO): {phases}."
    age = outcome.newest_age
    newest = "No record was restored" if age is None else f"The newest record was {_age(age)} old"
    yield f"{newest} (RPO); the snapshot was {_age(outcome.snapshot_age)} old."


def _age(seconds: float) -> str:
    if abs(seconds) < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if abs(seconds) < 36_000 else f"{seconds / 3600:,.0f} h"


def _verdict(outcome: DrillOutcome) -> str:
    return {
        ExitCode.DONE: "The drill succeeded.",
        ExitCode.INCOMPLETE: (
            "The restored data is equal to the store. The lines above list skipped items or differences from "
            "the live cluster."
        ),
        ExitCode.FAILED: "THE DRILL FAILED: the restored data differs from the store.",
    }[outcome.exit_code]


def _count_unselected(outcome: DrillOutcome) -> int:
    plan = outcome.restored.plan
    return len(outcome.snapshot.topics) - len(plan.topics) - len(plan.skipped)


def report(outcome: DrillOutcome) -> dict[str, Any]:
    """Return the JSON report: the fields of a restore's report, and the results of the drill."""
    live = outcome.live
    consumed = outcome.consumed
    return {
        **restore.report(outcome.restored),
        "store": outcome.store,
        "snapshot_started": timestamps.text(outcome.snapshot.manifest.started),
        "snapshot_age_seconds": outcome.snapshot_age,
        "newest_record": None if outcome.newest_time is None else timestamps.text(outcome.newest_time),
        "newest_record_age_seconds": outcome.newest_age,
        "newest_records": {
            name: None if time is None else timestamps.text(time) for name, time in outcome.newest.items()
        },
        "recovery_seconds": outcome.recovery_seconds,
        "seconds": {phase: outcome.seconds.get(phase, 0.0) for phase in (*RECOVERY, LIVE)},
        "records": outcome.records,
        "bytes": outcome.bytes,
        "topics_not_asked_for": _count_unselected(outcome),
        "reconciled": _compared(outcome.compared),
        "consumed": consumed
        and {
            "group": consumed.group,
            "group_of_snapshot": consumed.of_snapshot,
            "topic": consumed.topic,
            "partition": consumed.partition,
            "stored_offset": consumed.stored_offset,
            "offset": consumed.offset,
            "right": consumed.right,
        },
        "live": live
        and {
            **_compared(live.compared),
            "thinned_partitions": live.thinned,
            "gone": list(live.gone),
            "cut": list(live.cut),
            "offsets_behind": dict(live.behind),
        },
        "left_out": left_out_entries(outcome.left_out),
    }


def _compared(compared: Compared) -> dict[str, Any]:
    return {
        "partitions": len(compared.verdicts),
        "records": sum(verdict.readings[0].records for verdict in compared.verdicts),
        "unequal": left_out_entries(reconcile.sentences(compared.flow, compared.unequal)),
    }
