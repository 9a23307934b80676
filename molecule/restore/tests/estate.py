"""The scenario's site: what is written to it, and our command line against it."""

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import edge_cases
from confluent_kafka import Consumer, Producer, TopicPartition
from edge_cases import KINDS
from lab import Lab, Record, wait_until

from demo.flights import flights

SITE, LAKE, STORE = "pro1-kafka-1", "lake-kafka-1", "lake-store-1"
FLIGHTS = 20_000
NUMBERS_SINCE = 1_700_000_000_000  # the time of number 0: 2023-11-14T22:13:20Z
LONGEST = "n" * 249  # characters, which is Kafka's limit

EDGE, COMPACTED, TRANSACTIONS, OPEN, BY_BROKER = (
    "edge.cases_of-all",
    "compacted",
    "transactions",
    "open",
    "by-broker",
)


@dataclass(frozen=True)
class Estate:
    lab: Lab

    # Writing

    def make(self, topic: str, partitions: int = 1, **config: str) -> None:
        edge_cases.make(self.lab, SITE, topic, partitions, **config)

    def write(self, topic: str, records: Iterable[Record], partition: int = -1) -> None:
        edge_cases.write(self.lab, SITE, topic, records, partition)

    def write_numbers(self, topic: str, count: int, partitions: int = 1) -> None:
        for partition in range(partitions):
            self.write(topic, (number(each) for each in range(count)), partition)

    def fill(self) -> Producer:
        """Every kind of record, topic and transaction; the producer has a transaction open."""
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
        wait_until("holes in the compacted topic", compacted, 90, every=1)
        self.make(TRANSACTIONS)
        self.make(OPEN)
        for number_ in range(0, 10, 2):
            edge_cases.transaction(self.lab, SITE, TRANSACTIONS, "commit", number_)
            edge_cases.transaction(self.lab, SITE, TRANSACTIONS, "abort", number_ + 1)
        self.write_numbers(OPEN, 10)
        return edge_cases.transaction(self.lab, SITE, OPEN, "open", 0)

    # Groups

    def commit(self, group: str, topic: str, offset: int, partition: int = 0, metadata: str = "") -> None:
        consumer = Consumer(self.lab.client(SITE) | {"group.id": group, "enable.auto.commit": False})
        consumer.commit(
            offsets=[TopicPartition(topic, partition, offset, metadata=metadata)], asynchronous=False
        )
        consumer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> TopicPartition:
        consumer = Consumer(self.lab.client(SITE) | {"group.id": group, "enable.auto.commit": False})
        try:
            [found] = consumer.committed([TopicPartition(topic, partition)], timeout=30)
            return found
        finally:
            consumer.close()

    def next_record(self, group: str, topic: str, partition: int = 0) -> Record | None:
        """The first record that a reader of the group gets; None at the log's end."""
        offset = self.committed(group, topic, partition).offset
        assert offset >= 0, f"{group} has no position in {topic}-{partition}"
        records = self.lab.read_offsets(SITE, topic)[partition]
        return next((record for at, record in records if at >= offset), None)

    # Our command line, from this machine

    def environment(self, user: str = "scenario") -> dict[str, str]:
        secret = (self.lab.pki / "passwords" / f"object-store.{user}").read_text().strip()
        return {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL": f"https://{self.lab.address(STORE)}",
            "AWS_REGION": "us-east-1",
            "AWS_CA_BUNDLE": str(self.lab.pki / "ca/ca.pem"),
        }

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[str]:
        cluster: tuple[str, ...] = ()
        if verb in ("backup", "restore"):
            properties = str(self.lab.pki / "clients/admin.properties")
            cluster = ("--bootstrap-servers", self.lab.address(SITE), "--client-config", properties)
        return subprocess.Popen(
            [sys.executable, "-m", "aqueduct.cli", verb, *cluster, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
            cwd=Path(self.lab.inventory).parents[2],
        )

    def aqueduct(self, verb: str, *arguments: str, seconds: int = 240) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process = self.start(verb, *arguments)
        said, _ = process.communicate(timeout=seconds)
        return process.returncode, said

    def objects(self, prefix: str) -> list[Path]:
        """The files of the S3 server that hold a store's segments, as paths of its host."""
        return [Path(path) for path, _ in sorted(self.written(prefix))]

    def written(self, prefix: str) -> set[tuple[str, str]]:
        """These files, and when each was written."""
        directory = self.lab.variables[STORE].get("object_store_data_directory", "/var/lib/object_store")
        segments = ("-path", f"*{prefix}/topics/*", "-name", "*.log*", "-type", "f", "-printf", "%p\t%T@\n")
        lines = self.lab.run(STORE, "find", directory, *segments).stdout.splitlines()
        return {(path, at) for path, _, at in (line.partition("\t") for line in lines)}

    def end(self, topic: str) -> int:
        """Sum of the partitions' end offsets, open transactions included; 0 where there is no topic."""
        settings = {"group.id": "ends", "isolation.level": "read_uncommitted"}
        consumer = Consumer(self.lab.client(SITE) | settings)
        try:
            topics = consumer.list_topics(timeout=30).topics
            partitions = topics[topic].partitions if topic in topics else ()
            places = [TopicPartition(topic, each) for each in partitions]
            return sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
        finally:
            consumer.close()

    def quota(self, *arguments: str, user: str) -> str:
        """What Kafka's own tool says of a user's quota."""
        return self.lab.quota(SITE, user, *arguments)


def number(value: int) -> Record:
    """A record that no codec makes smaller."""
    return Record(b"%d" % value, random.Random(value).randbytes(200), (), NUMBERS_SINCE + value)  # noqa: S311
