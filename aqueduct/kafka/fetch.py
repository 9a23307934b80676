"""Reads a range of a partition as the batches that hold it, read-committed."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.errors import (
    KafkaError,
    NodeNotReadyError,
    NoError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    for_code,
)
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.batches.committed import committed
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.offsets import local_starts, log_starts

WAIT_MILLISECONDS = 500  # of a broker that has nothing at the offset yet
TOPIC_IDS_SINCE = 13  # version of Fetch (KIP-516)
NO_STOP = (1 << 63) - 1  # above all offsets
SAMPLES = 16  # topics, at most; of each, the first batches of one range are fetched
SAMPLE_BYTES = 256 << 10  # fetched of each range
SAMPLE_SECONDS = 5  # to wait for all samples together


@dataclass(frozen=True)
class Fetched:
    """The next piece of a range."""

    batches: tuple[Batch, ...]  # committed data inside the range
    next_offset: int  # everything of the range before it was in a piece, or is lost, or never was a record
    lost: tuple[int, int] | None = (
        None  # offsets, stop exclusive, that were deleted before they could be read
    )


class Recreated(Failed):
    """The end of a read whose topic's name now belongs to another topic."""

    id = "topic-recreated"


def read(
    client: Client,
    range_: Range,
    *,
    max_bytes: int = 4 << 20,
    topic_id: UUID | None = None,
    whole_batches: bool = False,
) -> Iterator[Fetched]:
    """Yield a range's committed batches in order, cut where they reach beyond it, if not `whole_batches`.

    While a piece is used the next one, of `max_bytes` or one batch, is on its way, and the first one from
    this call on. `topic_id` is that of the
    topic that is meant; None: of the one that has the name now. New leaders are borne with, and brokers that
    are away for a while; Failed if nothing came for STALL_SECONDS, at damaged data, and Recreated. The
    range must not reach beyond the last stable offset.
    """
    source = _RangeSource(client, range_, max_bytes, topic_id, whole_batches=whole_batches)
    return _read(client, source, range_, source.ask(range_.start) if range_.start < range_.stop else None)


def _read(client: Client, source: "_RangeSource", range_: Range, coming: Future | None) -> Iterator[Fetched]:
    patience = Patience(client, f"returned no records of {source}")
    position = range_.start
    while position < range_.stop:
        try:
            piece = source.piece(client.wait(coming or source.ask(position)), position)
        except KafkaError as error:
            coming = None
            patience.pause(error)
            client.forget(range_.topic)  # it may have another leader, or be another topic now
            continue
        position = piece.next_offset
        coming = source.ask(position) if position < range_.stop else None
        yield piece
        patience.progress()


def estimated_bytes(client: Client, ranges: Iterable[Range]) -> int:
    """Estimate the bytes of the batches in these ranges by samples: the longest range of each topic.

    0 if no sample came in SAMPLE_SECONDS. It never fails.
    """
    offsets = Counter[str]()
    longest: dict[str, Range] = {}
    for range_ in ranges:
        offsets[range_.topic] += len(range_)
        if len(range_) > len(longest.get(range_.topic, ())):
            longest[range_.topic] = range_
    asked = [longest[topic] for topic, _ in offsets.most_common(SAMPLES) if topic in longest]
    with suppress(KafkaError):
        client.learn(range_.topic for range_ in asked)
    coming = [
        _RangeSource(client, range_, SAMPLE_BYTES, None, whole_batches=True).ask(range_.start)
        for range_ in asked
    ]
    until = time.monotonic() + SAMPLE_SECONDS
    while missing := [future for future in coming if not future.is_done]:
        if (left := until - time.monotonic()) <= 0:
            break
        client.wait_any(missing, left)
    samples = {
        range_.topic: sample
        for range_, answer in zip(asked, coming, strict=True)
        if answer.is_done and not answer.exception and (sample := _sample(answer.value, range_.start))
    }
    if not samples:
        return 0
    sampled_bytes, sampled_offsets = map(sum, zip(*samples.values(), strict=True))
    size = 0.0
    for topic, number in offsets.items():
        of_topic = samples.get(topic, (sampled_bytes, sampled_offsets))
        size += number * of_topic[0] / of_topic[1]
    return int(size)


def _sample(answer: Any, start: int) -> tuple[int, int] | None:
    """Return the bytes of a response's whole batches, and the number of their offsets; None without any."""
    records = [partition.records for topic in answer.responses for partition in topic.partitions]
    try:
        batches = [
            batch
            for partition_records in records
            for batch in walk(partition_records or b"", check_crc=False)
        ]
    except Damaged:
        return None
    if not batches or batches[-1].last_offset < start:
        return None
    return sum(map(len, batches)), batches[-1].last_offset + 1 - min(start, batches[0].base_offset)


