"""Whatever runs a plain function over small descriptions."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol, Self, TypeVar

D = TypeVar("D")
R = TypeVar("R")

SPARK_OFFSETS = 2_000_000  # less is read in this process before Spark would have started


class Runner(Protocol):
    def __call__(self, function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        """The results, in order; Failed if a call ended with it."""


def here(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """A Runner in this process."""
    return [function(each) for each in descriptions]


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

    def many(self, offsets: int) -> int:
        """How many tasks run at once; 0: none, but this process does the work."""
        if self._master is None and offsets <= SPARK_OFFSETS:
            return 0
        return os.cpu_count() or 1

    def share(self, per_second: int | None, offsets: int) -> float | None:
        """What each task may do of a limit for the whole run."""
        return per_second / max(1, self.many(offsets)) if per_second else None
