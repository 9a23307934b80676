"""Flows with the engine `batches`, for tests."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest
from kit import clients
from kit.clients import unique

from aqueduct.cli import main
from aqueduct.kafka import follow
from aqueduct.mirror.engine import task
from servers.broker import Broker

PROGRAM = "-m", "aqueduct.cli"
RUN = "; import sys; from aqueduct.cli import main; sys.exit(main(sys.argv[1:]))"
# A program that waits for brokers also on a slow machine, where one may start for longer than a minute.
PATIENT = (
    "-c",
    "from aqueduct.kafka import client, produce; client.STALL_SECONDS = produce.RETRY_SECONDS = 600" + RUN,
)


@contextmanager
def started(
    *arguments: str,
    output: IO[str] | None = None,
    enter: Sequence[str] = (),
    program: Sequence[str] = PROGRAM,
) -> Iterator[subprocess.Popen[str]]:
    """Start `aqueduct` in its own process, and kill it at the end.

    `output`: a file to write and read; None: a new one. `enter`: the beginning of its command. `program`:
    Python's arguments for a program with other settings.
    """
    command = [*enter, sys.executable, *program, *arguments]
    # A pipe that nobody reads meanwhile is full when a broker was away for a while: the process would stop.
    with TemporaryFile("w+") as own:
        kept = output or own
        process = subprocess.Popen(command, stdout=kept, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            kept.seek(0)
            print(kept.read())  # for the report of a test that failed


def catch_up(*arguments: str) -> int:
    """Run `aqueduct` with these arguments until the flow has caught up, and return the exit code."""
    with pytest.MonkeyPatch.context() as patch:
        # A task ends after its present wait for records, and its reader after the present fetch.
        patch.setattr(task, "POLL_SECONDS", 0.1)
        patch.setattr(follow, "WAIT_MILLISECONDS", 100)
        return main([*arguments, "--until-caught-up"])


class Flow:
    """A flow from one broker to another, of one topic or of the topics that `pattern` matches."""

    def __init__(
        self, source: Broker, target: Broker, topic: str, tmp_path: Path, pattern: str | None = None
    ) -> None:
        self.name = unique("flow")
        self.source = source
        self.target = target
        self.topic = topic
        self.report = tmp_path / f"{self.name}.json"
        self.options = [
            *("replicate", "--flow", self.name, "--topics-pattern", pattern or re.escape(topic)),
            *("--source-bootstrap-server", source.plaintext),
            *("--target-bootstrap-server", target.plaintext),
        ]

    def catch_up(self, *more: str) -> int:
        """Run the flow until it has mirrored all present records, and return the exit code."""
        return catch_up(*self.options, "--report", str(self.report), *more)

    @contextmanager
    def running(
        self, *more: str, output: IO[str] | None = None, program: Sequence[str] = PROGRAM
    ) -> Iterator[subprocess.Popen[str]]:
        with started(*self.options, "--refresh", "1s", *more, output=output, program=program) as process:
            yield process

    def findings(self, *more: str) -> list[str]:
        """Return the findings of `aqueduct mirror` about the flow."""
        return list(self.looked(*more)["findings"])

    def looked(self, *more: str) -> dict[str, Any]:
        """Return the report of `aqueduct mirror` about the flow."""
        shared = self.options[self.options.index("--topics-pattern") :]
        with redirect_stdout(io.StringIO()) as printed:
            code = main(["mirror", "--engine", "batches", "--json", "--flow", self.name, *shared, *more])
        assert code in (0, 3)
        return dict(json.loads(printed.getvalue()))

    def reported(self) -> dict[str, list[dict[str, object]]]:
        return dict(json.loads(self.report.read_text()))

    def identifiers(self) -> list[object]:
        return [omission["id"] for omission in self.reported()["left_out"]]

    def is_equal(self, *partitions: int) -> bool:
        return clients.records(self.target, self.topic, *partitions) == clients.records(
            self.source, self.topic, *partitions
        )
