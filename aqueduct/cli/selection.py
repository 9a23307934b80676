"""Values of options: topics and groups, what they are reached by, and numbers."""

import argparse
import re
from collections.abc import Callable

MOST = 2**63 - 1  # of Kafka's own numbers
PORTS = range(1, 1 << 16)


def names(text: str) -> tuple[str, ...]:
    """Parse `a,b`; for argparse's `type`."""
    listed = tuple(filter(None, text.split(",")))
    if not listed:
        raise argparse.ArgumentTypeError("it contains no name; write A,B")
    return listed


def servers(text: str) -> str:
    """Return `host:port,...`, also `[IPv6]:port`, without blanks at commas; for argparse's `type`."""
    listed = [address.strip() for address in text.split(",")]
    for address in listed:
        match = re.fullmatch(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]):([0-9]{1,9})", address)
        if not match:
            raise argparse.ArgumentTypeError(f"{text!r} is not a broker list; write HOST:PORT,HOST:PORT")
        if int(match[1]) not in PORTS:
            raise argparse.ArgumentTypeError(f"{address!r} has no port from {PORTS[0]} to {PORTS[-1]}")
    return ",".join(listed)


def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression; for argparse's `type`."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} does not compile: {error}") from None


def whole(least: int = 1, most: int = MOST) -> Callable[[str], int]:
    """Return a whole number between these; for argparse's `type`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text) or not least <= int(text) <= most:
            bounds = f"of {least} or more" if most == MOST else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return int(text)

    return parse


positive = whole()


def add_expected_brokers(parser: argparse.ArgumentParser) -> None:
    """Add an option for the brokers that an inventory has."""
    parser.add_argument(
        "--expected-brokers",
        metavar="N,N",
        type=lambda text: [whole(0)(number) for number in text.split(",")],
        help="ids of all brokers of the cluster; others that run or have replicas are reported",
    )
