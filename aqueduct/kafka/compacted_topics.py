"""Compacted topics as the tables that they are: the newest value of every key.

In plain Python, because hosts without numpy read them, too.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.plain_records import bodies
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import Fetched, read

AHEAD = 16  # partitions of which the first batches are on their way while others are read

# Of the state of a mirror: some KiB for each of 100,000 partitions.
MOST_STATE_BYTES = 512 << 20

KeyValue = tuple[bytes | None, bytes | None]


class TableTooLarge(Failed):
    """A topic with more keys and values than its service writes."""

    id = "compacted-topic-too-large"


class Row(NamedTuple):
    """The newest value of a key, and the partition that holds it."""

    value: bytes
    partition: TopicPartition


class Table:
    """The rows of some partitions by key, read committed, tombstones left out; `refresh` reads on."""

    def __init__(
        self,
        client: Client,
        on_record: Callable[[bytes, bytes | None], None] | None = None,
        *,
        most_bytes: int | None = None,
    ) -> None:
        """`on_record` is called with every record, in the order of its partition.

        `most_bytes`: of all keys and values together; TableTooLarge if there are more.
        """
        self.rows: dict[bytes, Row] = {}
        self._client = client
        self._on_record = on_record
        self._most_bytes = most_bytes
        self._bytes = 0  # of all rows
        self._positions: dict[TopicPartition, int] = {}

    def refresh(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions from where it was to their ends."""
        starts, ends = offsets.log_starts(self._client, partitions), offsets.ends(self._client, partitions)
        ranges = [
            Range(*partition, max(starts[partition], self._positions.get(partition, 0)), ends[partition])
            for partition in partitions
        ]
        for range_, records in keys_and_values(self._client, ranges):
            for key, value in records:
                self.add(range_.topic_partition, key or b"", value)
        self._positions |= ends

    def add(self, partition: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Add a record of a partition."""
        if self._on_record:
            self._on_record(key, value)
        if former := self.rows.get(key):
            self._bytes -= len(key) + len(former.value)
        if value is None:
            self.rows.pop(key, None)
            return
        self._bytes += len(key) + len(value)
        if self._most_bytes is not None and self._bytes > self._most_bytes:
            raise TableTooLarge(
                f"The topic {partition.topic} has more than {self._most_bytes >> 20} MiB of keys and newest "
                "values, so the topic was not read. Find out which other client writes to this topic: only "
                "the service of the topic should write to it."
            )
        self.rows[key] = Row(value, partition)


def newest(client: Client, partitions: Collection[TopicPartition]) -> dict[bytes, Row]:
    """Return the rows of these partitions together, by key."""
    table = Table(client)
    table.refresh(partitions)
    return table.rows


def texts(rows: dict[bytes, Row]) -> dict[str, str]:
    """Return keys and values as text."""
    return {key.decode(errors="replace"): row.value.decode(errors="replace") for key, row in rows.items()}


def keys_and_values(
    client: Client, ranges: Iterable[Range], max_bytes: int = 1 << 20
) -> Iterator[tuple[Range, list[KeyValue]]]:
    """Yield committed records of ranges, range after range, each in as many lists as answers came."""
    coming: deque[tuple[Range, Iterator[Fetched]]] = deque()
    for range_ in ranges:
        coming.append((range_, read(client, range_, max_bytes=max_bytes, whole_batches=True)))
        if len(coming) > AHEAD:
            yield from _parsed(*coming.popleft())
    while coming:
        yield from _parsed(*coming.popleft())


def _parsed(range_: Range, pieces: Iterable[Fetched]) -> Iterator[tuple[Range, list[KeyValue]]]:
    for piece in pieces:
        records = (record for batch in piece.batches for record in bodies(batch))
        yield (
            range_,
            [key_and_value(body) for offset, body in records if range_.start <= offset < range_.stop],
        )
