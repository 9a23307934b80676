"""Check that a cluster with a new quorum has the restored topics and their records."""

import base64
import time
from collections.abc import Iterator

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.kafka import offsets
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS
from aqueduct.kafka.client import Client
from aqueduct.recovery.quorum.plan import QuorumPlan


def check(client: Client, promised: QuorumPlan) -> list[str]:
    """Return a sentence for each difference from the plan, after the brokers had time to load partitions."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := [*_left(client, promised)]) and time.monotonic() < deadline:
        client.sleep(POLL_SECONDS)
    return left


def _left(client: Client, promised: QuorumPlan) -> Iterator[str]:
    topic_by_id = {
        base64.urlsafe_b64encode(topic.id.bytes).decode().rstrip("="): topic
        for topic in client.ask_topics(None).values()
        if topic.id
    }
    promised_topics = promised.metadata.image.topics
    if gone := sorted(topic.name for topic in promised_topics.values() if topic.topic_id not in topic_by_id):
        yield f"{count(len(gone), 'topic')} missing, or with another topic id: {some(gone)}."
    leaders = {
        partition.topic_partition: partition.leader
        for topic_id, topic in topic_by_id.items()
        if topic_id in promised_topics
        for partition in topic.partitions
    }
    partitions = [
        TopicPartition(topic.name, number)
        for topic in promised_topics.values()
        if topic.topic_id in topic_by_id
        for number in topic.partitions
    ]
    if gone_too := sorted(set(partitions) - leaders.keys()):
        yield f"{count(len(gone_too), 'partition')} missing: {some(gone_too)}."
    led = sorted(partition for partition in partitions if leaders.get(partition) is not None)
    if waiting := sorted(set(partitions) - set(led) - set(gone_too)):
        yield f"{count(len(waiting), 'partition')} without a leader: {some(waiting)}."
    ends = offsets.ends(client, led, "read_uncommitted")
    for partition in led:
        if (lacking := promised.comparison.committed.get(partition, 0) - ends[partition]) > 0:
            yield (
                f"{partition} ends {count(lacking, 'offset')} before the high watermark that a broker stored "
                f"({promised.comparison.committed[partition]:,})."
            )
