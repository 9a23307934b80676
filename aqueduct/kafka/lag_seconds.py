"""The age of the oldest record that a reader of partitions has not read yet: its lag in seconds."""

from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import TOPIC_IDS_SINCE

FETCHED_TOGETHER = 100  # partitions
PARTITION_BYTES = 64 << 10  # fetched of each of these; a larger batch is fetched alone


def unread_ages(client: Client, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """Return the age, in seconds, of the first record from each position on, as far as it is known.

    It is that of the record's batch: of the first time in it, so at most the linger of its producer too much.
    """
    now = timestamps.now()
    ages = {}
    for partition, batch in _first_batches(client, positions).items():
        written = batch.max_time if batch.log_append_time else batch.base_time
        if written >= 0:
            ages[partition] = max(0.0, (now - written) / 1000)
    return ages


def _first_batches(client: Client, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Batch]:
    """Return the first batch at each position, as far as one comes."""
    batches: dict[TopicPartition, Batch] = {}
    for together in (FETCHED_TOGETHER, 1):
        missing = {partition: positions[partition] for partition in positions.keys() - batches.keys()}
        batches |= {
            partition: batch
            for partition, batch in _fetch(client, missing, together).items()
            if batch is not None
        }
    return batches


def _fetch(
    client: Client, positions: Mapping[TopicPartition, int], together: int
) -> dict[TopicPartition, Batch | None]:
    kind = FetchRequest.FetchTopic

    def request(asked: list[TopicPartition]) -> FetchRequest:
        by_topic: dict[str, list[Any]] = {}
        for partition in asked:
            by_topic.setdefault(partition.topic, []).append(
                kind.FetchPartition(
                    partition=partition.partition,
                    fetch_offset=positions[partition],
                    partition_max_bytes=PARTITION_BYTES,
                )
            )
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=together * PARTITION_BYTES,
            isolation_level=IsolationLevel.READ_UNCOMMITTED.value,
            topics=[kind(topic=name, partitions=entries) for name, entries in by_topic.items()],
            forgotten_topics_data=[],
            min_version=4,
            max_version=TOPIC_IDS_SINCE - 1,
        )

    def answers(response: Any) -> Iterator[tuple[TopicPartition, Batch | KafkaError | None]]:
        for topic in response.responses:
            for partition in topic.partitions:
                name = TopicPartition(topic.topic, partition.partition_index)
                if partition.error_code:
                    yield name, for_code(partition.error_code)(str(name))
                else:
                    yield name, _first(partition.records or b"")

    return offsets.of_leaders(client, positions, request, answers, {}, limit=together)


def _first(records: bytes) -> Batch | None:
    try:
        return next(walk(records, check_crc=False), None)
    except Damaged:
        return None
