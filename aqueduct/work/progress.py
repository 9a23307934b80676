"""Progress of the tasks of a job: a bar on a terminal, otherwise a line every five seconds."""

import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any, Generic, TypeVar

from aqueduct.common.wording import count, write_controls

D = TypeVar("D")

SECONDS = 5.0  # before the first line, and between two lines
BAR = 12  # characters
CLEARED = "\r\x1b[K"  # clears the line of a terminal
_HIDDEN = Event()


@contextmanager
def hidden() -> Iterator[None]:
    """Show no progress within this context, in all threads."""
    _HIDDEN.set()
    try:
        yield
    finally:
        _HIDDEN.clear()


def note(sentence: str) -> None:
    """Print to stderr the next step of a run, or what the run waits for."""
    if not _HIDDEN.is_set():
        print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Size(Generic[D]):
    """The unit of the work of tasks, and a function that returns a task's work from its description."""

    noun: str
    of: Callable[[D], int]
    scale: int = 1  # results of `of` per unit


TASKS: Size[Any] = Size("tasks", lambda _: 1)  # all tasks have the same size
MEGABYTE = 1_000_000


class Progress(Generic[D]):
    """The progress of one job."""

    def __init__(self, descriptions: Collection[D], size: Size[D] | None, task: str = "task") -> None:
        """Start the clock of the job. Without a size, nothing is shown. `task`: the noun for one task."""
        self._size = size
        self._task = task
        self._tasks = len(descriptions)
        self._all = self._tasks if size is TASKS else sum(map(size.of, descriptions)) if size else 0
        self._began = time.monotonic()
        self._bar = sys.stderr.isatty()

    def tell(self, tasks: int, work: int) -> None:
        """Show the number of completed tasks, and the amount of their work."""
        if not self._size or _HIDDEN.is_set():
            return
        line = f"{tasks:,} of {count(self._tasks, self._task)} done"
        scale = self._size.scale
        if self._size is not TASKS:
            line += f", {work / scale:,.0f} of {self._all / scale:,.0f} {self._size.noun}"
        if work:
            seconds = max(time.monotonic() - self._began, 0.001)
            line += f", {rate(work / scale / seconds)}"
            line += f", about {duration(seconds * (self._all - work) / work)} left"
        if self._bar:
            filled = BAR * work // max(1, self._all)
            line = f"[{'#' * filled:-<{BAR}}] {line}"[: shutil.get_terminal_size().columns - 1]
            write_controls(f"{CLEARED}{line}")
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the bar, so that the next line begins at the left."""
        if self._bar and not _HIDDEN.is_set():
            write_controls(CLEARED)


def counted(items: Collection[D], task: str) -> Iterator[D]:
    """Yield the items, and show how many of them are done. `task`: the noun for one item."""
    watched, reported_at = Progress(items, TASKS, task), time.monotonic()
    try:
        for number, member in enumerate(items):
            if (now := time.monotonic()) - reported_at > SECONDS:
                watched.tell(number, number)
                reported_at = now
            yield member
    finally:
        watched.end()


class Counter:
    """The progress of work that reports the completed amount itself, such as sent offsets."""

    def __init__(self, unit: str) -> None:
        """Start the clock. `unit`: the noun for one counted item, such as `offset`."""
        self._unit = unit
        self._progress: Progress[int] | None = None
        self._reported_at = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show the completed amount, at most every SECONDS."""
        self._progress = self._progress or Progress(range(total), TASKS, self._unit)
        if (now := time.monotonic()) - self._reported_at > SECONDS and done < total:
            self._progress.tell(done, done)
            self._reported_at = now

    def end(self) -> None:
        """Clear the bar."""
        if self._progress:
            self._progress.end()


def rate(per_second: float) -> str:
    """Format a rate as `1,200 per second`, `1.2 per second` or `3.0 per minute`."""
    if per_second < 0.95:
        return f"{60 * per_second:.1f} per minute"
    return f"{per_second:,.0f} per second" if per_second >= 9.95 else f"{per_second:.1f} per second"


def duration(seconds: float) -> str:
    """Format a duration as `40 s`, `4 min` or `2 h 10 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
