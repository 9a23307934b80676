"""Standard output of a run: text, or JSON with `--json`; with `--quiet` nothing if the exit code is 0.

Errors, warnings and progress are on standard error.
"""

import argparse
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, TextIO

from aqueduct.work import progress

OPTION = "--quiet"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet` to a verb that reports, or to each of its commands that do: those that have `--json`."""
    commands = [
        command
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for command in action.choices.values()
    ]
    for command in commands:
        add_option(command)
    if "--json" in parser._option_string_actions:
        help_ = "print nothing on standard output if the exit code is 0, and no progress"
        parser.add_argument(OPTION, action="store_true", help=help_)


class Output:
    """Standard output of one run."""

    def __init__(self, stream: TextIO, *, is_quiet: bool) -> None:
        """Hold what is printed until the exit code is known, if the run is quiet."""
        self._stream = stream
        self._held = io.StringIO() if is_quiet else None

    @property
    def stream(self) -> TextIO:
        return self._stream if self._held is None else self._held

    def print_document(self, document: Mapping[str, Any]) -> None:
        """Print JSON. Bytes of names that are no letters are escaped, so that it stays JSON."""
        print(json.dumps(document, indent=2), file=self.stream, flush=True)

    def end(self, exit_code: int) -> None:
        """End a run, or a round of a run: print what was held, unless all is well."""
        if self._held is None:
            return
        if exit_code:
            self._stream.write(self._held.getvalue())
            self._stream.flush()
        self._held.seek(0)
        self._held.truncate()

    def release(self) -> None:
        """Print what is held, and hold no more."""
        self.end(1)
        self._held = None


class _NoText(io.TextIOBase):
    """Text that is not printed, because the report is."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def of_run(args: argparse.Namespace) -> Iterator[Output]:
    """Redirect standard output as the options say, and set `args.output`. After an error, nothing is held.

    A verb with `--report` has no JSON of its own: `--json` prints the report instead of text.
    """
    is_quiet = getattr(args, "quiet", False)
    args.output = Output(sys.stdout, is_quiet=is_quiet)
    text = _NoText() if prints_report(args) else args.output.stream
    try:
        with redirect_stdout(text), progress.hidden() if is_quiet else nullcontext():
            yield args.output
    finally:
        args.output.release()


def prints_report(args: argparse.Namespace) -> bool:
    return getattr(args, "json", False) and hasattr(args, "report")
