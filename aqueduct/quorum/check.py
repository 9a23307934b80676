"""Whether a cluster with a new quorum has the topics that it began with, and their records."""

import base64
import time
from collections.abc import Iterator

from aqueduct.kafka import offsets
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS
from aqueduct.kafka.client import Client
from aqueduct.names import TopicPartition
from aqueduct.quorum.plan import QuorumPlan
from aqueduct.wording import count, some


def check(client: Client, promised: QuorumPlan) -> list[str]:
    """Return what the brokers lack of it, once they had the time to take up their partitions."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := [*_left(client, promised)]) and time.monotonic() < deadline:
        client.sleep(POLL_SECONDS)
    return left


def _left(client: Client, promised: QuorumPlan) -> Iterator[str]:
    there = {
        base64.urlsafe_b64encode(each.id.bytes).decode().rstrip("="): each
        for each in client.ask_topics(None).values()
        if each.id
    }
    wanted = promised.metadata.image.topics
    if gone := sorted(each.name for each in wanted.values() if each.topic_id not in there):
        yield f"{count(len(gone), 'topic')} not there with the id that it had: {some(gone)}."
    found = {
        each.topic_partition: each.leader
        for topic_id, topic in there.items()
        if topic_id in wanted
        for each in topic.partitions
    }
    partitions = [
        TopicPartition(topic.name, number)
        for topic in wanted.values()
        if topic.topic_id in there
        for number in topic.partitions
    ]
    if gone_too := sorted(set(partitions) - found.keys()):
        yield f"{count(len(gone_too), 'partition')} not there: {some(gone_too)}."
    led = sorted(each for each in partitions if found.get(each) is not None)
    if waiting := sorted(set(partitions) - set(led) - set(gone_too)):
        yield f"{count(len(waiting), 'partition')} without a leader: {some(waiting)}."
    ends = offsets.ends(client, led, "read_uncommitted")
    for each in led:
        if (lacking := promised.fit.committed.get(each, 0) - ends[each]) > 0:
            of = f"{promised.fit.committed[each]:,}, up to which it was committed"
            yield f"{each} ends {count(lacking, 'offset')} before {of}."
