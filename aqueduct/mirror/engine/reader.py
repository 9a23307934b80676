"""The reader of one task's source partitions, in a thread of its own: it fetches while the task writes."""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Self

from kafka.errors import KafkaError

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import Damaged
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.follow import NO_EPOCH, Follower, News
from aqueduct.kafka.line import DEFAULTS, FetchSettings
from aqueduct.mirror.engine.position import Position

AHEAD_ANSWERS = 2  # that are kept in memory, each of up to FetchSettings.answer_bytes for each broker
POLL_SECONDS = 1.0


class LogCut(Exception):
    """A source log lost records before a position: it must be judged again (KIP-320)."""


class UnreadablePartition(Exception):
    """A source partition that cannot be read from an offset on. The reader continues with the others."""

    def __init__(self, partition: TopicPartition, error: KafkaError | Damaged) -> None:
        super().__init__(f"{partition}: {error}")
        self.partition = partition
        self.error = error


class SourceReader:
    """What is new in some source partitions. Use it as a context manager."""

    def __init__(
        self,
        end: End,
        client_id: str,
        positions: Mapping[TopicPartition, Position],
        settings: FetchSettings = DEFAULTS,
    ) -> None:
        self._end = end
        self._settings = settings
        self._client_id = client_id
        self._positions = positions
        self._ready: Queue[list[News] | Exception] = Queue(AHEAD_ANSWERS)
        self._left: deque[TopicPartition] = deque()  # to be read no more
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=f"{client_id}-reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def leave(self, partition: TopicPartition) -> None:
        """Stop reading a partition. News of it may still come."""
        self._left.append(partition)

    def take(self, seconds: float) -> list[News]:
        """Return the news of one answer; none if none comes in time.

        UnreadablePartition, and the reader continues; LogCut and other errors end it.
        """
        try:
            news = self._ready.get(timeout=seconds) if seconds > 0 else self._ready.get_nowait()
        except Empty:
            return []
        if isinstance(news, Exception):
            raise news
        return news

    def _run(self) -> None:
        unreadable: deque[UnreadablePartition] = deque()
        try:
            with connect(self._end, self._client_id, self._stopping) as client:
                follower = Follower(
                    client,
                    {partition: position.next for partition, position in self._positions.items()},
                    _refuse_cut,
                    {
                        partition: position.epoch
                        for partition, position in self._positions.items()
                        if position.epoch != NO_EPOCH
                    },
                    lambda partition, error: unreadable.append(UnreadablePartition(partition, error)),
                    self._settings,
                )
                while not self._stopping.is_set():
                    while self._left:
                        follower.leave_partition(self._left.popleft())
                    read = follower.poll(POLL_SECONDS)
                    if news := [part for part in read if part.next_offset > part.start]:
                        self._put(news)
                    while unreadable:  # after what is before it
                        self._put(unreadable.popleft())
        except Exception as error:  # the task raises it
            self._put(error)

    def _put(self, news: list[News] | Exception) -> None:
        while not self._stopping.is_set():
            with suppress(Full):
                self._ready.put(news, timeout=POLL_SECONDS)
                return


def _refuse_cut(partition: TopicPartition, position: int, offset: int) -> None:
    raise LogCut(f"{partition} was truncated at offset {offset}, before the position {position}")
