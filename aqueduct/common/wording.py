"""Formats of lists, counts, names and texts of other programs in messages."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

COLUMNS = 120  # width of reports
NAME_COLUMNS = 56  # width of a topic in a table; names can have 249 characters
DOTS = "..."


def some(names: Iterable[object], limit: int = 5) -> str:
    """List names as `a, b, c`; if there are more than `limit`, as `a, b, c, d, e and 7 more`."""
    every = [str(name) for name in names]
    more = f" and {len(every) - limit:,} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def place(path: str, line: int | None = None) -> str:
    """Return `path:line`, or the path; relative to the working directory if the file is below it."""
    here, file = Path.cwd(), Path(path)
    shown = str(file.relative_to(here)) if file.is_relative_to(here) else path
    return f"{shown}:{line}" if line else shown


def count(number: int, noun: str) -> str:
    """Format a count with its noun: `1 partition`, `3,000 partitions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(name: str, columns: int = NAME_COLUMNS) -> str:
    """Return the name; if it has more than `columns` characters, its beginning and end with dots between."""
    if len(name) <= columns:
        return name
    end = (columns - len(DOTS)) // 2
    return name[: columns - len(DOTS) - end] + DOTS + name[-end:]


def shown(name: object) -> str:
    """Return a name with escapes instead of control characters, for one line of a terminal.

    Characters that are not printable, and bytes that are not UTF-8, become Python's escapes, such as `\\n` or
    `\\x1b`. A backslash becomes two.
    """
    return "".join(
        letter if letter.isprintable() and letter != "\\" else _escaped(letter) for letter in str(name)
    )


def printable(text: str) -> str:
    """Return the text of another host with escapes instead of control characters, except lines and tabs."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else _escaped(letter) for letter in text
    )


class PrintableStream:
    """A text stream that escapes control characters (`printable`): a name cannot control the terminal."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def write_controls(text: str) -> None:
    """Write to stderr without escapes, for progress bars. The text must contain nothing from other hosts."""
    stream = sys.stderr.raw if isinstance(sys.stderr, PrintableStream) else sys.stderr
    print(text, end="", file=stream, flush=True)


def _escaped(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # an invalid byte, decoded with surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return letter.encode("unicode_escape").decode()
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
