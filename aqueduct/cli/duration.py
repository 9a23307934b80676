"""Durations on the command line: `10s`, `5m`, `1h`; and hours, of which there may be parts."""

import argparse
import math
import re

SECONDS = {"s": 1, "m": 60, "h": 3600}
LONGEST_HOURS = 10 * 365 * 24


def parse(text: str) -> int:
    """Return seconds; for argparse's `type`."""
    found = re.fullmatch(r"([0-9]{1,9})([smh])", text)
    seconds = int(found[1]) * SECONDS[found[2]] if found else math.inf
    if seconds > LONGEST_HOURS * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a duration; write 10s, 5m or 1h, up to 10 years")
    return int(seconds)


def period(text: str) -> int:
    """Return seconds, one at least; for argparse's `type`."""
    seconds = parse(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a time between runs; write 1s or more")
    return seconds


def hours(text: str) -> float:
    """Parse hours, for argparse's `type`."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found <= LONGEST_HOURS:  # which nothing is that is not a number
        raise argparse.ArgumentTypeError(
            f"{text!r} isn't a number of hours; write one above 0 and up to {LONGEST_HOURS} (10 years)"
        )
    return found
