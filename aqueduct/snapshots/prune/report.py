"""The report of a prune, as text and as JSON."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened
from aqueduct.errors import ExitCode, labelled, left_out_entries
from aqueduct.snapshots.prune.outcome import PruneOutcome

REMOVE = "remove"
SMALLER = "newest-snapshot-smaller"
DAMAGED = "remaining-snapshot-damaged"


def exit_code(outcome: PruneOutcome) -> ExitCode:
    if outcome.refused or outcome.damaged:
        return ExitCode.REFUSED
    return ExitCode.INCOMPLETE if outcome.left_out else ExitCode.DONE


def text(outcome: PruneOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: PruneOutcome) -> Iterator[str]:
    plan, swept = outcome.plan, outcome.swept
    yield f"{'snapshots':<23}  created"
    for fate, numbers in groupby(sorted(outcome.times), lambda number: _fate(outcome, number)):
        some = list(numbers)
        which = f"{some[0]} to {some[-1]}" if some[1:] else str(some[0])
        yield f"{which:<23}  {timestamps.text(outcome.times[some[-1]]):<24}  {fate}"
    if swept.gone:
        shown = {name: shortened(name) for name in swept.gone}
        width = max(map(len, ("topic", *shown.values())))
        yield f"{'topic':<{width}}  {'objects':>12}  {'bytes':>19}"
        for name, objects in sorted(swept.gone.items()):
            yield f"{shown[name]:<{width}}  {objects.count:>12,}  {objects.bytes:>19,}"
    if swept.young.count:
        yield (
            f"Kept for now: {count(swept.young.count, 'object')} ({swept.young.bytes / 1e6:,.1f} MB) of "
            "backups that may still be running."
        )
    if swept.strange.count:
        yield f"Kept: {count(swept.strange.count, 'object')} below topics/ that Aqueduct does not write."
    for skipped in outcome.left_out:
        yield f"Skipped: {skipped}."
    for shrunk in outcome.refused:
        sizes = (
            f"{shrunk.goes / 1e6:,.1f} MB would be removed, but the newest snapshot has only "
            f"{shrunk.newest / 1e6:,.1f} MB"
        )
        yield f"Refused: {labelled(SMALLER, f'topic {shrunk.topic}: {sizes}')}."
    for fault in outcome.damaged:
        sentence = fault.why.rstrip(".")
        yield f"Refused: {labelled(DAMAGED, f'{fault.path}, which remaining snapshots use: {sentence}')}."
    if opened := outcome.opened.segments:
        unread = outcome.opened.digests_only
        yield (
            f"Opened a sample of the remaining snapshots: {count(opened, 'segment')} "
            f"({outcome.opened.bytes / 1e6:,.1f} MB)"
            + (f", of which {count(unread, 'encrypted one')} by digest only." if unread else ".")
        )
    number = sum(amount.count for amount in swept.gone.values())
    size = sum(amount.bytes for amount in swept.gone.values()) / 1e6
    yield (
        f"{'Removed' if outcome.executed else 'Would remove'} {count(len(plan.go), 'snapshot')} "
        f"({outcome.manifest_bytes / 1e6:,.1f} MB), "
        f"{count(number, 'object')} ({size:,.1f} MB) that only these snapshots use, and "
        f"{count(swept.orphans.count, 'orphan')} ({swept.orphans.bytes / 1e6:,.1f} MB) that no snapshot "
        f"uses; {count(len(plan.stay), 'snapshot')} kept; {outcome.seconds:.1f} s.{_conclusion(outcome)}"
    )


def _conclusion(outcome: PruneOutcome) -> str:
    if outcome.damaged:
        return (
            " Nothing was removed. Find out who can write to the store, and restore the objects from a copy "
            "of the store. If they are lost, --past-damage with --execute removes what the plan shows."
        )
    if outcome.refused:
        return (
            " Nothing was removed. Check that your backup wrote the newest snapshot, and that it is complete."
            " If topics were deleted or emptied on purpose, --allow-less with --execute removes their data."
        )
    return "" if outcome.executed else " Nothing was removed. To remove them, pass --execute."


def _fate(outcome: PruneOutcome, number: int) -> str:
    return f"keep: {outcome.plan.stay[number]}" if number in outcome.plan.stay else REMOVE


def report(outcome: PruneOutcome) -> dict[str, Any]:
    """Return the JSON report: what was removed, or would be."""
    swept = outcome.swept
    return {
        "snapshot": max(outcome.times),
        "executed": outcome.executed,
        "snapshots": [
            {"id": number, "made": timestamps.text(made), "stays": number in outcome.plan.stay}
            | ({"why": outcome.plan.stay[number]} if number in outcome.plan.stay else {})
            for number, made in sorted(outcome.times.items())
        ],
        "manifest_bytes": outcome.manifest_bytes,
        "topics": [
            {"topic": name, "objects": objects.count, "bytes": objects.bytes}
            for name, objects in sorted(swept.gone.items())
        ],
        "refused": [
            {"id": SMALLER, "topic": shrunk.topic, "goes": shrunk.goes, "newest": shrunk.newest}
            for shrunk in outcome.refused
        ]
        + [
            {"id": DAMAGED, "topic": fault.segment.topic, "object": fault.path, "why": fault.why}
            for fault in outcome.damaged
        ],
        "opened": {
            "segments": outcome.opened.segments,
            "bytes": outcome.opened.bytes,
            "digests_only": outcome.opened.digests_only,
        },
        "orphans": {"objects": swept.orphans.count, "bytes": swept.orphans.bytes},
        "young": {"objects": swept.young.count, "bytes": swept.young.bytes},
        "strange": {"objects": swept.strange.count, "bytes": swept.strange.bytes},
        "partitions": [],
        "gaps": [],
        "groups": [],
        "left_out": left_out_entries(outcome.left_out),
    }
