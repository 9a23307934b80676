"""The words about a reconciliation: sentences, a table, and the report's JSON."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from aqueduct.common.wording import COLUMNS, count, shortened, some
from aqueduct.errors import ExitCode, LeftOut, Skipped, labelled, left_out_entries
from aqueduct.mirror.reconcile.flow import ComparedFlow
from aqueduct.mirror.reconcile.stored import ComparedEnd, StoredEnd, address
from aqueduct.mirror.reconcile.verdict import Verdict

ROWS = 50  # a person is shown so many lanes, of more only unequal ones; the report has all
END_COLUMNS = 22  # of addresses in the table
NAMES_COLUMNS = COLUMNS - 54  # ... and of all names in it; the rest is for numbers


def text(flow: ComparedFlow, verdicts: Sequence[Verdict], unmatched: LeftOut = ()) -> str:
    """Write a person's page: a table, a sentence on whatever is unequal, and a summary.

    `unmatched`: names, and parts of the pattern, of which nothing was compared.
    """
    shown = [verdict for verdict in verdicts if len(verdicts) <= ROWS or not verdict.equal][:ROWS]
    table = [*_table(flow, shown), ""] if shown else []
    unequal = [labelled(skipped.id, skipped.why) for skipped in sentences(flow, verdicts)]
    if len(unequal) > ROWS:
        unequal[ROWS:] = [
            (f"... and {len(unequal) - ROWS} more differences. The file of --report lists all of them.")
        ]
    idle = [labelled(skipped.id, skipped.why) for skipped in _without_header(flow, verdicts)]
    idle += map(str, unmatched)
    return "\n".join([*table, *unequal, *idle, *_notes(verdicts), _summary(verdicts)])


def _without_header(flow: ComparedFlow, verdicts: Sequence[Verdict]) -> Iterator[Skipped]:
    """Yield that no record carries the header, though the sources have some: then nothing was compared."""
    sources = [part for verdict in verdicts for part in verdict.lane.ranges[1:] if part]
    compared = any(reading.records for verdict in verdicts for reading in verdict.readings)
    if flow.header and any(map(len, sources)) and not compared:
        header = f"{flow.header[0]}={flow.header[1].decode(errors='replace')}"
        reason = (
            f"No record at the source or the target has the header {header}, so no record was compared. "
            "Check --header."
        )
        yield Skipped(f"header {header}", reason, "header-matches-nothing")


def exit_code(flow: ComparedFlow, verdicts: Sequence[Verdict], unmatched: LeftOut = ()) -> ExitCode:
    skipped = (*sentences(flow, verdicts), *_without_header(flow, verdicts), *unmatched)
    return ExitCode.INCOMPLETE if skipped else ExitCode.DONE


def sentences(flow: ComparedFlow, verdicts: Iterable[Verdict]) -> Iterator[Skipped]:
    """Yield each absent topic and unequal lane, with a sentence about it."""
    for topic, group in groupby(verdicts, key=lambda verdict: verdict.lane.topic):
        lanes = list(group)
        if all(verdict.absent for verdict in lanes):
            records = _are(sum(map(_records_in, lanes)), f" of the {flow.sources[0].role}")
            yield Skipped(
                topic,
                f"{topic}: this topic does not exist at the {flow.target.role}; {records} missing.",
                "compared-topic-missing",
            )
        else:
            for verdict in lanes:
                if verdict.unreadable:
                    reason = f"{verdict.lane} was NOT compared, because {verdict.unreadable}."
                    yield Skipped(str(verdict.lane), reason, "compared-batch-unreadable")
                elif not verdict.equal:
                    yield Skipped(
                        str(verdict.lane), f"{verdict.lane}: {_difference(flow, verdict)}.", "records-differ"
                    )


def _notes(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a sentence for each thing that the comparison left out, with the reason."""
    untimed = dict.fromkeys(verdict.lane.topic for verdict in verdicts if not verdict.timed)
    if untimed:
        yield (
            f"Timestamps were not compared in {some(untimed)}, because the brokers of the target set "
            "them (LogAppendTime)."
        )
    if not all(verdict.ordered for verdict in verdicts):
        yield "The target merges several sources. The order of records was checked only within each source."


