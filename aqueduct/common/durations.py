"""Durations as users write them: `10s`, `5m`, `1h`, `7d`."""

import re

FORMS = "10s, 5m, 1h or 7d, up to 10 years"
LONGEST_DAYS = 10 * 365
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse(text: str) -> int:
    """Return a duration in seconds; ValueError with the accepted forms as its text."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else -1
    if not 0 <= seconds <= LONGEST_DAYS * _SECONDS["d"]:
        raise ValueError(FORMS)
    return seconds
