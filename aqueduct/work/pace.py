"""A limit on how fast something is read."""

import time


class Pace:
    """Waits after each amount until so much a second is not exceeded; without a limit, never."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()

    def spent(self, size: int) -> None:
        if self._rate:
            # What was not used is not saved up: after a pause of the source no burst follows.
            self._due = max(self._due, time.monotonic()) + size / self._rate
            time.sleep(max(0.0, self._due - time.monotonic()))
