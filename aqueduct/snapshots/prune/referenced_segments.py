"""A set of the segments that manifests list, as digests. Ten million need 160 MB."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import xxhash

DIGEST = "S16"
LOOSE = 1 << 20  # minimum number of unsorted digests before they are sorted in
AT_ONCE = 1 << 16  # names in memory at the same time

Digests = np.ndarray[Any, np.dtype[np.bytes_]]


def digests(names: Iterable[str]) -> Digests:
    """Return a digest of each name. Two names have the same digest with a probability of 1 in 2^128."""
    left = iter(names)
    return np.concatenate(
        [np.empty(0, DIGEST), *map(_digests, iter(lambda: list(islice(left, AT_ONCE)), []))]
    )


class NamedSegments:
    """A set of segment names. Names can only be added."""

    def __init__(self) -> None:
        self._sorted: Digests = np.empty(0, DIGEST)
        self._loose: list[Digests] = []
        self._waiting = 0

    def add(self, added: Digests) -> None:
        self._loose.append(added)
        self._waiting += len(added)
        if self._waiting > max(LOOSE, len(self._sorted)):
            self._sort()

    def __len__(self) -> int:
        self._sort()
        return len(self._sorted)

    def has(self, names: Sequence[str]) -> list[bool]:
        """Return for each name whether it was added."""
        self._sort()
        if not len(self._sorted):
            return [False] * len(names)
        asked = _digests(names)
        indexes = np.searchsorted(self._sorted, asked)
        indexes[indexes == len(self._sorted)] = 0
        return list((self._sorted[indexes] == asked).tolist())

    def _sort(self) -> None:
        if self._loose:
            self._sorted = np.unique(np.concatenate([self._sorted, *self._loose]))
            self._loose, self._waiting = [], 0


def _digests(names: Sequence[str]) -> Digests:
    return np.frombuffer(b"".join(map(xxhash.xxh3_128_digest, names)), DIGEST)
