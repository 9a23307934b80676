"""Counts of dead-letter records, and single ones, as text and as JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened
from aqueduct.errors import left_out_entries

if TYPE_CHECKING:
    from aqueduct.connect.letter_reading import CutBytes, LetterCensus, ShownLetter

UNNAMED = "(none)"


def table(census: "LetterCensus") -> str:
    rows = [("dead-letter topic", "records", "sent back", "connector", "topic", "cause", "oldest")]
    rows += [
        (
            shortened(counted.dead_letters),
            f"{counted.records:,}",
            "unknown" if counted.replayed is None else f"{counted.replayed:,}",
            counted.origin.connector or UNNAMED,
            shortened(counted.origin.topic) or UNNAMED,
            counted.origin.error_class.rpartition(".")[2] or UNNAMED,
            _time(counted.oldest) or UNNAMED,
        )
        for counted in sorted(census.counts, key=lambda counted: -counted.records)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    if census.counts:
        lines = [
            "  ".join(
                f"{cell:>{width}}" if column in (1, 2) else f"{cell:<{width}}"
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
    total = sum(counted.records for counted in census.counts)
    lines.append(f"{count(total, 'dead-letter record')} in {count(len(census.topics), 'topic')}.")
    if census.unread:
        lines.append(f"{count(census.unread, 'older offset')} not read.")
    return "\n".join(lines)


def document(census: "LetterCensus") -> dict[str, Any]:
    return {
        "topics": census.topics,
        "causes": [
            {
                "dlq": counted.dead_letters,
                **{name: part or None for name, part in counted.origin._asdict().items()},
                "records": counted.records,
                "sent_back": counted.replayed,
                "oldest": _time(counted.oldest),
                "newest": _time(counted.newest),
            }
            for counted in sorted(census.counts, key=lambda counted: (counted.dead_letters, -counted.records))
        ],
        "older_offsets_not_read": census.unread,
        "older_offsets_not_read_by_topic": census.unread_by_topic,
        "unknown": left_out_entries(census.unknown),
    }


def letters_document(census: "LetterCensus", *, with_values: bool) -> dict[str, Any]:
    return {
        "letters": [
            {
                "dlq": letter.topic,
                "partition": letter.partition,
                "offset": letter.offset,
                "time": _time(letter.timestamp),
                "sent_back": letter.is_replayed,
                "key": _field(letter.key),
                **({"value": _field(letter.value)} if with_values else {}),
                "headers": [
                    {"name": _text(name), "value": _field(content)} for name, content in letter.headers
                ],
            }
            for letter in census.letters
        ],
        "matching": sum(counted.records for counted in census.counts),
        "older_offsets_not_read": census.unread,
        "unknown": left_out_entries(census.unknown),
    }


def letters_text(census: "LetterCensus", *, with_values: bool) -> str:
    lines = [
        line for letter in census.letters for line in (*_letter_lines(letter, with_values=with_values), "")
    ]
    total = sum(counted.records for counted in census.counts)
    lines.append(f"{count(len(census.letters), 'dead-letter record')} of {total:,}, the newest first.")
    if census.unread:
        lines.append(f"{count(census.unread, 'older offset')} not read.")
    return "\n".join(lines)


def _letter_lines(letter: "ShownLetter", *, with_values: bool) -> Iterator[str]:
    sent = {True: ", sent back", False: "", None: ", unknown whether it was sent back"}[letter.is_replayed]
    time = _time(letter.timestamp) or "without time"
    yield f"{letter.topic}-{letter.partition}, offset {letter.offset}, {time}{sent}"
    yield f"    key: {_shown(letter.key)}"
    if with_values:
        yield f"    value: {_shown(letter.value)}"
    for name, content in letter.headers:
        yield f"    {_line(_text(name))}: {_shown(content)}"


def _shown(field: "CutBytes") -> str:
    if field.content is None:
        return "null"
    more = f"... ({field.size:,} bytes)" if field.size > len(field.content) else ""
    return f"{_line(_text(field.content))}{more}"


def _line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _field(field: "CutBytes") -> dict[str, Any]:
    return {"text": None if field.content is None else _text(field.content), "bytes": field.size}


def _text(content: bytes) -> str:
    """Return bytes as text. Bytes that are not UTF-8 become `\\xff`."""
    return content.decode(errors="backslashreplace")


def _time(milliseconds: int) -> str | None:
    try:
        return timestamps.text(milliseconds) if milliseconds >= 0 else None
    except (OverflowError, ValueError, OSError):  # beyond what a calendar has
        return None
