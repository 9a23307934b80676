"""What a landing did, for people and for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from aqueduct.common.offset_sets import Spans, size
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, LeftOut, left_out_entries
from aqueduct.land.outcome import (
    CompactedTable,
    LandedTable,
    Placed,
    ReplayedTable,
    ResetTable,
    TableStatus,
    VerifiedTable,
)

ERRORS = 10  # that are told to people
UNOPENED = 10  # batches, as well
NOTHING_CHANGED = "Nothing was changed. To change the table, pass --execute."


def exit_code(landed: Sequence[LandedTable], *, fail_on_poison: bool) -> ExitCode:
    if any(table.failed for table in landed):
        return ExitCode.FAILED
    skipped = any(table.gaps or table.unopened or table.left_out for table in landed)
    if skipped or (fail_on_poison and any(table.bad for table in landed)):
        return ExitCode.INCOMPLETE
    return ExitCode.DONE


def text(landed: Sequence[LandedTable], seconds: float) -> str:
    return "\n".join(line for table in landed for line in _lines(table, seconds))


def _size(table: LandedTable | TableStatus) -> str:
    return f"{count(table.rows, 'row')} in {count(table.files, 'file')}, {_megabytes(table.bytes)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _lines(table: LandedTable, seconds: float) -> Iterator[str]:
    line = f"{table.table}: {_size(table)}"
    line += f", {count(table.commits, 'commit')} within {seconds:.1f} s"
    line += f"; {count(table.late, 'late row')}" if table.late else ""
    line += f"; {count(table.bad, 'rejected record')}" if table.bad else ""
    line += f"; {count(table.filtered, 'row')} excluded by `where`" if table.filtered else ""
    line += f"; {count(table.tombstones, 'tombstone')} skipped as declared" if table.tombstones else ""
    yield f"{line}."
    for gap in table.gaps:
        yield (
            f"  Deleted in Kafka before the landing read it: {gap.topic_partition}, offsets {gap.start} "
            f"to {gap.stop - 1}."
        )
    for skipped in table.unopened[:UNOPENED]:
        yield f"  Skipped: {skipped}."
    if (more := len(table.unopened) - UNOPENED) > 0:
        yield (
            f"  and {count(more, 'more skipped range')} of such batches; aqueduct land status lists all "
            "ranges"
        )
    yield from _left_out_lines(table.left_out)
    for unseen in table.unseen:
        none = f"none of {count(unseen.records, 'record')} contains a value for {unseen.origin}"
        yield f"  Warning: column {unseen.column} of {table.table}: {none}."


def report(landed: Sequence[LandedTable]) -> dict[str, Any]:
    return {"tables": [_of(table) for table in landed]}


def _of(table: LandedTable) -> dict[str, Any]:
    gaps = [
        {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
        for gap in table.gaps
    ]
    unopened = [
        {
            "id": skipped.id,
            "topic": skipped.range.topic,
            "partition": skipped.range.partition,
            "from": skipped.range.start,
            "to": skipped.range.stop,
            "why": skipped.why,
        }
        for skipped in table.unopened
    ]
    unseen = [
        {"column": column.column, "from": column.origin, "records": column.records} for column in table.unseen
    ]
    others = ("gaps", "unopened", "left_out", "unseen", "failed")
    plain = {name: value for name, value in vars(table).items() if name not in others}
    return {
        **plain,
        "gaps": gaps,
        "unopened": unopened,
        "left_out": left_out_entries(table.left_out),
        "unseen": unseen,
        "failed": str(table.failed) if table.failed else None,
        "failed_id": table.failed.id if table.failed else None,
    }


def status_code(tables: Sequence[TableStatus]) -> ExitCode:
    """Return the code; INCOMPLETE also where a lag is unknown, or Hive does not have what has landed."""
    unknown = any(
        table.left_out
        or table.catalogue
        or any(partition.lag is None for partition in table.partitions.values())
        for table in tables
    )
    return ExitCode.INCOMPLETE if unknown else ExitCode.DONE


def status_text(tables: Sequence[TableStatus]) -> str:
    return "\n".join(line for table in tables for line in _status_lines(table))


def _status_lines(table: TableStatus) -> Iterator[str]:
    line = f"{table.table}: {_size(table)}"
    line += "" if table.late is None else f"; {count(table.late, 'late row')}"
    line += "" if table.filtered is None else f"; {count(table.filtered, 'row')} excluded by `where`"
    line += f"; {count(table.bad, 'rejected record')}; {count(table.commits, 'commit')}"
    last = f", last commit at {table.committed}" if table.committed else ": nothing has landed"
    compacted = f"; last compaction at {table.compacted}" if table.compacted else ""
    yield f"{line}{last}{compacted}."
    for partition, progress in sorted(table.partitions.items()):
        landed = f"position {progress.landed:,}" if progress.has_begun else ("nothing has landed yet")
        lag = "lag unknown" if progress.lag is None else f"lag {progress.lag:,}"
        yield f"  {partition}: {landed}; {lag}"
    for partition, landed_offset in sorted(table.undeclared.items()):
        yield (
            f"  {partition}: position {landed_offset:,}; the declaration of the table no longer contains "
            "this topic"
        )
    yield from _never_landed_lines(table)
    if table.staged:
        dead = f"; {_megabytes(table.dead)} of this is from killed runs, and aqueduct land compact removes it"
        yield f"  Uncommitted files of runs: {_megabytes(table.staged)}{dead if table.dead else ''}."
    if table.catalogue is not None:
        yield f"  Hive metastore: {table.catalogue or 'complete'}."
    yield from _left_out_lines(table.left_out)


def status_report(tables: Sequence[TableStatus]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **{
                    name: value
                    for name, value in vars(table).items()
                    if name not in ("partitions", "undeclared", "deleted", "unopened", "left_out")
                },
                "left_out": left_out_entries(table.left_out),
                "deleted": _placed(table.deleted),
                "unopened": _placed(table.unopened),
                "partitions": [
                    {**partition._asdict(), "landed": progress.landed, "end": progress.end}
                    for partition, progress in sorted(table.partitions.items())
                ],
                "undeclared": [
                    {**partition._asdict(), "landed": landed}
                    for partition, landed in sorted(table.undeclared.items())
                ],
            }
            for table in tables
        ]
    }


def _left_out_lines(left_out: LeftOut) -> Iterator[str]:
    for skipped in left_out:
        yield f"  Skipped: {skipped}."


def _placed(placed: Placed) -> dict[str, Spans]:
    return {str(partition): spans for partition, spans in placed.items()}


def verified_code(tables: Sequence[VerifiedTable]) -> ExitCode:
    whole = all(table.right and not (table.left_out or table.readers) for table in tables)
    return ExitCode.DONE if whole else ExitCode.INCOMPLETE


def verified_text(tables: Sequence[VerifiedTable]) -> str:
    return "\n".join(line for table in tables for line in _verified_lines(table))


def _verified_lines(table: VerifiedTable) -> Iterator[str]:
    if table.ahead:
        yield f"{table.ahead}."
    if not table.commits:
        yield f"{table.table}: nothing has landed."
        yield from _left_out_lines(table.left_out)
        return
    where = "in its files" if table.readers else "there"
    verdict = (
        f"every landed offset exists {where} exactly once"
        if table.right
        else ("the table does NOT match its topics")
    )
    compared = f"compared {count(table.rows, 'row')} in {count(table.files, 'file')}"
    yield f"{table.table}: {verdict}; {compared}."
    for difference, placed in _differences(table):
        for partition, spans in sorted(placed.items()):
            yield f"  {difference}: {partition}, {count(size(spans), 'offset')}: {_named(spans)}"
    for partition, spans in sorted(table.passed.items()):
        yield f"  Skipped by a reset: {partition}, {count(size(spans), 'offset')}: {_named(spans)}"
    yield from _never_landed_lines(table)
    for damaged in table.damaged:
        yield f"  Damaged: {damaged}."
    for path in table.strays:
        yield f"  Unknown file: {path}: no commit added this file, but programs that read the folder see it."
    if table.readers:
        yield f"  Readers may see other rows: {table.readers}."
    for skipped in table.left_out:
        yield f"  Not compared: {skipped}."


def _never_landed_lines(table: TableStatus | VerifiedTable) -> Iterator[str]:
    for partition, spans in sorted(table.deleted.items()):
        yield (
            f"  Deleted in Kafka before the landing read it: {partition}, "
            f"{count(size(spans), 'offset')}: {_named(spans)}"
        )
    for partition, spans in sorted(table.unopened.items()):
        offsets = f"{count(size(spans), 'offset')}: {_named(spans)}"
        yield f"  Skipped, because the batches are too large after decompression: {partition}, {offsets}"


def _named(spans: Spans) -> str:
    first = ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in spans[:5])
    return first + (f" and {len(spans) - 5} more ranges" if len(spans) > 5 else "")


def _differences(table: VerifiedTable) -> tuple[tuple[str, Placed], ...]:
    return ("Missing", table.missing), ("Twice or more", table.doubled), ("Not in the topic", table.unknown)


def verified_report(tables: Sequence[VerifiedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                "table": table.table,
                "right": table.right,
                "rows": table.rows,
                "files": table.files,
                **{
                    name: _placed(placed)
                    for name, placed in (
                        ("missing", table.missing),
                        ("doubled", table.doubled),
                        ("unknown", table.unknown),
                        ("passed", table.passed),
                        ("deleted", table.deleted),
                        ("unopened", table.unopened),
                    )
                },
                "ahead": table.ahead,
                "readers": table.readers,
                "damaged": [
                    {"id": damaged.id, "path": damaged.what, "why": damaged.why} for damaged in table.damaged
                ],
                "strays": list(table.strays),
                "left_out": left_out_entries(table.left_out),
            }
            for table in tables
        ]
    }


def changed_code(tables: Sequence[CompactedTable | ReplayedTable | ResetTable]) -> ExitCode:
    if any(table.failed for table in tables):
        return ExitCode.FAILED
    return ExitCode.INCOMPLETE if any(table.left_out for table in tables) else ExitCode.DONE


def compacted_text(tables: Sequence[CompactedTable]) -> str:
    return "\n".join(line for table in tables for line in _compacted_lines(table))


def _compacted_lines(table: CompactedTable) -> Iterator[str]:
    if not (table.landed or table.failed):
        yield f"{table.table}: nothing has landed."
        return
    joined = f"{count(table.before, 'file')} became {count(table.after, 'file')}, {table.bytes / 1e6:,.1f} MB"
    outcome = joined if table.before else "no files were joined" if table.failed else "no small files to join"
    far = f"; {count(table.left, 'file')} with times that Aqueduct cannot read or write were not changed"
    gone = f"; removed {count(table.expired, 'file')} that had been replaced earlier" if table.expired else ""
    gone += (
        (f"; removed {_megabytes(table.buried)} of uncommitted files of killed runs") if table.buried else ""
    )
    yield f"{table.table}: {outcome}{far if table.left else ''}{gone}."
    yield from _left_out_lines(table.left_out)


def compacted_report(tables: Sequence[CompactedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **vars(table),
                "left_out": left_out_entries(table.left_out),
                "failed": str(table.failed) if table.failed else None,
                "failed_id": table.failed.id if table.failed else None,
            }
            for table in tables
        ]
    }


def replayed_text(tables: Sequence[ReplayedTable], *, executed: bool) -> str:
    lines = [line for table in tables for line in _replayed_lines(table, executed)]
    return "\n".join(lines if executed else [*lines, NOTHING_CHANGED])


def _replayed_lines(table: ReplayedTable, executed: bool) -> Iterator[str]:
    every = table.counts.total()
    if not (table.landed or table.failed):
        yield f"{table.table}: nothing has landed."
    elif not (every or table.failed or table.left_out):
        yield f"{table.table}: the table has no rejected records."
    elif every:
        fit = "are rows now" if executed else "would be rows now"
        late = f", {table.late:,} of them late rows" if table.late else ""
        bad = count(every, "rejected record")
        yield f"{table.table}: {table.fit:,} of {bad} {fit}{late}; {table.stay:,} remain rejected records."
    errors = _by_error(table)
    for error, (records, fits) in errors[:ERRORS]:
        yield f"  {fits:,} of {records:,} records with this error now match: {error}"
    if len(errors) > ERRORS:
        yield f"  and {len(errors) - ERRORS} more errors"
    yield from _left_out_lines(table.left_out)


def _by_error(table: ReplayedTable) -> list[tuple[str, tuple[int, int]]]:
    """Return of each error how many records had it, and how many of these fit now; the commonest first."""
    counts = table.counts
    every = {error: (counts[error, True] + counts[error, False], counts[error, True]) for error, _ in counts}
    return sorted(every.items(), key=lambda error_counts: (-error_counts[1][0], error_counts[0]))


def replayed_report(tables: Sequence[ReplayedTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                "table": table.table,
                "fit": table.fit,
                "late": table.late,
                "bad": table.stay,
                "commits": table.commits,
                "errors": [
                    {"error": error, "records": records, "fit": fits}
                    for error, (records, fits) in _by_error(table)
                ],
                "left_out": left_out_entries(table.left_out),
                "failed": str(table.failed) if table.failed else None,
                "failed_id": table.failed.id if table.failed else None,
            }
            for table in tables
        ]
    }


def reset_text(tables: Sequence[ResetTable], *, executed: bool) -> str:
    lines = [line for table in tables for line in _reset_lines(table)]
    return "\n".join(lines if executed else [*lines, NOTHING_CHANGED])


def _reset_lines(table: ResetTable) -> Iterator[str]:
    if not table.failed:
        go = f"{count(table.rows, 'row')} and {count(table.bad, 'rejected record')}"
        go += f", and {count(table.filtered, 'row')} excluded by `where`" if table.filtered else ""
        yield (
            f"{table.table}: {go} {'were removed' if table.done else 'would be removed'} from "
            f"{count(table.files, 'file')}."
        )
    for partition, move in sorted(() if table.failed and not table.done else table.moves.items()):
        verb, when = ("was", "before") if table.done else ("would be", "now")
        before = "none" if move.before is None else f"{move.before:,}"
        skipped = f"; offsets {move.never[0]:,} to {move.never[1]:,} will not land" if move.never else ""
        yield f"  {partition}: the position {verb} set to {move.to:,} ({when}: {before}){skipped}"
    yield from _left_out_lines(table.left_out)


def reset_report(tables: Sequence[ResetTable]) -> dict[str, Any]:
    return {
        "tables": [
            {
                **{name: value for name, value in vars(table).items() if name not in ("moves", "left_out")},
                "moves": [
                    {**partition._asdict(), "before": move.before, "to": move.to}
                    for partition, move in sorted(table.moves.items())
                ],
                "left_out": left_out_entries(table.left_out),
                "failed": str(table.failed) if table.failed else None,
                "failed_id": table.failed.id if table.failed else None,
            }
            for table in tables
        ]
    }
