"""Workers run a plain function over small descriptions: this process for little work, Spark for much."""

import os
import re
from contextlib import ExitStack
from typing import Self

from aqueduct.work.runner import THREADS, Runner, here, threads

SPARK_OFFSETS = 2_000_000  # less is read in this process before Spark would have started


class Workers:
    """The workers: this process for little work, Spark for much; Spark starts once, when it is needed."""

    def __init__(self, name: str, master: str | None) -> None:
        """Keep Spark's name and master.

        Without a master, Spark's workers are this host's cores, and little work does without them.
        """
        self._name = name
        self._master = master
        self._spark: Runner | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def runner(self, offsets: int) -> Runner:
        """Return the runner for so many offsets to be read."""
        if not self.many(offsets):
            return here
        if self._spark is None:
            from aqueduct.work.spark import application  # takes a while, and is not installed everywhere

            self._spark = self._stack.enter_context(application(self._name, self._master or "local[*]"))
        return self._spark

    def parallel(self, offsets: int) -> Runner:
        """Return the runner of tasks that spend their time outside of Python.

        This process does two at once.
        """
        return self.runner(offsets) if self.many(offsets) else threads

    def many(self, offsets: int) -> int:
        """Return how many tasks run at once; 0: none, but this process does the work."""
        if self._master is None and offsets <= SPARK_OFFSETS:
            return 0
        local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", self._master or "local[*]")
        if local and local[1] != "*":
            return int(local[1] or 1)
        return os.cpu_count() or 1

    def per_task(self, per_second: int | None, offsets: int) -> float | None:
        """Divide a limit for the whole run among the tasks of `parallel`."""
        return per_second / (self.many(offsets) or THREADS) if per_second else None
