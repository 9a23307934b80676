"""What a landing did, for people and for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from aqueduct.errors import ExitCode, LeftOut, left_out_entries
from aqueduct.land.outcome import (
    LEADERLESS,
    CompactedTable,
    LandedTable,
    Placed,
    ReplayedTable,
    ResetTable,
    TableStatus,
    VerifiedTable,
)
from aqueduct.spans import Spans, size
from aqueduct.wording import count

ERRORS = 10  # that are told to people
NOTHING_CHANGED = "Nothing was changed; --execute does it."


def exit_code(landed: Sequence[LandedTable], *, fail_on_poison: bool) -> ExitCode:
    if any(each.failed for each in landed):
        return ExitCode.FAILED
    if any(each.gaps or each.left_out or (fail_on_poison and each.bad) for each in landed):
        return ExitCode.INCOMPLETE
    return ExitCode.DONE


def text(landed: Sequence[LandedTable], seconds: float) -> str:
    return "\n".join(line for each in landed for line in _lines(each, seconds))


def _size(table: LandedTable | TableStatus) -> str:
    return f"{count(table.rows, 'row')} in {count(table.files, 'file')}, {_megabytes(table.bytes)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _lines(table: LandedTable, seconds: float) -> Iterator[str]:
    said = f"{table.table}: {_size(table)}"
    said += f", {count(table.commits, 'commit')} within {seconds:.1f} s"
    said += f"; {count(table.late, 'late row')}" if table.late else ""
    said += f"; {count(table.bad, 'bad record')}" if table.bad else ""
    said += f"; {count(table.filtered, 'row')} left out by `where`" if table.filtered else ""
    said += f"; {count(table.tombstones, 'tombstone')} left out as declared" if table.tombstones else ""
    yield f"{said}."
    for gap in table.gaps:
        yield f"  Deleted before it was read: {gap.topic_partition}, offsets {gap.start} to {gap.stop - 1}."
    yield from _left_out_lines(table.left_out)
    for each in table.unseen:
        none = f"none of {count(each.records, 'record')} has a value of {each.origin}"
        yield f"  Warning: column {each.column} of {table.table}: {none}."


def report(landed: Sequence[LandedTable]) -> dict[str, Any]:
    return {"tables": [_of(each) for each in landed]}


def _of(table: LandedTable) -> dict[str, Any]:
    gaps = [
        {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
        for gap in table.gaps
    ]
    unseen = [{"column": each.column, "from": each.origin, "records": each.records} for each in table.unseen]
    others = ("gaps", "left_out", "unseen", "failed")
    plain = {name: value for name, value in vars(table).items() if name not in others}
    return {
        **plain,
        "gaps": gaps,
        "left_out": left_out_entries(table.left_out),
        "unseen": unseen,
        "failed": str(table.failed) if table.failed else None,
    }


def status_code(found: Sequence[TableStatus]) -> ExitCode:
    """Return the code; INCOMPLETE also where a lag is unknown, or Hive does not have what has landed."""
    unknown = any(
        table.left_out
        or table.catalogue
        or any(each.end is None and each.why == LEADERLESS for each in table.partitions.values())
        for table in found
    )
    return ExitCode.INCOMPLETE if unknown else ExitCode.DONE


def status_text(found: Sequence[TableStatus]) -> str:
    return "\n".join(line for each in found for line in _status_lines(each))


def _status_lines(table: TableStatus) -> Iterator[str]:
    said = f"{table.table}: {_size(table)}"
    said += "" if table.late is None else f"; {count(table.late, 'late row')}"
    said += "" if table.filtered is None else f"; {count(table.filtered, 'row')} left out by `where`"
    said += f"; {count(table.bad, 'bad record')}; {count(table.commits, 'commit')}"
    last = f", the last one at {table.committed}" if table.committed else ": nothing has landed"
    compacted = f"; compacted last at {table.compacted}" if table.compacted else ""
    yield f"{said}{last}{compacted}."
    for partition, progress in sorted(table.partitions.items()):
        lag = progress.why if progress.end is None else f"lag {max(0, progress.end - progress.landed):,}"
        yield f"  {partition} landed up to offset {progress.landed:,}; {lag}"
    yield from _deleted_lines(table)
    if table.staged:
        dead = f"; {_megabytes(table.dead)} of it by runs that were killed, which land compact removes"
        yield f"  Staged, and not committed: {_megabytes(table.staged)}{dead if table.dead else ''}."
    if table.catalogue is not None:
        yield f"  Hive's catalogue: {table.catalogue or 'it has all of it'}."
    yield from _left_out_lines(table.left_out)


def status_report(found: Sequence[TableStatus]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **{
                    name: value
                    for name, value in vars(each).items()
                    if name not in ("partitions", "deleted", "left_out")
                },
                "left_out": left_out_entries(each.left_out),
                "deleted": _placed(each.deleted),
                "partitions": [
                    {**partition._asdict(), "landed": at.landed, "end": at.end}
                    for partition, at in sorted(each.partitions.items())
                ],
            }
            for each in found
        ]
    }


def _left_out_lines(found: LeftOut) -> Iterator[str]:
    for skipped in found:
        yield f"  Skipped: {skipped}."


def _placed(found: Placed) -> dict[str, Spans]:
    return {str(partition): spans for partition, spans in found.items()}


def verified_code(found: Sequence[VerifiedTable]) -> ExitCode:
    whole = all(each.right and not (each.left_out or each.readers) for each in found)
    return ExitCode.DONE if whole else ExitCode.INCOMPLETE


def verified_text(found: Sequence[VerifiedTable]) -> str:
    return "\n".join(line for each in found for line in _verified_lines(each))


def _verified_lines(table: VerifiedTable) -> Iterator[str]:
    if table.ahead:
        yield f"{table.ahead}."
    if not table.commits:
        yield f"{table.table}: nothing has landed there."
        yield from _left_out_lines(table.left_out)
        return
    where = "in its files" if table.readers else "there"
    verdict = f"every offset that landed is {where} once" if table.right else "NOT as its topics are"
    compared = f"{count(table.rows, 'row')} in {count(table.files, 'file')} were compared"
    yield f"{table.table}: {verdict}; {compared}."
    for what, placed in _differences(table):
        for partition, spans in sorted(placed.items()):
            yield f"  {what}: {partition}, {count(size(spans), 'offset')}: {_named(spans)}"
    for partition, spans in sorted(table.passed.items()):
        yield f"  Passed over by a reset: {partition}, {count(size(spans), 'offset')}: {_named(spans)}"
    yield from _deleted_lines(table)
    for damaged in table.damaged:
        yield f"  Damaged: {damaged}."
    for path in table.strays:
        yield f"  Not of the log: {path}: readers of the folder see it, and no commit added it."
    if table.readers:
        yield f"  Readers may see something else: {table.readers}."
    for skipped in table.left_out:
        yield f"  Not compared: {skipped}."


def _deleted_lines(table: TableStatus | VerifiedTable) -> Iterator[str]:
    for partition, spans in sorted(table.deleted.items()):
        yield f"  Deleted before it was read: {partition}, {count(size(spans), 'offset')}: {_named(spans)}"


def _named(spans: Spans) -> str:
    first = ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in spans[:5])
    return first + (f" and {len(spans) - 5} more ranges" if len(spans) > 5 else "")


def _differences(table: VerifiedTable) -> tuple[tuple[str, Placed], ...]:
    return ("Missing", table.missing), ("Twice or more", table.doubled), ("Not in the topic", table.unknown)


def verified_report(found: Sequence[VerifiedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                "table": each.table,
                "right": each.right,
                "rows": each.rows,
                "files": each.files,
                **{
                    name: _placed(found)
                    for name, found in (
                        ("missing", each.missing),
                        ("doubled", each.doubled),
                        ("unknown", each.unknown),
                        ("passed", each.passed),
                        ("deleted", each.deleted),
                    )
                },
                "ahead": each.ahead,
                "readers": each.readers,
                "damaged": [{"path": damaged.what, "why": damaged.why} for damaged in each.damaged],
                "strays": list(each.strays),
                "left_out": left_out_entries(each.left_out),
            }
            for each in found
        ]
    }


def changed_code(done: Sequence[CompactedTable | ReplayedTable | ResetTable]) -> ExitCode:
    if any(each.failed for each in done):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if any(each.left_out for each in done) else ExitCode.DONE


def compacted_text(done: Sequence[CompactedTable]) -> str:
    return "\n".join(line for each in done for line in _compacted_lines(each))


def _compacted_lines(table: CompactedTable) -> Iterator[str]:
    if not (table.landed or table.failed):
        yield f"{table.table}: nothing has landed there."
        return
    joined = f"{count(table.before, 'file')} became {count(table.after, 'file')}, {table.bytes / 1e6:,.1f} MB"
    said = joined if table.before else "no files were joined" if table.failed else "no small files to join"
    far = f"; {count(table.left, 'file')} with times that can't be read or written here left as they are"
    gone = f"; {count(table.expired, 'file')} that were replaced earlier went" if table.expired else ""
    gone += f"; {_megabytes(table.buried)} went that killed runs had staged" if table.buried else ""
    yield f"{table.table}: {said}{far if table.left else ''}{gone}."
    yield from _left_out_lines(table.left_out)


def compacted_report(done: Sequence[CompactedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **vars(each),
                "left_out": left_out_entries(each.left_out),
                "failed": str(each.failed) if each.failed else None,
            }
            for each in done
        ]
    }


def replayed_text(done: Sequence[ReplayedTable], *, executed: bool) -> str:
    lines = [line for each in done for line in _replayed_lines(each, executed)]
    return "\n".join(lines if executed else [*lines, NOTHING_CHANGED])


def _replayed_lines(table: ReplayedTable, executed: bool) -> Iterator[str]:
    every = table.counts.total()
    if not (table.landed or table.failed):
        yield f"{table.table}: nothing has landed there."
    elif not (every or table.failed or table.left_out):
        yield f"{table.table}: there are no bad records."
    elif every:
        fit = "are rows now" if executed else "would be rows now"
        late = f", {table.late:,} of them late ones" if table.late else ""
        bad = count(every, "bad record")
        yield f"{table.table}: {table.fit:,} of {bad} {fit}{late}; {table.stay:,} stay bad."
    errors = _by_error(table)
    for error, (records, fits) in errors[:ERRORS]:
        yield f"  {fits:,} of {records:,} fit: {error}"
    if len(errors) > ERRORS:
        yield f"  and {len(errors) - ERRORS} more errors"
    yield from _left_out_lines(table.left_out)


def _by_error(table: ReplayedTable) -> list[tuple[str, tuple[int, int]]]:
    """Return of each error how many records had it, and how many of these fit now; the commonest first."""
    counts = table.counts
    every = {error: (counts[error, True] + counts[error, False], counts[error, True]) for error, _ in counts}
    return sorted(every.items(), key=lambda each: (-each[1][0], each[0]))


def replayed_report(done: Sequence[ReplayedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                "table": each.table,
                "fit": each.fit,
                "late": each.late,
                "bad": each.stay,
                "commits": each.commits,
                "errors": [
                    {"error": error, "records": records, "fit": fits}
                    for error, (records, fits) in _by_error(each)
                ],
                "left_out": left_out_entries(each.left_out),
                "failed": str(each.failed) if each.failed else None,
            }
            for each in done
        ]
    }


def reset_text(done: Sequence[ResetTable], *, executed: bool) -> str:
    lines = [line for each in done for line in _reset_lines(each)]
    return "\n".join(lines if executed else [*lines, NOTHING_CHANGED])


def _reset_lines(table: ResetTable) -> Iterator[str]:
    if not table.failed:
        go = f"{count(table.rows, 'row')} and {count(table.bad, 'bad record')}"
        go += f", and {count(table.filtered, 'row')} left out by `where`" if table.filtered else ""
        yield f"{table.table}: {go} {'went' if table.done else 'go'}, out of {count(table.files, 'file')}."
    for partition, move in sorted(() if table.failed and not table.done else table.moves.items()):
        next_ = "before offset {:,} was next" if table.done else "now offset {:,} is next"
        instead = "nothing of it has landed" if move.before is None else f"where {next_.format(move.before)}"
        skipped = f"; offsets {move.never[0]:,} to {move.never[1]:,} never land" if move.never else ""
        yield f"  {partition} lands on from offset {move.to:,}, {instead}{skipped}"
    yield from _left_out_lines(table.left_out)


def reset_report(done: Sequence[ResetTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **{name: value for name, value in vars(each).items() if name not in ("moves", "left_out")},
                "moves": [
                    {**partition._asdict(), "before": move.before, "to": move.to}
                    for partition, move in sorted(each.moves.items())
                ],
                "left_out": left_out_entries(each.left_out),
                "failed": str(each.failed) if each.failed else None,
            }
            for each in done
        ]
    }
