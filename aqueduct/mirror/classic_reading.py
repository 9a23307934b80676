"""Read how far a classic MirrorMaker is: its group, and the logs, of a source that may be as old as 0.10.

By kafka-python's own consumer, which speaks such brokers' versions; `kafka.client` wants newer ones.
"""

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import OffsetAndMetadata

from aqueduct.errors import Refused
from aqueduct.kafka import addresses
from aqueduct.kafka.answers import RECONNECT, answering, reaching
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from aqueduct.mirror import classic, status
from aqueduct.mirror.reading import CONNECT_SECONDS, TAIL_OFFSETS, TAIL_SECONDS
from aqueduct.mirror.status import Log, MirrorProgress
from aqueduct.names import TopicPartition

TRANSACTIONS_SINCE = (0, 11)  # KIP-98
READING: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}


class ClassicReader:
    """The flow from `source`: of topics like `pattern` there, whose names get `prefix` at the target."""

    def __init__(
        self, source: str, pattern: re.Pattern[str], prefix: str, clients: "Clients", target: Client
    ) -> None:
        self.source = source
        self._pattern, self._prefix = pattern, prefix
        self._clients, self._target = clients, target
        self._progress: list[MirrorProgress] = []

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        """Return what does not run or cannot be read, and how far each partition is."""
        found, group = self._clients, self._clients.group
        with answering(found.end.bootstrap_servers):
            partitions = self._partitions()
            progress = classic.progress(self._committed(partitions), self._logs(partitions))
            progress = self._without_markers(progress)
            # Where no group ever was, the consumer has waited for the coordinator; this doesn't.
            state = found.admin.describe_groups([group])[group]["group_state"] if partitions else "Stable"
        with answering(self._target.end.bootstrap_servers):
            at_source = Counter(topic for topic, _ in partitions)
            there = self._target.topics(self._prefix + topic for topic in at_source)
        at_target = {name: len(topic.partitions) for name, topic in there.items()}
        findings = classic.group_findings(self.source, group, state)
        findings += classic.topic_findings(self.source, self._prefix, at_source, at_target)
        self._progress = progress
        return findings + status.hidden_findings(self.source, partitions, progress), progress

    def position_findings(self) -> list[str]:
        """Return which positions do not fit their topics, as the last look found them."""
        return status.recreated_findings(self.source, self._progress)

    def unknown(self) -> list[str]:
        """Return what the last look could not find out."""
        return classic.unknown(self.source, [each.partition for each in self._progress])

    def begin_at_ends(self) -> int:
        """Give a group without a position the logs' ends; return how many. Refused without a topic."""
        with answering(self._clients.end.bootstrap_servers):
            partitions = self._partitions()
            if not partitions:
                raise Refused(
                    "pattern-matches-nothing",
                    f"No topic of {self.source} matches the flow's patterns, and so none has an end to begin "
                    "at; begin when they are there, or at the earliest.",
                )
            if any(at is not None for at in self._committed(partitions).values()):
                return 0
            consumer = self._clients.consumer
            ends = consumer.end_offsets(_theirs(partitions))
            consumer.assign(list(ends))
            consumer.commit({each: OffsetAndMetadata(at, "", -1) for each, at in ends.items()})
            return len(ends)

    def _partitions(self) -> list[TopicPartition]:
        consumer = self._clients.consumer
        names = sorted(filter(self._pattern.fullmatch, consumer.topics()))
        return [TopicPartition(name, each) for name in names for each in consumer.partitions_for_topic(name)]

    def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        return {each: self._clients.consumer.committed(kafka.TopicPartition(*each)) for each in partitions}

    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Log]:
        asked = _theirs(partitions)
        starts = self._clients.consumer.beginning_offsets(asked)
        ends = self._clients.consumer.end_offsets(asked)
        return {TopicPartition(*each): Log(starts[each], ends[each]) for each in asked}

    def _without_markers(self, progress: Collection[MirrorProgress]) -> list[MirrorProgress]:
        """Find out which partitions hold only transactions' markers from the next offset to their end."""
        consumer = self._clients.consumer
        tails = {
            kafka.TopicPartition(*each.partition): each.log
            for each in progress
            if self._clients.has_transactions and not each.recreated and 0 < each.behind <= TAIL_OFFSETS
        }
        consumer.assign(list(tails))
        for each in progress:
            if each.partition in tails:
                consumer.seek(kafka.TopicPartition(*each.partition), max(each.next, each.log.start))
        drained: set[kafka.TopicPartition] = set()
        deadline = time.monotonic() + TAIL_SECONDS
        while tails and time.monotonic() < deadline:
            for partition in consumer.poll(timeout_ms=100):
                tails.pop(partition, None)
            drained |= {each for each, log in tails.items() if consumer.position(each) >= log.end}
            tails = {each: log for each, log in tails.items() if each not in drained}
        return [replace(each, drained=each.partition in drained) for each in progress]


def _theirs(partitions: Collection[TopicPartition]) -> list[kafka.TopicPartition]:
    return [kafka.TopicPartition(*each) for each in partitions]


@dataclass(frozen=True)
class Clients:
    """kafka-python's clients of the source. `opened` makes and closes them."""

    end: End
    group: str
    admin: KafkaAdminClient
    consumer: KafkaConsumer

    @property
    def has_transactions(self) -> bool:
        return bool(self.consumer.config["api_version"] >= TRANSACTIONS_SINCE)


@contextmanager
def opened(end: End, group: str, client_id: str) -> Iterator[Clients]:
    """Yield clients of a source; Failed if no broker answers."""
    settings: dict[str, Any] = {
        "bootstrap_servers": end.bootstrap_servers.split(","),
        "client_id": client_id,
        "bootstrap_timeout_ms": CONNECT_SECONDS * 1000,
        "kafka_client": addresses.client,
        **RECONNECT,
        **end.client_config.kafka_python(),
    }
    with ExitStack() as stack:

        def consumer(isolation: str) -> KafkaConsumer:
            with reaching(end.bootstrap_servers, CONNECT_SECONDS):
                made = KafkaConsumer(group_id=group, isolation_level=isolation, **READING, **settings)
            stack.callback(made.close, autocommit=False)
            return made

        with reaching(end.bootstrap_servers, CONNECT_SECONDS):
            admin = stack.enter_context(closing(KafkaAdminClient(**settings)))
        # Older brokers know of no transactions, and refuse to be asked for what was committed.
        found = Clients(end, group, admin, consumer("read_uncommitted"))
        yield replace(found, consumer=consumer("read_committed")) if found.has_transactions else found
