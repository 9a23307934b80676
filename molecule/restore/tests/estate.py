"""The scenario's site, and what is written to it."""

from itertools import islice

import edge_cases
from backed_up import BackedUpSite
from confluent_kafka import Consumer, Producer, TopicPartition
from edge_cases import KINDS
from lab import Record, wait_until

from demo.flights import flights

SITE, LAKE, STORE = "pro1-kafka-1", "lake-kafka-1", "lake-store-1"
MASTER, WORKERS = "lake-spark-1", ("lake-spark-2", "lake-spark-3")
FLIGHTS = 20_000
LONGEST = "n" * 249  # characters, which is Kafka's limit

EDGE, COMPACTED, TRANSACTIONS, OPEN, BY_BROKER = (
    "edge.cases_of-all",
    "compacted",
    "transactions",
    "open",
    "by-broker",
)


class Estate(BackedUpSite):
    site, store = SITE, STORE

    def fill(self) -> None:
        """Every kind of record and topic, and transactions that ended."""
        origin = (Record(each.key, each.value, each.headers, each.timestamp) for each in flights("EWR"))
        self.write("flights", islice(origin, FLIGHTS))
        self.make(EDGE, 2)
        self.write(EDGE, KINDS, partition=0)
        self.make(LONGEST, 3)
        self.write(LONGEST, KINDS, partition=1)
        self.make(BY_BROKER, message_timestamp_type="LogAppendTime", retention_ms="86400000")
        self.write(BY_BROKER, KINDS, partition=0)
        self.make(COMPACTED, **edge_cases.COMPACTED)
        compacted = edge_cases.fill_compacted(self.lab, SITE, COMPACTED)
        wait_until("holes in the compacted topic", compacted, every=1)
        self.make(TRANSACTIONS)
        self.make(OPEN)
        for number_ in range(0, 10, 2):
            edge_cases.transaction(self.lab, SITE, TRANSACTIONS, "commit", number_)
            edge_cases.transaction(self.lab, SITE, TRANSACTIONS, "abort", number_ + 1)
        self.write_numbers(OPEN, 10)

    def open_transaction(self) -> Producer:
        """Begin one in OPEN; for as long as the producer is kept, or until its time is up, it stays so."""
        return edge_cases.transaction(self.lab, SITE, OPEN, "open", 0)

    def committed(self, group: str, topic: str, partition: int = 0) -> TopicPartition:
        consumer = Consumer(self.lab.client(SITE) | {"group.id": group, "enable.auto.commit": False})
        try:
            [found] = consumer.committed([TopicPartition(topic, partition)], timeout=60)
            return found
        finally:
            consumer.close()

    def next_record(self, group: str, topic: str, partition: int = 0) -> Record | None:
        """The first record that a reader of the group gets; None at the log's end."""
        offset = self.committed(group, topic, partition).offset
        assert offset >= 0, f"{group} has no position in {topic}-{partition}"
        records = self.lab.read_offsets(SITE, topic)[partition]
        return next((record for at, record in records if at >= offset), None)
