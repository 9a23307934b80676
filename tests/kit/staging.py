"""Staged files that runs left behind because they were killed, or because another run committed first."""

import re
from collections.abc import Iterable

NUMBERED = re.compile(r"_land/(commits|staged)/(\d{20})")


def overdue(paths: Iterable[str]) -> list[str]:
    """Return the files of a table that were staged for a number that the log has reached."""
    found = [(match[1], int(match[2]), path) for path in paths if (match := NUMBERED.search(path))]
    newest = max(number for kind, number, _ in found if kind == "commits")
    return [path for kind, number, path in found if kind == "staged" and number <= newest]
