"""Whatever runs a plain function over small descriptions."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

D = TypeVar("D")
R = TypeVar("R")


class Runner(Protocol):
    def __call__(self, function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        """The results, in order; Failed if a call ended with it."""


def here(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
    """A Runner in this process."""
    return [function(each) for each in descriptions]
