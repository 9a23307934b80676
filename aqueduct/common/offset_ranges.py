"""Half-open ranges of offsets, and how the work of reading them is shared out.

Everywhere, `start` is inside and `stop`, or `end`, is not; `first` and `last` (offset_sets.py) are both
inside.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from aqueduct.common.topic_names import TopicPartition


@dataclass(frozen=True)
class Range:
    """Offsets of one partition, from `start` until before `stop`."""

    topic: str
    partition: int
    start: int  # inclusive
    stop: int  # exclusive

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def split(whole: Range, at_most: int) -> list[Range]:
    """Return neighbouring ranges of nearly equal length, none longer than `at_most` offsets, none empty."""
    parts = -(-len(whole) // at_most)
    edges = [whole.start + len(whole) * i // parts for i in range(parts + 1)] if parts else []
    return [replace(whole, start=start, stop=stop) for start, stop in pairwise(edges)]


def shares(ranges: Iterable[Range], offsets: int) -> Iterator[tuple[Range, ...]]:
    """Yield the ranges in groups, one for each reader.

    Of at most so many offsets, or a single range; no partition is twice in one.
    """
    share: dict[TopicPartition, Range] = {}
    total = 0
    for part in ranges:
        partition = part.topic_partition
        if share and (partition in share or total + len(part) > offsets):
            yield tuple(share.values())
            share, total = {}, 0
        share[partition] = part
        total += len(part)
    if share:
        yield tuple(share.values())
