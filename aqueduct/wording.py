"""Sentences about many things: name a few, count the rest."""

from collections.abc import Iterable

COLUMNS = 120  # of a page
NAME_COLUMNS = 56  # of a topic in a table: it may have 249 letters
DOTS = "..."


def some(names: Iterable[object], limit: int = 5) -> str:
    """Name `a, b, c`; beyond `limit` names: `a, b, c, d, e and 7 more`."""
    every = [str(name) for name in names]
    more = f" and {len(every) - limit:,} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def count(number: int, noun: str) -> str:
    """Write a count: `1 partition`, `3,000 partitions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(name: str, columns: int = NAME_COLUMNS) -> str:
    """Return the name, or as much of its beginning and end as there is room for."""
    if len(name) <= columns:
        return name
    end = (columns - len(DOTS)) // 2
    return name[: columns - len(DOTS) - end] + DOTS + name[-end:]
