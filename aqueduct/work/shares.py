"""The division of items into shares, one for each task."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Shared = TypeVar("Shared")


def shares(
    items: Iterable[Shared], size: Callable[[Shared], int], *, at_most: int, items_at_most: int
) -> Iterator[tuple[Shared, ...]]:
    """Divide the items, in their order, into shares that are full at either limit.

    An item larger than `at_most` goes alone.
    """
    share: list[Shared] = []
    total = 0
    for item in items:
        if share and (total + size(item) > at_most or len(share) == items_at_most):
            yield tuple(share)
            share, total = [], 0
        share.append(item)
        total += size(item)
    if share:
        yield tuple(share)
