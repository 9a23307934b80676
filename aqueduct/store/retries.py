"""How long a store's server that is away is waited for."""

import random
import time

RETRY_SECONDS = 75  # a server may be restarted meanwhile


class Attempts:
    """Attempts until RETRY_SECONDS are over: more and more seldom, and not in step with others."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._pause = 0.2

    @property
    def seconds(self) -> float:
        """Return how long there were attempts."""
        return time.monotonic() - self._began

    def wait(self) -> bool:
        """Wait for the next attempt; return False if the time is over."""
        if self.seconds > RETRY_SECONDS:
            return False
        time.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311  # no secret
        self._pause = min(self._pause * 2, 5)
        return True
