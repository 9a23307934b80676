"""The sending end: from the source's topics to datagrams, and its position to the group."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from aqueduct.common.topic_names import matches
from aqueduct.kafka.client import Stopped, connect
from aqueduct.kafka.groups import CommittedOffsets
from aqueduct.link.feed import Feed, last_session
from aqueduct.link.filter import Filter
from aqueduct.link.options import Upstream
from aqueduct.link.outlet import Outlet, begin_after
from aqueduct.link.wire import frame
from aqueduct.link.wire.key_frame import Kind

POLL_SECONDS = 0.5
# What was sent is committed so much later: after a kill, what may still have been in this host's buffers is
# sent again.
HOLD_BACK_SECONDS = 1.0
REPEAT_BYTES = 256 << 20  # that wait to be sent again

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class UpstreamFigures:
    """The figures of one process, for its metrics."""

    feed: Feed
    outlets: list[Outlet]
    filter: Filter
    position_committed: float = 0.0  # seconds since 1970
    repeated: int = 0
    not_repeated: int = 0  # values, for want of memory


def run(settings: Upstream, stopping: Event, publish: Callable[[UpstreamFigures], None]) -> None:
    """Send until `stopping`.

    Then all that was read is sent, the session ended, and the position committed.
    """
    outlets = [Outlet(settings, target, Kind.LIVE) for target in settings.all_targets()]
    rules = Filter.of(settings)
    # What is asked for beside the records must not wait behind a Fetch that waits for records.
    end = settings.end("source")
    with (
        _bearing_a_stop(),
        connect(end, settings.id, stopping) as client,
        connect(end, settings.id, stopping) as following,
    ):
        start = begin_after(last_session(client, settings.group))
        for outlet in outlets:
            outlet.begin(start)
        feed = Feed(
            client,
            following,
            settings.group,
            wanted(settings),
            session=start,
            shift=settings.partition_start_value,
            largest=settings.largest_record,
            from_time=settings.from_,
            asked=settings.topics.pattern if settings.topics else str(settings.topic),
        )
        figures = UpstreamFigures(feed=feed, outlets=outlets, filter=rules)
        publish(figures)
        feed.begin()
        _Sending(settings, figures).run(stopping)


@contextmanager
def _bearing_a_stop() -> Iterator[None]:
    """Bear a stop while no broker answers, which isn't a failure.

    The position that is committed is then an earlier one.
    """
    try:
        yield
    except Stopped as error:
        log.warning(
            "%s Records that were sent after the last commit of the position will be sent again.", error
        )


def wanted(settings: Upstream) -> Callable[[str], bool]:
    """Return the function that tells by its name whether a topic crosses."""
    if settings.topics:
        pattern = settings.topics
        return lambda name: matches(pattern, name)
    return lambda name: name == settings.topic


class _Sending:
    def __init__(self, settings: Upstream, figures: UpstreamFigures) -> None:
        self._settings = settings
        self._figures = figures
        self._feed, self._outlets = figures.feed, figures.outlets
        self._reached: CommittedOffsets = {}  # is to be committed next
        self._commit_at = time.monotonic()
        self._next_event_at = 0.0
        self._repeats: deque[tuple[float, bytes]] = deque()
        self._repeat_bytes = 0

    def run(self, stopping: Event) -> None:
        for outlet in self._outlets:
            outlet.open()
        log.info(
            "sending to %s",
            ", ".join(f"{target.host}:{target.port}" for target in self._settings.all_targets()),
        )
        try:
            while not stopping.is_set():
                for next_frame, records in self._feed.poll(self._patience()):
                    self._send(
                        frame.pack(
                            self._figures.filter.apply(next_frame), compress_above=self._compress_above
                        )
                    )
                    self._throttle(records, stopping)
                self._tick()
        except Stopped:  # some that was read may not be sent, so its position must not be committed
            self._end()
            raise
        self._end()
        self._feed.commit(self._feed.reached())

    def _end(self) -> None:
        self._announce(math.inf)
        for outlet in self._outlets:
            outlet.end()

    @property
    def _compress_above(self) -> int:
        return self._settings.compress_when_length_exceeds

    def _send(self, value: bytes, *, again: bool = False) -> None:
        for outlet in self._outlets:
            outlet.add([value])
        if self._settings.repeat_after and not again:
            self._repeats.append((time.monotonic() + self._settings.repeat_after, value))
            self._repeat_bytes += len(value)
            while self._repeat_bytes > REPEAT_BYTES:
                self._repeat_bytes -= len(self._repeats.popleft()[1])
                self._figures.not_repeated += 1

    def _announce(self, now: float) -> None:
        for announcement in self._feed.announcements(now):
            self._send(frame.pack(announcement), again=True)

    def _tick(self) -> None:
        """Do what is due: announcements, repeats, commits."""
        now = time.monotonic()
        self._announce(now)
        while self._repeats and self._repeats[0][0] <= now:
            _, value = self._repeats.popleft()
            self._repeat_bytes -= len(value)
            self._send(value, again=True)
            self._figures.repeated += 1
        for outlet in self._outlets:
            outlet.tick(now)
        if now >= self._commit_at:
            self._commit_at = now + HOLD_BACK_SECONDS
            self._commit()

    def _commit(self) -> None:
        """Commit what was read before the last hold-back, so was sent."""
        if self._reached:
            self._feed.commit(self._reached)
            self._figures.position_committed = time.time()
        now = self._feed.reached()
        self._reached = now if now != self._reached else {}

    def _patience(self) -> float:
        now = time.monotonic()
        due = min([self._commit_at, *(outlet.next_due for outlet in self._outlets)])
        return max(0.0, min(POLL_SECONDS, due - now))

    def _throttle(self, records: int, stopping: Event) -> None:
        if not self._settings.eps:
            return
        self._next_event_at = max(self._next_event_at, time.monotonic()) + records / self._settings.eps
        while (left := self._next_event_at - time.monotonic()) > 0 and not stopping.is_set():
            time.sleep(min(left, max(0.001, self._patience())))
            self._tick()
