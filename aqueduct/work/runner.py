"""Runners: each calls a plain function with every description and returns the results in order."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from aqueduct.work import progress
from aqueduct.work.progress import TASKS, Progress, Size

D = TypeVar("D")
R = TypeVar("R")

THREADS = 2  # of this process, where that is enough


class Runner(Protocol):
    def __call__(
        self, function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS
    ) -> list[R]:
        """Return the results, in order; Failed if a call ended with it.

        `size` is for those who watch; None: nobody does.
        """


def here(function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS) -> list[R]:
    """Run the function in this process, as a Runner."""
    watched, told, done = Progress(descriptions, size), time.monotonic(), 0
    results: list[R] = []
    for each in descriptions:
        results.append(function(each))
        done += size.of(each) if size else 0
        now = time.monotonic()
        if now - told > progress.SECONDS and len(results) < len(descriptions):
            watched.tell(len(results), done)
            told = now
    watched.end()
    return results


def threads(function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS) -> list[R]:
    """Run in this process, as a Runner: one thread waits for a cluster or a store while another one packs."""
    pool = ThreadPoolExecutor(THREADS)
    watched = Progress(descriptions, size)
    try:
        results = {pool.submit(function, each): each for each in descriptions}
        while (state := wait(results, progress.SECONDS, FIRST_EXCEPTION)).not_done:
            if any(each.exception() for each in state.done):
                break
            watched.tell(len(state.done), sum(size.of(results[each]) for each in state.done) if size else 0)
        return [each.result() for each in results if each.done()]
    finally:
        watched.end()
        pool.shutdown(cancel_futures=True)
