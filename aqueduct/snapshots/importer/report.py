"""The report of an import, as text and as JSON."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from aqueduct.common.wording import count, shortened
from aqueduct.errors import ExitCode, left_out_entries
from aqueduct.snapshots.importer.outcome import ImportOutcome


def exit_code(outcome: ImportOutcome) -> ExitCode:
    return ExitCode.INCOMPLETE if outcome.left_out or outcome.manifest.gaps else ExitCode.DONE


def text(outcome: ImportOutcome) -> str:
    return "\n".join(_lines(outcome))


def _lines(outcome: ImportOutcome) -> Iterator[str]:
    manifest = outcome.manifest
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for segment in manifest.segments:
        sums[segment.topic][0] += segment.records
        sums[segment.topic][1] += segment.unpacked_bytes
    shown = {name: shortened(name) for name in outcome.foreign.topics}
    width = max(map(len, ("topic", *shown.values())))
    yield f"{'topic':<{width}}  partitions  {'records':>13}  {'bytes':>17}"
    for name, partitions in sorted(outcome.foreign.topics.items()):
        records, size = sums[name]
        yield f"{shown[name]:<{width}}  {partitions:>10}  {records:>13,}  {size:>17,}"
    for gap in manifest.gaps:
        loss = f"offsets {gap.start} to {gap.stop - 1} were deleted before they were backed up"
        yield f"{gap.topic}-{gap.partition}: {loss}."
    for part in outcome.imported:
        if part.twice:
            yield f"{part.partition}: {count(part.twice, 'duplicate record')} in the files, imported once."
    for skipped in outcome.left_out:
        yield f"Skipped: {skipped}."
    number = sum(segment.records for segment in manifest.segments)
    megabytes = sum(segment.unpacked_bytes for segment in manifest.segments) / 1e6
    yield (
        f"Snapshot {manifest.number}, of {outcome.foreign.program}: {count(number, 'record')}, "
        f"{megabytes:,.1f} MB ({outcome.stored_bytes / 1e6:,.1f} MB stored), "
        f"{count(len(manifest.groups), 'group')}; {outcome.seconds:.1f} s, "
        f"{megabytes / max(outcome.seconds, 1e-9):,.0f} MB/s."
    )


def report(outcome: ImportOutcome) -> dict[str, Any]:
    """Return the JSON report. `to` is exclusive."""
    return {
        "snapshot": outcome.manifest.number,
        "program": outcome.foreign.program,
        "partitions": [
            {
                "topic": part.partition.topic,
                "partition": part.partition.partition,
                "from": part.start,
                "to": part.stop,
                "records": sum(segment.records for segment in part.segments),
                "bytes": sum(segment.unpacked_bytes for segment in part.segments),
                "twice": part.twice,
                "holes": part.holes,
                "others": part.others,
            }
            for part in outcome.imported
        ],
        "gaps": [
            {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            for gap in outcome.manifest.gaps
        ],
        "groups": [
            {
                "group": group.group,
                "topic": committed.topic,
                "partition": committed.partition,
                "old": committed.offset,
                "new": None,
            }
            for group in outcome.manifest.groups
            for committed in group.offsets
        ],
        "left_out": left_out_entries(outcome.left_out),
    }
