"""Half-open ranges of offsets, and the division of the work of reading them.

Everywhere, `start` is inclusive, `stop` and `end` are exclusive, and `first` and `last` (offset_sets.py) are
inclusive.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from aqueduct.common.topic_names import TopicPartition


@dataclass(frozen=True)
class Range:
    """Offsets of one partition, from `start` to before `stop`."""

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
    """Split a range into consecutive ranges of nearly equal length: 1 to `at_most` offsets each."""
    parts = -(-len(whole) // at_most)
    edges = [whole.start + len(whole) * i // parts for i in range(parts + 1)] if parts else []
    return [replace(whole, start=start, stop=stop) for start, stop in pairwise(edges)]


def shares(ranges: Iterable[Range], offsets: int) -> Iterator[tuple[Range, ...]]:
    """Yield the ranges in groups, one for each reader.

    A group has at most `offsets` offsets, or a single range, and each partition at most once.
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
