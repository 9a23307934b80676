"""Hanging transactions: their coordinator does not know that a partition is part of them."""

from collections.abc import Iterable
from typing import Any

from kit import clients

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.produce import Ready, ready
from aqueduct.kafka.client import Client
from aqueduct.kafka.fetch import read
from aqueduct.kafka.produce import TransactionalProducer

# A broker that does not ask the coordinator whether a partition is part of the transaction (KIP-890, part 1):
# as brokers before 3.6, and one whose coordinator forgot the partition.
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


def one_record(client: Client, kafka: Any, value: str = "lost") -> Ready:
    """Return a batch with one record for a produce request."""
    place = TopicPartition(clients.create(kafka, clients.unique("source")), 0)
    clients.produce(kafka, place.topic, [{"key": "key", "value": value}])
    wanted = Range(*place, 0, offsets.ends(client, [place])[place])
    batches = [batch for piece in read(client, wanted) for batch in piece.batches]
    [found] = ready(batches, max_bytes=1 << 20)
    return found


class Forgotten(TransactionalProducer):
    """A producer whose coordinator does not know the partitions that it writes to."""

    def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        self._partitions.update(partitions)

    def impersonate(self, producer_id: int, epoch: int) -> None:
        """Use a producer id that no coordinator knows."""
        self._producer_id, self._epoch = producer_id, epoch

    def write(self, topic: str, partition: int, record: Ready) -> None:
        """Write a record to a partition, and wait for the leader's answer."""
        self.send(topic, partition, record)
        self.drain()

    def commit_next(self, topic: str, partition: int, record: Ready) -> None:
        """Commit another transaction on the partition, with the same producer epoch."""
        self._forget_transaction()
        super().enlist([TopicPartition(topic, partition)])
        self.send(topic, partition, record)
        self.commit()


def hang(client: Client, kafka: Any, topic: str, transactional_id: str, partition: int = 0) -> Forgotten:
    """Leave a hanging transaction of one record on a partition."""
    producer = Forgotten(client, transactional_id)
    producer.begin()
    producer.write(topic, partition, one_record(client, kafka))
    return producer
