"""A rate limit for tasks that read."""

import time


class Pace:
    """A rate limit for a task: `spent` waits as long as the limit requires. None: no limit."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()

    def spent(self, size: int) -> None:
        if self._rate:
            # Unused bytes are not saved, so no burst follows a pause of the source.
            self._due = max(self._due, time.monotonic()) + size / self._rate
            time.sleep(max(0.0, self._due - time.monotonic()))
