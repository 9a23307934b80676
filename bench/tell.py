"""The output of every benchmark: progress, a table, and the machine. It needs no installed package."""

import os
import platform
import sys
from pathlib import Path


def machine() -> str:
    """Return one line: what the figures were taken on."""
    models = {
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    return f"{os.cpu_count()} cores of {', '.join(sorted(models))}; Python {platform.python_version()}."


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
