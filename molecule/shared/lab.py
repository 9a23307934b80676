"""A scenario's lab as its tests see it: containers to break, brokers to write to and read from.

The reader is confluent-kafka with no code of ours between it and the broker, so that what it says is
independent of what is tested.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient


@dataclass(frozen=True)
class Record:
    """What must arrive as it was sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    def header(self, name: str) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True)
class Lab:
    """The lab of one inventory folder."""

    inventory: Path

    @cached_property
    def variables(self) -> dict[str, dict[str, Any]]:
        listing = subprocess.run(
            ["ansible-inventory", "--inventory", self.inventory, "--list"],
            check=True,
            capture_output=True,
            text=True,
        )
        hosts: dict[str, dict[str, Any]] = json.loads(listing.stdout)["_meta"]["hostvars"]
        return hosts

    @property
    def pki(self) -> Path:
        return self.inventory / "pki"

    def container(self, host: str) -> str:
        return f"{self.variables[host]['lab_name']}-{host}"

    def run(
        self, host: str, *command: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a host, as root."""
        return subprocess.run(
            ["docker", "exec", "--interactive", self.container(host), *command],
            check=check, capture_output=True, text=True, timeout=120, input=stdin or "",
        )  # fmt: skip

    def start(self, host: str, *command: str) -> subprocess.Popen[str]:
        """Run a command in a host and talk with it."""
        return subprocess.Popen(
            ["docker", "exec", "--interactive", self.container(host), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def play(self, playbook: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run one of the product's playbooks on this inventory, with extra variables."""
        extra = ("--extra-vars", json.dumps(variables)) if variables else ()
        return subprocess.run(
            [
                "ansible-playbook",
                "--inventory",
                self.inventory,
                *arguments,
                *extra,
                f"playbooks/{playbook}.yml",
            ],
            cwd=self.inventory.parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )

    def kill(self, host: str, unit: str) -> None:
        """kill -9 of a unit's process."""
        self.run(host, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)

    def lose(self, host: str) -> None:
        """Take a host away, for good."""
        subprocess.run(["docker", "kill", self.container(host)], check=True, capture_output=True)

    def restart(self, host: str) -> None:
        """Restart a host as after a power cut. Its systemd then starts what is enabled."""
        command = ["docker", "restart", "--time", "0", self.container(host)]
        subprocess.run(command, check=True, capture_output=True)

    def address(self, host: str) -> str:
        return f"localhost:{self.variables[host]['lab_published_port']}"

    def client(self, host: str, principal: str = "admin") -> dict[str, Any]:
        """Client settings for a broker, as a principal that has a certificate of the site's authority."""
        provided = self.variables[host].get("certificates_source") == "provided"
        ca, folder = ("provided/ca.pem", "provided") if provided else ("ca/ca.pem", "clients")
        return {
            "bootstrap.servers": self.address(host),
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.pki / ca),
            "ssl.certificate.location": str(self.pki / folder / f"{principal}.pem"),
            "ssl.key.location": str(self.pki / folder / f"{principal}.pem"),
            "log_level": 3,
        }

    def admin(self, host: str) -> AdminClient:
        return AdminClient(self.client(host))

    def producer(self, host: str, principal: str, servers: str = "", **settings: object) -> Producer:
        return Producer(
            {
                **self.client(host, principal),
                "bootstrap.servers": servers or self.address(host),
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "zstd",
                # A broker that was killed comes back; what was accepted is delivered then.
                "message.timeout.ms": 300_000,
                **settings,
            }
        )

    def read(self, host: str, topic: str, *, isolation: str = "read_committed") -> dict[int, list[Record]]:
        """All records of a topic, by partition, in order."""
        return {
            partition: [record for _, record in records]
            for partition, records in self.read_offsets(host, topic, isolation=isolation).items()
        }

    def read_offsets(
        self, host: str, topic: str, *, isolation: str = "read_committed"
    ) -> dict[int, list[tuple[int, Record]]]:
        """All records of a topic with their offsets, by partition, in order."""
        consumer = Consumer(
            {
                **self.client(host),
                "group.id": "scenario",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            found: dict[int, list[tuple[int, Record]]] = {partition: [] for partition in partitions}
            reading = set(partitions)
            deadline = time.monotonic() + 300
            while reading:
                assert time.monotonic() < deadline, f"{topic} at {host} was not read to its end within 300 s"
                for message in consumer.consume(10_000, timeout=0.1):
                    if (error := message.error()) is None:
                        record = Record(
                            message.key(),
                            message.value(),
                            tuple(message.headers() or ()),
                            message.timestamp()[1],
                        )
                        found[message.partition()].append((message.offset(), record))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        reading.discard(message.partition())
                    else:
                        raise AssertionError(f"reading {topic} at {host}: {error}")
            return found
        finally:
            consumer.close()


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 180, every: float = 0.1) -> Any:
    """Poll until the condition holds; its value. An exception counts as not yet, and is shown if it stays.

    A condition that takes longer than `every` is followed by a pause as long, of 1 s at most.
    """
    deadline = time.monotonic() + seconds
    problem: object = None
    while (asked := time.monotonic()) < deadline:
        try:
            if value := condition():
                return value
            problem = None
        except Exception as error:
            problem = error
        time.sleep(max(every, min(1, time.monotonic() - asked)))
    raise AssertionError(f"not within {seconds:.0f} s: {what}" + (f" ({problem})" if problem else ""))
