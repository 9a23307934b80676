"""The report of a backup, as text and as JSON."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from aqueduct.common.wording import count, shortened, some
from aqueduct.errors import ExitCode, LeftOut, left_out_entries
from aqueduct.store.expiry import Expiry, RulesPut
from aqueduct.store.manifest import InstanceState, Manifest


def exit_code(manifest: Manifest, left_out: LeftOut) -> ExitCode:
    return ExitCode.INCOMPLETE if manifest.gaps or left_out else ExitCode.DONE


def text(manifest: Manifest, stored_bytes: int, left_out: LeftOut, seconds: float) -> str:
    """Return the report as text."""
    return "\n".join(_lines(manifest, stored_bytes, left_out, seconds))


def _lines(manifest: Manifest, stored_bytes: int, left_out: LeftOut, seconds: float) -> Iterator[str]:
    by_topic: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for segment in manifest.segments:
        sums = by_topic[segment.topic]
        sums[0] += segment.records
        sums[1] += segment.unpacked_bytes
        sums[2] += segment.stored_bytes
    shown = {name: shortened(name) for name in by_topic}
    width = max(map(len, ("topic", *shown.values())))
    if by_topic:
        yield f"{'topic':<{width}}  {'records':>12}  {'bytes':>14}  {'stored bytes':>14}"
    for name, (records, unpacked, stored) in sorted(by_topic.items()):
        yield f"{shown[name]:<{width}}  {records:>12,}  {unpacked:>14,}  {stored:>14,}"
    for topic in manifest.topics:
        new = [instance for instance in topic.instances if instance.started == manifest.started]
        if topic.compacted and new:
            yield f"{topic.name}: generation g{new[0].number} is complete and {InstanceState.ACTIVATE}."
    for gap in manifest.gaps:
        clause = f"offsets {gap.start} to {gap.stop - 1} were deleted before they were read"
        yield f"{gap.topic}-{gap.partition}: {clause}; keep records longer, or back up more often."
    for open_ in manifest.open_transactions:
        clause = f"an open transaction ends the backup at offset {open_.last_stable_offset}"
        yield f"{open_.topic}-{open_.partition}: {clause}; the log ends at {open_.end_offset}."
    for ahead in manifest.groups_ahead:
        clause = f"has committed offset {ahead.offset} of {ahead.topic}-{ahead.partition}"
        yield f"group {ahead.group} {clause}, beyond the last stable offset {ahead.last_stable_offset}."
    for skipped in left_out:
        yield f"Skipped: {skipped}."
    records, unpacked = (sum(sums[i] for sums in by_topic.values()) for i in (0, 1))
    speed = unpacked / 1e6 / max(seconds, 1e-9)
    yield (
        f"Snapshot {manifest.number}: {count(records, 'new record')}, {unpacked / 1e6:,.1f} MB "
        f"({stored_bytes / 1e6:,.1f} MB stored), {count(len(manifest.every_group), 'group')}, "
        f"{count(len(manifest.acls), 'ACL')}; {seconds:.1f} s, {speed:,.0f} MB/s. Each partition is "
        f"consistent in itself; all were read within {(manifest.ended - manifest.started) / 1000:.1f} s."
    )


def unchanged(topics: Sequence[str]) -> Iterator[str]:
    """Yield a line with the compacted topics that got no new generation, because nothing changed."""
    if topics:
        yield (
            f"{count(len(topics), 'compacted topic')} without a new generation, because nothing changed "
            f"since the last one: {some(topics)}."
        )


def lifecycle(rules: Expiry | None, put: RulesPut | None) -> Iterator[str]:
    """Yield lines about the lifecycle rules of the bucket."""
    if not rules or not put:
        return
    yield (
        f"The bucket has a lifecycle rule for each of {count(put.ours, 'topic')} "
        f"({count(put.changed, 'rule')} changed), and {count(put.others, 'other rule')}."
    )
    if rules.compacted:
        yield (
            f"{count(len(rules.compacted), 'compacted topic')} without a rule, because an old record can be "
            f"the newest one of its key: {some(rules.compacted)}."
        )


def report(manifest: Manifest, left_out: LeftOut, unchanged: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON report. `to` is exclusive; group offsets are the ones that were backed up."""
    return {
        "generations_unchanged": list(unchanged),
        "snapshot": manifest.number,
        "partitions": [
            {
                "topic": segment.topic,
                "instance": segment.instance,
                "partition": segment.partition,
                "from": segment.start,
                "to": segment.stop,
                "records": segment.records,
                "bytes": segment.unpacked_bytes,
            }
            for segment in manifest.segments
        ],
        "gaps": [
            {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            for gap in manifest.gaps
        ],
        "groups": [
            {
                "group": group.group,
                "topic": position.topic,
                "partition": position.partition,
                "old": position.offset,
                "new": None,
                **({"type": "share"} if group in manifest.share_groups else {}),
            }
            for group in manifest.every_group
            for position in group.offsets
        ],
        "open_transactions": [transaction._asdict() for transaction in manifest.open_transactions],
        "groups_ahead": [ahead._asdict() for ahead in manifest.groups_ahead],
        "left_out": left_out_entries(left_out),
    }
