"""Drivers of applications, started as Spark's users do: by spark-submit, and by `aqueduct`."""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from servers.spark import HOME, Cluster

ROOT = Path(__file__).resolve().parents[3]
RECORDS = 20_000  # of a partition: a task's least
AT_ONCE = 3  # drivers: each waits for much, and its JVM is large
LEAST = ("--conf", "spark.cores.max=1", "--conf", "spark.executor.memory=500m")  # so that several have room

Process = subprocess.Popen[str]
Command = tuple[list[str], dict[str, str | None]]  # with what its environment has, or lacks


@dataclass(frozen=True)
class Run:
    code: int
    page: str  # its stdout, then its stderr

    @property
    def last(self) -> str:
        return self.page.splitlines()[-1]


def aqueduct(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "aqueduct.cli", *arguments]


def submit(cluster: Cluster, program: Path, *arguments: str, options: Iterable[str] = ()) -> list[str]:
    return [str(HOME / "bin/spark-submit"), "--master", cluster.url, *options, str(program), *arguments]


def start(cluster: Cluster, command: list[str], **environment: str | None) -> Process:
    """Start a command in an environment that has these variables, or lacks them."""
    own = {**os.environ, **cluster.environment, "PYSPARK_PYTHON": sys.executable, **environment}
    return subprocess.Popen(
        command,
        cwd=cluster.directory,
        env={name: value for name, value in own.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: Process) -> Run:
    out, err = process.communicate(timeout=300)
    return Run(process.returncode, out + err)


def done(process: Process) -> str:
    """Return what a command said that did all."""
    run = ended(process)
    assert run.code == 0, run.page
    return run.page


def until(process: Process, said: str) -> str:
    """Wait for a line of a command's stderr that has these words, and return it."""
    assert process.stderr
    before = []
    while said not in (line := process.stderr.readline()):
        before.append(line)
        assert line, "".join(before)
    return line


def ended_all(cluster: Cluster, commands: dict[str, Command]) -> dict[str, Run]:
    """Run commands, some at once; by their names."""

    def run(command: Command) -> Run:
        return ended(start(cluster, command[0], **command[1]))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(commands, pool.map(run, commands.values()), strict=True))
