"""What may be left of what runs staged that were killed, or lost."""

import re
from collections.abc import Iterable

NUMBERED = re.compile(r"_land/(commits|staged)/(\d{20})")


def overdue(paths: Iterable[str]) -> list[str]:
    """Return the files staged below a number that the log has reached, of all files of a table."""
    found = [(match[1], int(match[2]), path) for path in paths if (match := NUMBERED.search(path))]
    newest = max(number for kind, number, _ in found if kind == "commits")
    return [path for kind, number, path in found if kind == "staged" and number <= newest]
