"""Durations on the command line: `10s`, `5m`, `1h`."""

import argparse
import re

SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse(text: str) -> int:
    """Seconds; for argparse's `type`."""
    found = re.fullmatch(r"(\d+)([smh])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 10s, 5m or 1h")
    return int(found[1]) * SECONDS[found[2]]
