"""Asks a cluster how the topics are that tables take."""

from collections.abc import Iterable, Mapping

from aqueduct.kafka import offsets
from aqueduct.kafka.client import Client, Topic
from aqueduct.land.plan import NO_LEADER, SourceTopic


def source_topics(
    client: Client, topics: Mapping[str, Topic], names: Iterable[str]
) -> dict[str, SourceTopic]:
    """Return these of the cluster's topics, by name."""
    taken = [topics[name] for name in names]
    led = [partition for topic in taken for partition in topic.led_partitions]
    starts, stable = offsets.log_starts(client, led), offsets.stable_ends(client, led)
    return {
        topic.name: SourceTopic(
            name=topic.name,
            id=str(topic.id),
            starts=tuple(starts.get(partition, 0) for partition in topic.topic_partitions),
            ends=tuple(
                max(starts[partition], stable[partition].offset) if partition in stable else NO_LEADER
                for partition in topic.topic_partitions
            ),
            epochs=tuple(
                stable[partition].epoch if partition in stable else NO_LEADER
                for partition in topic.topic_partitions
            ),
        )
        for topic in taken
    }
