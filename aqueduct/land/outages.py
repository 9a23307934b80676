"""Outages of the servers that a landing needs: its tables' store, the metastore, schema registries.

A server is silent if a request has been without an answer for SILENT_SECONDS: it hangs, or it fails and is
repeated. Requests are those of the watch, which never stops asking, and the landing's own repeated ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from aqueduct.store.retries import Wait

SILENT_SECONDS = 5.0
NO_REASON = "no answer"


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A server that does not answer."""

    server: str
    since: float  # when the oldest request without an answer was made
    reason: str


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Outages that began, and those that ended, since the last look."""

    begun: Sequence[Outage] = ()
    ended: Sequence[Outage] = ()


class Outages:
    """The outages of some servers, as several threads notice them; points in time are of one clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # by server: its oldest request without an answer
        self._reasons: dict[str, str] = {}
        self._reported: dict[str, Outage] = {}
        self._lock = Lock()

    def ask(self, server: str, now: float) -> None:
        """Note a request; after one that failed, the server is silent since that one."""
        with self._lock:
            self._since.setdefault(server, now)

    def answer(self, server: str) -> None:
        with self._lock:
            self._since.pop(server, None)
            self._reasons.pop(server, None)

    def fail(self, server: str, reason: str) -> None:
        """Note that the last request has failed."""
        with self._lock:
            self._reasons[server] = reason

    def current(self, waits: Iterable[Wait], now: float) -> Mapping[str, Outage]:
        """Return the outages by server; `waits`: requests of the process that are repeated."""
        with self._lock:
            since, reasons = dict(self._since), dict(self._reasons)
        for wait in waits:
            since[wait.server] = min(since.get(wait.server, wait.since), wait.since)
            reasons[wait.server] = wait.reason
        return {
            server: Outage(server=server, since=start, reason=reasons.get(server, NO_REASON))
            for server, start in since.items()
            if now - start >= SILENT_SECONDS
        }

    def changes(self, waits: Iterable[Wait], now: float) -> Changes:
        """Return what has changed since the last call."""
        before, self._reported = self._reported, dict(self.current(waits, now))
        return Changes(
            begun=[outage for server, outage in self._reported.items() if server not in before],
            ended=[outage for server, outage in before.items() if server not in self._reported],
        )
