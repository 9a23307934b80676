"""How long each phase of a run took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """Also for who wants to know it when a later phase fails; one that comes again adds to its time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
