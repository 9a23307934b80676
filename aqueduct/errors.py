"""Errors that end a command: an exit code, and unless that is 0 or 3, one sentence."""

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    REFUSED = 2  # usage, configuration or plan: nothing was done yet
    INCOMPLETE = 3  # done, but something was left out or is unequal; the report names it


LeftOut = tuple[tuple[str, str], ...]  # what, why: a run with some is INCOMPLETE


def left_out_entries(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return what was left out as every report for programs has it, in `left_out`."""
    return [{"what": what, "why": why} for what, why in found]


class AqueductError(Exception):
    """A sentence for the user that names what, where and the remedy; `main` prints it without a traceback."""

    exit_code = ExitCode.FAILED


class Failed(AqueductError):
    """The error of a command that tried and did not succeed."""


class Refused(AqueductError):
    """The error of a command that did nothing, because what was asked for can't be right."""

    exit_code = ExitCode.REFUSED
