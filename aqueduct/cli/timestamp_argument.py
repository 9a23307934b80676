"""Points in time on the command line."""

import argparse

from aqueduct.common import timestamps


def parse(text: str) -> int:
    """Return milliseconds since 1970; for argparse's `type`."""
    try:
        return timestamps.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write {error}") from None
