"""Points in time on the command line."""

import argparse

from aqueduct import moments


def parse(text: str) -> int:
    """Return milliseconds since 1970; for argparse's `type`."""
    try:
        return moments.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a time; write {error}") from None
