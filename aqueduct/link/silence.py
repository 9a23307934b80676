"""Silence that a ledger can't see: a sender that isn't heard of, and arrivals that dedup didn't read.

Only what was announced can be missing. So where nothing comes at all, nothing is missing, and all may be.
"""

import time
from collections.abc import Iterable, Iterator

from aqueduct.common import timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.wording import count
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import read

TAIL = 10  # offsets before a position, among which one is a record's
COMMITTED_SECONDS = 5.0  # which the first commit of a transaction may take to be seen


def silent(client: Client, raw_topics: Iterable[str], seconds: float) -> Iterator[str]:
    """Yield sentences on raw topics that got nothing for longer; one that is not there went with its link."""
    now = timestamps.now()
    topics = client.topics(list(raw_topics))
    every = [partition for topic in topics.values() for partition in topic.topic_partitions]
    # Not by the newest time alone, which is not told while that record is not replicated.
    heard = offsets.since(client, every, now - int(seconds * 1000))
    times = offsets.newest(client, [partition for partition in every if heard[partition] < 0])
    for name, topic in topics.items():
        if any(heard[partition] >= 0 for partition in topic.topic_partitions):
            continue
        newest = max(times[partition] for partition in topic.topic_partitions)
        kept = "ever, or for longer than the retention of this topic"
        how_long = kept if newest < 0 else f"for {(now - newest) // 1000} s"
        yield (
            f"No data arrived from the sender of raw topic {name} {how_long}, although a sender sends "
            "announcements every minute. It is unknown which later offsets are missing. Check that both "
            "ends run, and that the network interface of the receiving end has the MAC address in mac of "
            "the link. If the link no longer exists, delete the topic."
        )


def unread(client: Client, raw_topics: Iterable[str], group: str, seconds: float) -> Iterator[str]:
    """Yield sentences on raw topics of which dedup has not read what came longer ago."""
    now = timestamps.now()
    for topic in client.topics(list(raw_topics)).values():
        partitions = topic.topic_partitions
        since = offsets.since(client, partitions, now - int(seconds * 1000))
        starts, ends = offsets.log_starts(client, partitions), offsets.ends(client, partitions)
        committed = groups.progress(client, group, partitions)
        left = 0
        for partition in partitions:
            old = since[partition] if since[partition] >= 0 else ends[partition]
            left += max(0, old - max(starts[partition], committed.get(partition, (0, ""))[0]))
        if left:
            yield (
                f"{count(left, 'record')} of raw topic {topic.name} arrived more than {seconds:g} s ago, "
                "but dedup has not read them, so it is unknown which offsets are missing. Check that dedup "
                "runs."
            )


def ages(client: Client, raw_topics: Iterable[str], group: str) -> Iterator[tuple[str, int | None]]:
    """Yield each raw topic, and the age in seconds of the newest arrival that dedup has read; None: nothing.

    It grows while dedup is stopped or behind. Announcements that still have their grace are not read yet.
    """
    now = timestamps.now()
    for topic in client.topics(list(raw_topics)).values():
        partitions = topic.topic_partitions
        starts = offsets.log_starts(client, partitions)
        committed = groups.progress(client, group, partitions)
        times = [
            batch.max_time
            for partition in partitions
            if (reached := committed.get(partition, (0, ""))[0]) > starts[partition]
            for piece in read(client, Range(*partition, max(starts[partition], reached - TAIL), reached))
            for batch in piece.batches
        ]
        yield topic.name, max(0, now - max(times)) // 1000 if times else None


def raw_topics_of(client: Client, group: str) -> list[str]:
    """Return the raw topics that dedup has read as this group."""
    deadline = time.monotonic() + COMMITTED_SECONDS
    while not (committed := groups.committed(client, [group])[group]) and time.monotonic() < deadline:
        client.sleep(0.2)
    return sorted({topic for topic, _ in committed})
