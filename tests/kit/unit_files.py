"""Command lines of systemd's units."""

import shlex
from pathlib import Path


def arguments_of(unit: str) -> list[str]:
    """Return the arguments with which a unit, or the script that it starts, runs `aqueduct`."""
    lines = unit.splitlines()
    executed = [line.partition("=")[2] for line in lines if line.startswith("Exec")] or lines
    words = filter(None, (shlex.split(line.rstrip("\\"), comments=True) for line in executed))
    [arguments] = (arguments for program, *arguments in words if Path(program).name == "aqueduct")
    return [each.replace("%%", "%").replace("$$", "$") for each in arguments]
