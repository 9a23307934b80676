"""Lists for requests and tasks, which hold many things, and what a request may hold."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

METADATA_BYTES = 4096  # of an offset; Kafka's default of offset.metadata.max.bytes


def in_lists(
    items: Iterable[T], limit: int, weight: Callable[[T], int] = lambda _: 1, *, most: int | None = None
) -> Iterator[list[T]]:
    """Yield the items in order, in lists of `most` items at most that together weigh `limit` at most.

    A heavier item goes alone.
    """
    some: list[T] = []
    weighs = 0
    for item in items:
        if some and (weighs + weight(item) > limit or len(some) == most):
            yield some
            some, weighs = [], 0
        some.append(item)
        weighs += weight(item)
    if some:
        yield some
