"""Runners: each calls a plain function with every description and returns the results in order."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from aqueduct.wording import count

D = TypeVar("D")
R = TypeVar("R")

THREADS = 2  # of this process, where that is enough
PROGRESS_SECONDS = 10.0


class Runner(Protocol):
    def __call__(self, function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        """Return the results, in order; Failed if a call ended with it."""


def here(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """Run the function in this process, as a Runner."""
    return [function(each) for each in descriptions]


def threads(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """Run in this process, as a Runner: one thread waits for a cluster or a store while another one packs."""
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
