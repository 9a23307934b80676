"""Runners, which call a plain function with each description and return the results in order."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from aqueduct.work import progress
from aqueduct.work.progress import TASKS, Progress, Size

D = TypeVar("D")
R = TypeVar("R")

THREADS = 2  # for `threads`


class Runner(Protocol):
    def __call__(
        self, function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS
    ) -> list[R]:
        """Return the results in order. The first error of a call is raised.

        `size`: the unit of the progress that is shown; None: no progress is shown.
        """


def here(function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS) -> list[R]:
    """Run the function in this process, as a Runner."""
    watched, reported_at, work_done = Progress(descriptions, size), time.monotonic(), 0
    results: list[R] = []
    for description in descriptions:
        results.append(function(description))
        work_done += size.of(description) if size else 0
        now = time.monotonic()
        if now - reported_at > progress.SECONDS and len(results) < len(descriptions):
            watched.tell(len(results), work_done)
            reported_at = now
    watched.end()
    return results


def threads(function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS) -> list[R]:
    """Run in threads, as a Runner: one compresses while another one waits for a cluster or a store."""
    pool = ThreadPoolExecutor(THREADS)
    watched = Progress(descriptions, size)
    try:
        results = {pool.submit(function, description): description for description in descriptions}
        while (state := wait(results, progress.SECONDS, FIRST_EXCEPTION)).not_done:
            if any(future.exception() for future in state.done):
                break
            watched.tell(
                len(state.done), sum(size.of(results[future]) for future in state.done) if size else 0
            )
        return [future.result() for future in results if future.done()]
    finally:
        watched.end()
        pool.shutdown(cancel_futures=True)
