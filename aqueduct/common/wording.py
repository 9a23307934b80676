"""Sentences about many things: name a few, count the rest."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

COLUMNS = 120  # of a page
NAME_COLUMNS = 56  # of a topic in a table: it may have 249 letters
DOTS = "..."


def some(names: Iterable[object], limit: int = 5) -> str:
    """Name `a, b, c`; beyond `limit` names: `a, b, c, d, e and 7 more`."""
    every = [str(name) for name in names]
    more = f" and {len(every) - limit:,} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def place(path: str, line: int | None = None) -> str:
    """Name a line of a file, or the file, as seen from the working directory where it is below that."""
    here, file = Path.cwd(), Path(path)
    shown = str(file.relative_to(here)) if file.is_relative_to(here) else path
    return f"{shown}:{line}" if line else shown


def count(number: int, noun: str) -> str:
    """Write a count: `1 partition`, `3,000 partitions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(name: str, columns: int = NAME_COLUMNS) -> str:
    """Return the name, or as much of its beginning and end as there is room for."""
    if len(name) <= columns:
        return name
    end = (columns - len(DOTS)) // 2
    return name[: columns - len(DOTS) - end] + DOTS + name[-end:]


def shown(name: object) -> str:
    """Write a file's name so that it is one line and sets no terminal, whatever bytes it has.

    What can't be printed is as Python writes it, `\\n` or `\\x1b`; bytes that are not UTF-8, too; a
    backslash is two.
    """
    return "".join(
        letter if letter.isprintable() and letter != "\\" else _escaped(letter) for letter in str(name)
    )


def printable(text: str) -> str:
    """Write text that another host sent so that it sets no terminal; its lines and tabs stay as they are."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else _escaped(letter) for letter in text
    )


class PrintableStream:
    """A text stream that writes `printable` text to another: names that others chose set no terminal."""

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
    """Write to stderr with the control characters of a progress bar. Nothing that others wrote is in it."""
    stream = sys.stderr.raw if isinstance(sys.stderr, PrintableStream) else sys.stderr
    print(text, end="", file=stream, flush=True)


def _escaped(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte, by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return letter.encode("unicode_escape").decode()
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
