"""Points in time as users write them: RFC 3339, or milliseconds since 1970.

Milliseconds must have 12 or 13 digits (the years 1973 to 2286), so that seconds, which have 9 or 10 digits,
are not confused with them.
"""

import re
import time
from datetime import UTC, datetime, timedelta

FORMS = "2026-01-31T18:00:00Z (with a time zone), or 12 or 13 digits (milliseconds since 1970)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(text: str) -> int:
    """Parse a time to milliseconds since 1970; ValueError with the accepted forms as its text."""
    if re.fullmatch(r"\d{12,13}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text, re.ASCII):
        try:
            return (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            pass
    seconds = re.fullmatch(r"\d{9,10}", text, re.ASCII)
    raise ValueError(FORMS + (f"; if it is in seconds, write {text}000" if seconds else ""))


def now() -> int:
    """Return the present time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def text(milliseconds: int) -> str:
    """Format a time in milliseconds since 1970 as in RFC 3339.

    A time outside the years 1 to 9999, which a record may have, is returned as a number.
    """
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError):
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
