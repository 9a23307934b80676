"""Options that say which topics and groups are meant, and what they are reached by."""

import argparse
import re


def names(text: str) -> tuple[str, ...]:
    """`a,b`; for argparse's `type`."""
    found = tuple(filter(None, text.split(",")))
    if not found:
        raise argparse.ArgumentTypeError("there is no name in it; write A,B")
    return found


def servers(text: str) -> str:
    """`host:port,...`; for argparse's `type`."""
    if not re.fullmatch(r"[^\s,/]+:\d+(,[^\s,/]+:\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of brokers; write HOST:PORT,HOST:PORT")
    return text


def positive(text: str) -> int:
    """A whole number from 1 on; for argparse's `type`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)
