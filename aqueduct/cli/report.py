"""The report of a run: a JSON file that other programs read."""

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from aqueduct.errors import Failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", metavar="FILE", type=Path, help="write what was found as JSON")


def write(path: Path, verb: str, exit_code: int, started: datetime, findings: Mapping[str, Any]) -> None:
    """Write the report whole or not at all. Times are RFC 3339, in the zone of `started`."""
    report = {
        "verb": verb,
        "exit_code": exit_code,
        "started": started.isoformat(timespec="milliseconds"),
        "ended": datetime.now(started.tzinfo).isoformat(timespec="milliseconds"),
        **findings,
    }
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise Failed(f"The report {path} can't be written: {error.strerror}.") from None
