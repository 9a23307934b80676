"""Compacted topics as the tables that they are: the newest value of every key.

In plain Python, because hosts without numpy read them, too.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.plain_records import bodies
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import Fetched, read

AHEAD = 16  # partitions of which the first batches are on their way while others are read

KeyValue = tuple[bytes | None, bytes | None]


class Row(NamedTuple):
    """The newest value of a key, and the partition that holds it."""

    value: bytes
    partition: TopicPartition


class Table:
    """The rows of some partitions by key, read committed, tombstones left out; `refresh` reads on."""

    def __init__(
        self, client: Client, on_record: Callable[[bytes, bytes | None], None] | None = None
    ) -> None:
        """`on_record` is called with every record, in the order of its partition."""
        self.rows: dict[bytes, Row] = {}
        self._client = client
        self._on_record = on_record
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
                if self._on_record:
                    self._on_record(key or b"", value)
                if value is None:
                    self.rows.pop(key or b"", None)
                else:
                    self.rows[key or b""] = Row(value, range_.topic_partition)
        self._positions |= ends


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
