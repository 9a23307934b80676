"""Durations on the command line; and hours, of which there may be parts."""

import argparse
import math

from aqueduct.common import durations

LONGEST_HOURS = durations.LONGEST_DAYS * 24


def parse(text: str) -> int:
    """Return seconds; for argparse's `type`."""
    try:
        return durations.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write {error}") from None


def period(text: str) -> int:
    """Return seconds, one at least; for argparse's `type`."""
    seconds = parse(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is too short; write 1s or more")
    return seconds


def hours(text: str) -> float:
    """Parse hours, for argparse's `type`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= LONGEST_HOURS:  # which nothing is that is not a number
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of hours; write a number above 0 and up to {LONGEST_HOURS} (10 years)"
        )
    return number
