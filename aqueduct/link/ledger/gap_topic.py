"""The ledger, read from the gap topic."""

from collections.abc import Iterable

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.client import Client
from aqueduct.kafka.compacted_topics import newest, texts
from aqueduct.link.ledger.entry import LedgerPartition, partitions


def numbers(client: Client, topic: str) -> range:
    """Return the numbers of the gap topic's partitions; Refused if there is no such topic."""
    topics = client.topics([topic])
    if topic not in topics:
        raise Refused("topic-unknown", f"The {client.end} has no gap topic {topic}.")
    return range(len(topics[topic].partitions))


def whole(client: Client, topic: str) -> dict[TopicPartition, LedgerPartition]:
    """Return the ledger of every partition. Refused if there is no such topic."""
    return part(client, topic, numbers(client, topic))


def part(client: Client, topic: str, numbers: Iterable[int]) -> dict[TopicPartition, LedgerPartition]:
    """Read the ledger in some of the gap topic's partitions, read committed. Failed if it isn't one."""
    return partitions(texts(newest(client, [TopicPartition(topic, number) for number in numbers])))


def check_kept(client: Client, topic: str) -> None:
    """Check the gap topic's settings; Refused where Kafka would forget what it says."""
    [policy] = setting(client, [topic], "cleanup.policy").values()
    if policy != "compact":
        raise Refused(
            "gap-topic-not-compacted",
            f"Gap topic {topic} has cleanup.policy={policy}, so brokers would delete the list of missing "
            f"offsets. Run kafka-configs --alter --topic {topic} --add-config cleanup.policy=compact",
        )
