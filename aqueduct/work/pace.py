"""A limit on how fast something is read."""

import time


class Pace:
    """The pace of a task: it waits after each amount, to keep a limit per second; without one, never."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()

    def spent(self, size: int) -> None:
        if self._rate:
            # What was not used is not saved up: after a pause of the source no burst follows.
            self._due = max(self._due, time.monotonic()) + size / self._rate
            time.sleep(max(0.0, self._due - time.monotonic()))
