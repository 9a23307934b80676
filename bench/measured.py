"""Runs a command and tells what it and all its descendants used: wall, CPU and memory.

    python -m bench.measured FILE COMMAND...

writes a Usage as JSON to FILE and ends as the command did. In a process of its own, because it makes itself
the parent of orphans (Spark's Python workers outlive the JVM that started them by a moment): only so is the
CPU time of every process counted once it has ended.
"""

import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
SAMPLE_SECONDS = 0.1
ORPHAN_SECONDS = 10
TELL = 3000  # characters of what a command said that failed


@dataclass(frozen=True)
class Usage:
    seconds: float
    cpu_seconds: float
    python_bytes: int  # the largest sum at one moment; shared pages are shared out (PSS)
    java_bytes: int
    servers_cpu_seconds: float = 0  # of those that were running before


class CommandFailed(Exception):
    """The failure of a command, with what it said."""


def measured(
    command: Sequence[str], environment: dict[str, str] | None = None, *, codes: Container[int] = (0,)
) -> Usage:
    """Run the command; CommandFailed if it ends with another code than these."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "usage.json"
        run = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "bench.measured", str(file), *command],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
        )
        if run.returncode not in codes:
            raise CommandFailed(f"{' '.join(command)}:\n{(run.stdout + run.stderr)[-TELL:]}")
        return Usage(**json.loads(file.read_text()))


class _Watch(threading.Thread):
    """The watch over all descendants: their memory, and the CPU time that would be lost.

    Spark's daemon ignores SIGCHLD, so that nobody is told what its workers used.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.python = self.java = 0
        self.unclaimed: dict[int, float] = {}  # CPU seconds by process
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(SAMPLE_SECONDS):
            python = java = 0
            for process, parent in _descendants(os.getpid()):
                program = _program(process)
                if program != "java":
                    python += _memory(process)
                elif _program(parent) != "java":  # else it is what a JVM is about to start, in its memory
                    java += _memory(process)
                if program and _ignores_children(parent):
                    self.unclaimed[process] = max(cpu_seconds(process), self.unclaimed.get(process, 0))
            self.python, self.java = max(self.python, python), max(self.java, java)


def descendants(processes: Iterable[int]) -> Iterator[tuple[int, float]]:
    """Yield all descendants of these, each with the CPU seconds that it used until now."""
    for parent in processes:
        for process, _ in _descendants(parent):
            with suppress(IndexError, ValueError):  # it has ended
                yield process, cpu_seconds(process)


def _descendants(parent: int) -> Iterator[tuple[int, int]]:
    """Yield processes, each with its parent."""
    try:
        tasks = [task.name for task in Path(f"/proc/{parent}/task").iterdir()]
    except OSError:
        return
    for task in tasks:
        for child in map(int, _read(parent, f"task/{task}/children").split()):
            yield child, parent
            yield from _descendants(child)


def _program(process: int) -> str:
    """Return the name of a process's program, whatever its threads are called; none if it has ended."""
    try:
        return Path(f"/proc/{process}/exe").readlink().name
    except OSError:
        return ""


def _memory(process: int) -> int:
    found = re.search(r"^Pss: +(\d+) kB", _read(process, "smaps_rollup"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process, all its threads; not those of processes that it started."""
    fields = _read(process, "stat").rpartition(")")[2].split()  # from the third one on
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _ignores_children(process: int) -> bool:
    found = re.search(r"^SigIgn:\s+(\w+)", _read(process, "status"), re.MULTILINE)
    return bool(found and int(found[1], 16) >> signal.SIGCHLD - 1 & 1)


def _read(process: int, name: str) -> str:
    """Return a file of /proc; nothing of a process that has ended."""
    try:
        return Path(f"/proc/{process}/{name}").read_text()
    except OSError:
        return ""


def main(file: str, *command: str) -> int:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watch = _Watch()
    watch.start()
    began = time.monotonic()
    code = subprocess.run(command).returncode  # noqa: S603
    seconds = time.monotonic() - began
    claimed = _orphans()
    watch.over.set()
    watch.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unclaimed = sum(cpu for process, cpu in watch.unclaimed.items() if process not in claimed)
    usage = Usage(seconds, used.ru_utime + used.ru_stime + unclaimed, watch.python, watch.java)
    Path(file).write_text(json.dumps(asdict(usage)))
    return code


def _orphans() -> set[int]:
    """Return the orphans that came to us, after they have ended."""
    found = set()
    deadline = time.monotonic() + ORPHAN_SECONDS
    while time.monotonic() < deadline:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if process:
            found.add(process)
        else:
            time.sleep(0.02)
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
