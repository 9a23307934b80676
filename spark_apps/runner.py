"""Whatever runs a plain function over small descriptions."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Protocol, Self, TypeVar

from aqueduct.wording import count

D = TypeVar("D")
R = TypeVar("R")

THREADS = 2  # of this process, where that is enough
PROGRESS_SECONDS = 10.0
SPARK_OFFSETS = 2_000_000  # less is read in this process before Spark would have started


class Runner(Protocol):
    def __call__(self, function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        """The results, in order; Failed if a call ended with it."""


def here(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """A Runner in this process."""
    return [function(each) for each in descriptions]


def threads(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """A Runner in this process: one thread waits for a cluster or a store while another one packs."""
    pool = ThreadPoolExecutor(THREADS)
    try:
        results = [pool.submit(function, each) for each in descriptions]
        while (state := wait(results, PROGRESS_SECONDS, FIRST_EXCEPTION)).not_done:
            if any(each.exception() for each in state.done):
                break
            print(f"{len(state.done)} of {count(len(results), 'task')} done", file=sys.stderr, flush=True)
        return [each.result() for each in results if each.done()]
    finally:
        pool.shutdown(cancel_futures=True)


class Workers:
    """Runs little work in this process and much on Spark, which is started once and when it is needed."""

    def __init__(self, name: str, master: str | None) -> None:
        """Without a master, Spark's workers are this host's cores, and little work does without them."""
        self._name = name
        self._master = master
        self._spark: Runner | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def runner(self, offsets: int) -> Runner:
        """For so many offsets to be read."""
        if not self.many(offsets):
            return here
        if self._spark is None:
            from spark_apps.application import application  # takes a while, and is not installed everywhere

            self._spark = self._stack.enter_context(application(self._name, self._master or "local[*]"))
        return self._spark

    def parallel(self, offsets: int) -> Runner:
        """The same, for tasks that spend their time outside of Python: this process does two at once."""
        return self.runner(offsets) if self.many(offsets) else threads

    def many(self, offsets: int) -> int:
        """How many tasks run at once; 0: none, but this process does the work."""
        if self._master is None and offsets <= SPARK_OFFSETS:
            return 0
        local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", self._master or "local[*]")
        if local and local[1] != "*":
            return int(local[1] or 1)
        return os.cpu_count() or 1

    def share(self, per_second: int | None, offsets: int) -> float | None:
        """What each task of `parallel` may do of a limit for the whole run."""
        return per_second / (self.many(offsets) or THREADS) if per_second else None
