"""Durations of the phases of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """The duration of each phase in seconds, also if a later phase fails. Repeated phases are added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