class _RangeSource:
    """The partition that a range is read from."""

    def __init__(
        self, client: Client, range_: Range, max_bytes: int, topic_id: UUID | None, *, whole_batches: bool
    ) -> None:
        self._client = client
        self._wanted = range_
        self._topic_partition = range_.topic_partition
        self._max_bytes = max_bytes
        self._topic_id = topic_id
        self._whole_batches = whole_batches

    def __str__(self) -> str:
        return f"{self._wanted.topic}-{self._wanted.partition}"

    def ask(self, position: int) -> Future:
        """Send a Fetch; any trouble is in the future."""
        try:
            topic_id = self._identify()
            leader = self._client.leader(*self._topic_partition)
        except KafkaError as error:
            return Future().failure(error)
        fetch = FetchRequest.FetchTopic
        partition = fetch.FetchPartition(
            partition=self._wanted.partition, fetch_offset=position, partition_max_bytes=self._max_bytes
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MILLISECONDS,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=IsolationLevel.READ_COMMITTED.value,
            topics=[fetch(topic=self._wanted.topic, topic_id=topic_id, partitions=[partition])],
            forgotten_topics_data=[],
            min_version=4,
            max_version=None if topic_id else TOPIC_IDS_SINCE - 1,
        )
        return self._client.submit(request, leader)

    def _identify(self) -> UUID | None:
        """Return the topic's id, which must stay the same; None if the broker has no topic ids (KIP-516)."""
        topic_id = self._client.topic(self._wanted.topic).id
        if topic_id and self._topic_id and topic_id != self._topic_id:
            raise Recreated(
                f"Topic {self._wanted.topic} of the {self._client.end} was deleted and re-created: its "
                f"topic ID is {topic_id} instead of {self._topic_id}. Records of the deleted topic that "
                "were not read yet are lost."
            )
        self._topic_id = self._topic_id or topic_id
        return topic_id

    def piece(self, answer: Any, position: int) -> Fetched:
        """Return what an answer to `ask` brought; a KafkaError if that is nothing yet."""
        if answer.error_code:
            raise for_code(answer.error_code)(str(self))
        if not answer.responses:
            raise NodeNotReadyError("the client has reached its quota at the broker")
        [[partition]] = [topic.partitions for topic in answer.responses]
        error = for_code(partition.error_code)
        if error is OffsetOutOfRangeError:
            return self._deleted(position)
        if error is not NoError:
            raise error(str(self))
        stop = self._wanted.stop
        batches = fetched_batches(self._client, self._topic_partition, partition, stop)
        if not batches:
            return self._nothing(position, partition.last_stable_offset)
        # What retention deletes between a fetch and its answer shows only here; other holes are compaction's.
        gone = min(batches[0].base_offset, partition.log_start_offset, stop)
        inside = (0, NO_STOP) if self._whole_batches else (position, stop)
        return Fetched(
            batches=committed_batches(partition, batches, *inside),
            next_offset=min(batches[-1].last_offset + 1, stop),
            lost=(position, gone) if gone > position else None,
        )

    def _deleted(self, position: int) -> Fetched:
        """Return the deleted offsets from a position that is out of range."""
        start = log_start_above(self._client, self._topic_partition, position)
        reached = min(start, self._wanted.stop)
        return Fetched((), reached, (position, reached))

    def _nothing(self, position: int, stable: int) -> Fetched:
        """Return the end of a range of which compaction removed the rest; an error if it isn't there yet."""
        local = local_starts(self._client, [self._topic_partition])[self._topic_partition]
        if stable < self._wanted.stop or position < local:  # the broker waits for what is tiered, in vain
            raise OffsetNotAvailableError(
                f"the broker returned no records from offset {position} on; the last stable offset is "
                f"{stable}"
            )
        return Fetched((), self._wanted.stop)


def fetched_batches(
    client: Client,
    topic_partition: TopicPartition,
    answer: Any,
    stop: int = NO_STOP,
    *,
    up_to_damage: bool = False,
) -> list[Batch]:
    """Return the whole batches of a partition's answer, up to the one that reaches the offset `stop`.

    Damaged at a batch that cannot be read; with `up_to_damage` only if none is before it.
    """
    batches = []
    try:
        for batch in walk(answer.records or b""):
            batches.append(batch)
            if batch.last_offset + 1 >= stop:
                break
    except Damaged as error:
        if not (up_to_damage and batches):
            raise Damaged(f"{topic_partition} of the {client.end} cannot be read. {error}") from None
    return batches


def committed_batches(
    answer: Any, batches: Iterable[Batch], start: int = 0, stop: int = NO_STOP
) -> tuple[Batch, ...]:
    """Return the committed ones of a partition's answer, cut to the offsets `start` to `stop`, exclusive."""
    aborted = (
        (transaction.producer_id, transaction.first_offset)
        for transaction in answer.aborted_transactions or ()
    )
    kept = (_cut(batch, start, stop) for batch in committed(batches, aborted))
    return tuple(batch for batch in kept if batch and batch.count)


def _cut(batch: Batch, start: int, stop: int) -> Batch | None:
    if start <= batch.base_offset and batch.last_offset < stop:
        return batch
    from aqueduct.kafka.batches.cutting import Window, cut  # with numpy, which not every host has

    return cut(batch, Window(start=start, stop=stop))


def log_start_above(client: Client, topic_partition: TopicPartition, position: int) -> int:
    """Return where the log starts, of a position that is out of range because what was there was deleted.

    OffsetNotAvailableError if the position is beyond the log's end.
    """
    start = log_starts(client, [topic_partition])[topic_partition]
    if start <= position:  # a leader that has less than another had: it may get it yet
        raise OffsetNotAvailableError(f"{topic_partition} ends before offset {position}")
    return start
