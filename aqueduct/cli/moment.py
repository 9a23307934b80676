"""Points in time on the command line: RFC 3339, or milliseconds since 1970."""

import argparse
import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(text: str) -> int:
    """Milliseconds since 1970; for argparse's `type`."""
    if re.fullmatch(r"\d{9,15}", text):  # from 1970 on, but no year
        return int(text)
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text):
        try:
            return (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is no time; write 2026-01-31T18:00:00Z, with its zone, or milliseconds since 1970"
    )
