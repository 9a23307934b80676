"""Ctrl-C at one of the calls that change a store."""

from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest


class Interruption:
    """Ctrl-C at the n-th call that changes a store of that class: before it, or after it."""

    def __init__(self, patch: pytest.MonkeyPatch, store: type, at: int, *, after: bool) -> None:
        self.calls = 0
        self._lock = Lock()
        for name in ("create", "move", "remove"):
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
