"""A site that is backed up: what is written to it, and our command line against it, from this machine."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import edge_cases
from confluent_kafka import Consumer, TopicPartition
from lab import Lab, Record, wait_until

from demo.offsets import watermarks

NUMBERS_SINCE = 1_700_000_000_000  # the time of number 0: 2023-11-14T22:13:20Z


@dataclass(frozen=True)
class BackedUpSite:
    lab: Lab
    site: ClassVar[str]  # the host of its broker
    store: ClassVar[str]  # the host of the object store

    # Writing

    def make(self, topic: str, partitions: int = 1, **config: str) -> None:
        edge_cases.make(self.lab, self.site, topic, partitions, **config)

    def write(self, topic: str, records: Iterable[Record], partition: int = -1) -> None:
        edge_cases.write(self.lab, self.site, topic, records, partition)

    def write_numbers(self, topic: str, count: int, partitions: int = 1) -> None:
        for partition in range(partitions):
            self.write(topic, (number(each) for each in range(count)), partition)

    def commit(self, group: str, topic: str, offset: int, partition: int = 0, metadata: str = "") -> None:
        place = TopicPartition(topic, partition, offset, metadata=metadata)
        self.lab.commit(self.lab.client(self.site) | {"group.id": group}, [place])

    def end(self, topic: str) -> int:
        """Sum of the partitions' end offsets, open transactions included; 0 where there is no topic."""
        settings = {"group.id": "ends", "isolation.level": "read_uncommitted"}
        consumer = Consumer(self.lab.client(self.site) | settings)
        try:
            topics = consumer.list_topics(timeout=60).topics
            partitions = topics[topic].partitions if topic in topics else ()
            places = [TopicPartition(topic, each) for each in partitions]
            return sum(watermarks(consumer, place)[1] for place in places)
        finally:
            consumer.close()

    def quota(self, *arguments: str, user: str) -> str:
        """What Kafka's own tool says of a user's quota."""
        return self.lab.quota(self.site, user, *arguments)

    # Our command line, from this machine

    def environment(self, user: str = "scenario") -> dict[str, str]:
        secret = (self.lab.pki / "passwords" / f"object-store.{user}").read_text().strip()
        return {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL": f"https://{self.lab.address(self.store)}",
            "AWS_REGION": "us-east-1",
            "AWS_CA_BUNDLE": str(self.lab.pki / "ca/ca.pem"),
        }

    def start(self, verb: str, *arguments: str, user: str = "scenario") -> subprocess.Popen[str]:
        cluster: tuple[str, ...] = ()
        if verb in ("backup", "restore"):
            properties = str(self.lab.pki / "clients/admin.properties")
            cluster = ("--bootstrap-server", self.lab.address(self.site), "--command-config", properties)
        return subprocess.Popen(
            [sys.executable, "-m", "aqueduct.cli", verb, *cluster, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(user),
            cwd=Path(self.lab.inventory).parents[2],
        )

    def aqueduct(
        self, verb: str, *arguments: str, seconds: int = 1800, user: str = "scenario"
    ) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process = self.start(verb, *arguments, user=user)
        said, _ = process.communicate(timeout=seconds)
        return process.returncode, said

    def objects(self, prefix: str) -> list[Path]:
        """The files of the S3 server that hold a store's segments, as paths of its host."""
        return [Path(path) for path, _ in sorted(self.written(prefix))]

    def written(self, prefix: str) -> set[tuple[str, str]]:
        """These files, and when each was written."""
        directory = self.lab.variables[self.store].get("object_store_data_directory", "/var/lib/object_store")
        segments = ("-path", f"*{prefix}/topics/*", "-name", "*.log*", "-type", "f", "-printf", "%p\t%T@\n")
        # The server has files of its own that come and go.
        found = self.lab.run(self.store, "find", directory, "-ignore_readdir_race", *segments)
        lines = found.stdout.splitlines()
        return {(path, at) for path, _, at in (line.partition("\t") for line in lines)}

    def flip(self, path: Path) -> None:
        """Flip a bit of an object, in the server's own file."""
        change = "f.seek(9); byte = f.read(1)[0]; f.seek(9); f.write(bytes([byte ^ 1]))"
        self.lab.run(self.store, "python3", "-c", f"f = open({str(path)!r}, 'r+b'); {change}")


def kill_while_it_writes(
    start: Callable[[], subprocess.Popen[str]], written: Callable[[], object], chance: random.Random
) -> None:
    """kill -9 of a command after the first thing that it wrote, as `written` tells, and before it ended."""
    before, began = written(), time.monotonic()
    process = start()
    wait_until("something written", lambda: written() != before)
    time.sleep(chance.uniform(0, 2))
    process.kill()
    said, _ = process.communicate()
    assert process.returncode < 0, f"it had ended: {said}"
    print(f"kill -9 after {time.monotonic() - began:.2f} s, in the middle of its work")


def number(value: int) -> Record:
    """A record that no codec makes smaller."""
    return Record(b"%d" % value, random.Random(value).randbytes(200), (), NUMBERS_SINCE + value)  # noqa: S311
