"""Ctrl-C before or after one of the calls that change a store."""

from collections.abc import Callable, Iterator
from itertools import count
from threading import Lock
from typing import Any

import pytest

EITHER = [False, pytest.param(True, marks=pytest.mark.long)]  # a run before its calls, and one after them


def steps() -> Iterator[int]:
    """Yield the number of the call to interrupt, one run of a test after another.

    The moment after a call is the moment before the next one. So every second call, before it and after it,
    covers each moment once.
    """
    return count(1, 2)


class Interruption:
    """Ctrl-C before or after the n-th call that changes a store of this class."""

    def __init__(self, patch: pytest.MonkeyPatch, store: type, at: int, *, after: bool) -> None:
        self.calls = 0
        self._lock = Lock()
        for name in ("create", "move", "remove", "remove_many"):
            patch.setattr(store, name, self._wrapped(getattr(store, name), at, after))

    def _wrapped(self, do: Callable[..., None], at: int, after: bool) -> Callable[..., None]:
        def wrapped(*arguments: Any) -> None:
            with self._lock:
                self.calls += 1
                mine = self.calls == at
            if mine and not after:
                raise KeyboardInterrupt
            do(*arguments)
            if mine:
                raise KeyboardInterrupt

        return wrapped
