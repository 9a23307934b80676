"""Which segments manifests name, as digests: ten million take 160 MB, however many manifests name them."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
import xxhash

DIGEST = "S16"
LOOSE = 1 << 20  # digests that wait to be sorted in, at least
AT_ONCE = 1 << 16  # names that are in memory


class NamedSegments:
    """A set of names that only grows. Two names are taken for one with a chance of 1 in 2^128."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, DIGEST)
        self._loose: list[np.ndarray] = []
        self._waiting = 0

    def add(self, names: Iterable[str]) -> None:
        left = iter(names)
        while some := list(islice(left, AT_ONCE)):
            self._loose.append(_digests(some))
            self._waiting += len(some)
            if self._waiting > max(LOOSE, len(self._sorted)):
                self._sort()

    def has(self, names: Sequence[str]) -> list[bool]:
        """Tell of each name whether it was added."""
        self._sort()
        if not len(self._sorted):
            return [False] * len(names)
        asked = _digests(names)
        at = np.searchsorted(self._sorted, asked)
        at[at == len(self._sorted)] = 0
        return list((self._sorted[at] == asked).tolist())

    def _sort(self) -> None:
        if self._loose:
            self._sorted = np.unique(np.concatenate([self._sorted, *self._loose]))
            self._loose, self._waiting = [], 0


def _digests(names: Sequence[str]) -> np.ndarray:
    return np.frombuffer(b"".join(map(xxhash.xxh3_128_digest, names)), DIGEST)
