"""Compare the two ends of a flow: the records of topics at their source, or at several, with those at the target.

Per partition: how many records there are, and whether key, value, headers, timestamp and order are the same;
where not, which offsets of the source the target lacks, which it has too many, or where the order differs.
Offsets are not compared. Only committed records count, up to the offsets that were the last at the start.

Exit code: 0 equal, 3 unequal, 1 an end could not be read, 2 the arguments can't be right.
"""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from aqueduct import client_config
from aqueduct.cli import report
from aqueduct.client_config import End
from aqueduct.errors import ExitCode, Refused

SENTENCES = 50  # a person is shown so many; the report has all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers = "HOST:PORT,..."
    parser.add_argument("--source", metavar=servers, action="append", required=True, help="repeat it for several sources merged into one target topic")
    parser.add_argument("--target", metavar=servers, required=True)
    ...
