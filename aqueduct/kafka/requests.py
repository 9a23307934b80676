"""Requests that hold many things."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_lists(items: Iterable[T], limit: int, weight: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Yield the items in order, in lists that weigh `limit` together at most; a heavier item goes alone."""
    some: list[T] = []
    weighs = 0
    for item in items:
        if some and weighs + weight(item) > limit:
            yield some
            some, weighs = [], 0
        some.append(item)
        weighs += weight(item)
    if some:
        yield some
