"""Reading the ledger."""

from collections.abc import Iterable

from aqueduct.batches.bodies import key_and_value
from aqueduct.batches.records import records
from aqueduct.errors import Refused
from aqueduct.io.kafka import offsets
from aqueduct.io.kafka.client import Client, Place
from aqueduct.io.kafka.fetch import read
from aqueduct.ledger.entry import Partition, partitions
from aqueduct.ranges import Range


def whole(client: Client, topic: str) -> dict[Place, Partition]:
    """The ledger of every partition. Refused if there is no such topic."""
    found = client.topics([topic])
    if topic not in found:
        raise Refused(f"The {client.end} has no gap topic {topic}.")
    return part(client, topic, range(len(found[topic].partitions)))


def part(client: Client, topic: str, numbers: Iterable[int]) -> dict[Place, Partition]:
    """The ledger in some of the gap topic's partitions, read committed. Failed if it is none."""
    places = [(topic, number) for number in numbers]
    starts, ends = offsets.log_starts(client, places), offsets.ends(client, places)
    newest: dict[str, str] = {}
    for place in places:
        for piece in read(client, Range(*place, starts[place], ends[place])):
            for record in (each for batch in piece.batches for each in records(batch)):
                key, value = (_text(each) for each in key_and_value(record.body))
                if value is None:
                    newest.pop(key or "", None)
                else:
                    newest[key or ""] = value
    return partitions(newest)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
