"""Retries of requests to an unavailable server, and the list of current retries."""

import random
import time
from dataclasses import dataclass
from typing import Self

RETRY_SECONDS = 75  # a server may be restarted meanwhile


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A failed request that is retried."""

    server: str
    since: float  # by the monotonic clock: when it was made first
    reason: str  # of its last failure


class Attempts:
    """Retries for RETRY_SECONDS, with growing, random pauses.

    As a context manager, it lists its request in `waits` from the first failure until the answer.
    """

    def __init__(self, server: str = "") -> None:
        self._server = server
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart()

    @property
    def seconds(self) -> float:
        """Return the time since the first attempt."""
        return time.monotonic() - self._began

    def restart(self) -> None:
        """Begin again after an answer."""
        self._began = time.monotonic()
        self._pause = 0.2
        _WAITS.pop(id(self), None)

    def fail(self, reason: str) -> None:
        """List the request in `waits`."""
        _WAITS[id(self)] = Wait(server=self._server, since=self._began, reason=reason)

    def wait(self) -> bool:
        """Wait for the next attempt. Return False after RETRY_SECONDS."""
        if self.seconds > RETRY_SECONDS:
            return False
        time.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311  # no secret
        self._pause = min(self._pause * 2, 5)
        return True


def waits() -> tuple[Wait, ...]:
    """Return the failed requests of this process that are being retried."""
    return tuple(_WAITS.copy().values())


# By the identity of their attempts. Several threads use it, without a lock: a process that was forked while
# another thread held one would wait for ever.
_WAITS: dict[int, Wait] = {}
