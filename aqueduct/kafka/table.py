"""A compacted topic as the table that it is: the newest value of every key."""

from collections.abc import Collection

from aqueduct.kafka import offsets
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import records
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import read
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range


def newest(client: Client, places: Collection[TopicPartition]) -> dict[str, str]:
    """Of these partitions together, read committed, as text; tombstones are left out."""
    starts, ends = offsets.log_starts(client, places), offsets.ends(client, places)
    table: dict[str, str] = {}
    for place in places:
        for piece in read(client, Range(*place, starts[place], ends[place])):
            for record in (each for batch in piece.batches for each in records(batch)):
                key, value = (_text(each) for each in key_and_value(record.body))
                if value is None:
                    table.pop(key or "", None)
                else:
                    table[key or ""] = value
    return table


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
