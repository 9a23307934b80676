"""The newest ranges that did not cross a link, by the time when the ledger noticed them."""

from dataclasses import dataclass

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.client import connect
from aqueduct.kafka.compacted_topics import keys_and_values
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.losses import LossHistory, LostRange
from aqueduct.link.options import ListLosses


@dataclass(frozen=True)
class Losses:
    ranges: tuple[LostRange, ...]  # the newest ones first
    has_entries: bool  # False: what is missing is not known


def losses(settings: ListLosses) -> Losses:
    """Read the gap topic twice: what is missing now, and when that was noticed."""
    history = LossHistory()
    with connect(settings.end("target"), f"{settings.id}-lost") as client:
        numbers = gap_topic.numbers(client, settings.topic)
        ledger = gap_topic.part(client, settings.topic, numbers)
        partitions = [TopicPartition(settings.topic, number) for number in numbers]
        starts, ends = offsets.log_starts(client, partitions), offsets.ends(client, partitions)
        ranges = [Range(*partition, starts[partition], ends[partition]) for partition in partitions]
        for _, records in keys_and_values(client, ranges):
            for key, value in records:
                if value is not None:
                    history.add((key or b"").decode(errors="replace"), value.decode(errors="replace"))
    return Losses(tuple(history.newest(ledger, settings.newest)), bool(ledger))
