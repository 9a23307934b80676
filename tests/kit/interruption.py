"""Ctrl-C at one of the calls that change a store."""

from collections.abc import Callable, Iterator
from itertools import count
from threading import Lock
from typing import Any

import pytest

EITHER = [False, pytest.param(True, marks=pytest.mark.long)]  # a run before its calls, and one after them


def steps() -> Iterator[int]:
    """Yield the calls to interrupt at, one run after another.

    After a call is before the next one, so every second one, before it and after it, is each place once.
    """
    return count(1, 2)


class Interruption:
    """Ctrl-C at the n-th call that changes a store of that class: before it, or after it."""

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