def _table(flow: ComparedFlow, verdicts: Sequence[Verdict]) -> Iterator[str]:
    ends = "+".join(map(_address, flow.sources)), _address(flow.target)
    sources, target = (shortened(end, END_COLUMNS) for end in ends)
    room = NAMES_COLUMNS - len(sources) - len(target)
    rows: list[tuple[str, ...]] = [
        ("source", "target", "topic", "partition", "records in", "records out", "equal")
    ]
    for verdict in verdicts:
        rows.append(
            (
                *(sources, target, shortened(verdict.lane.topic, room), str(verdict.lane.partition)),
                *(f"{_records_in(verdict):,}", f"{_records_out(verdict):,}"),
                "?" if verdict.unreadable else "yes" if verdict.equal else "NO",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)]
        others = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        yield "  ".join(names + others)


def _summary(verdicts: Sequence[Verdict]) -> str:
    unread = sum(bool(verdict.unreadable) for verdict in verdicts)
    unequal = sum(not verdict.equal for verdict in verdicts) - unread
    read_in, read_out = sum(map(_records_in, verdicts)), sum(map(_records_out, verdicts))
    records = f"{read_in:,} records in, {read_out:,} records out"
    skipped = f", {unread} not compared" if unread else ""
    return f"{count(len(verdicts), 'partition')}, {unequal or 'none'} unequal{skipped}; {records}."


def report(flow: ComparedFlow, verdicts: Sequence[Verdict], unmatched: LeftOut = ()) -> dict[str, Any]:
    """Return the report.

    `from` and `to`, exclusive, are the offsets that were read; `ranges`, inclusive, those of records that the
    other end lacks, of which there may be more than are named.
    """
    return {
        "target": address(flow.target),
        "sources": [address(source) for source in flow.sources],
        "order": "partition" if all(verdict.ordered for verdict in verdicts) else "source",
        "header": flow.header and f"{flow.header[0]}={flow.header[1].decode()}",
        "partitions": [_partition(flow, verdict) for verdict in verdicts],
        "left_out": left_out_entries(
            (*sentences(flow, verdicts), *_without_header(flow, verdicts), *unmatched)
        ),
    }


def _partition(flow: ComparedFlow, verdict: Verdict) -> dict[str, Any]:
    target, *sources = (_end(verdict, number) for number in range(len(flow.ends)))
    order = verdict.difference and verdict.difference.out_of_order
    return {
        "topic": verdict.lane.topic,
        "partition": verdict.lane.partition,
        "equal": None if verdict.unreadable else verdict.equal,
        "timestamps": verdict.timed,
        "source_records": _records_in(verdict),
        "target_records": _records_out(verdict),
        "target": target,
        "sources": sources,
        "out_of_order": order and {"source": address(flow.ends[order[0]]), "offset": order[1]},
    }


def _end(verdict: Verdict, number: int) -> dict[str, Any] | None:
    read = verdict.lane.ranges[number]
    if read is None:
        return None
    lacking = verdict.unmatched(number)
    return {
        "topic": read.topic,
        "from": read.start,
        "to": read.stop,
        "records": verdict.readings[number].records,
        "missing" if number else "extra": {"records": lacking.records, "ranges": lacking.spans},
    }


def _difference(flow: ComparedFlow, verdict: Verdict) -> str:
    """Say what is wrong with an unequal lane, to follow its name."""
    if verdict.absent:
        return (
            f"this partition does not exist at the {flow.target.role}; {_are(_records_in(verdict))} missing"
        )
    if order := verdict.difference and verdict.difference.out_of_order:
        number, offset = order
        return f"the same records in another order, first at {_role(flow, number)} offset {offset}"
    parts = []
    for number in (*range(1, len(flow.ends)), 0):
        lacking = verdict.unmatched(number)
        if lacking.records:
            other = flow.target.role if number else flow.sources[0].role
            role = _role(flow, number)
            records = _are(lacking.records, f" of the {role}")
            parts.append(f"{records} not in the {other}, first at {role} offset {lacking.spans[0][0]}")
    return ", and ".join(parts) or (
        "different at the first reading, but equal at the second reading; retention may have deleted records"
    )


def _are(records: int, which: str = "") -> str:
    return f"{count(records, 'record')}{which} {'is' if records == 1 else 'are'}"


def _role(flow: ComparedFlow, number: int) -> str:
    """Name an end, by its address only where there are several of its kind."""
    return str(flow.ends[number]) if number and len(flow.sources) > 1 else flow.ends[number].role


def _address(end: ComparedEnd) -> str:
    if isinstance(end, StoredEnd):
        return f"snapshot {end.snapshot}"
    first, *others = end.bootstrap_servers.split(",")
    return f"{first},..." if others else first


def _records_in(verdict: Verdict) -> int:
    return sum(reading.records for reading in verdict.readings[1:])


def _records_out(verdict: Verdict) -> int:
    return verdict.readings[0].records
