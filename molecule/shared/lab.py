"""A scenario's lab as its tests see it: containers to break, brokers to write to and read from."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import demo.lab
from demo.lab import to_the_end

# Molecule has Ansible colour each line, and so cuts the sentences that go over several.
PLAIN = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
# Bounds of what never ends by itself. They prove nothing about speed: a busy machine is ten times slower.
WAIT_SECONDS, PLAY_SECONDS = 900, 3600


@dataclass(frozen=True)
class Record:
    """What must arrive as it was sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    def header(self, name: str) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


class Lab(demo.lab.Lab):
    """The lab of one inventory folder, to break."""

    def start(self, host: str, *command: str) -> subprocess.Popen[str]:
        """Run a command in a host and talk with it."""
        return subprocess.Popen(
            self.command(host, *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def play(self, playbook: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run one of the product's playbooks on this inventory, with extra variables."""
        extra = ("--extra-vars", json.dumps(variables)) if variables else ()
        inventory = ("--inventory", str(self.inventory))
        return subprocess.run(
            ["ansible-playbook", *inventory, *arguments, *extra, f"playbooks/{playbook}.yml"],
            cwd=self.inventory.parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PLAY_SECONDS,
            env={**os.environ, **PLAIN},
        )

    def kill(self, host: str, unit: str) -> None:
        """kill -9 of a unit's process, or where it has none for a moment, of the next one."""
        kill = ("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
        wait_until(f"{unit} to have a process", lambda: self.run(host, *kill, check=False).returncode == 0)

    def lose(self, host: str) -> None:
        """Take a host away, for good."""
        subprocess.run(["docker", "kill", self.container(host)], check=True, capture_output=True)

    def restart(self, host: str) -> None:
        """Restart a host as after a power cut. Its systemd then starts what is enabled."""
        command = ["docker", "restart", "--time", "0", self.container(host)]
        subprocess.run(command, check=True, capture_output=True)

    def quota(self, host: str, user: str, *arguments: str) -> str:
        """Return what Kafka's own tool says of a user's quota, which it changes with --alter."""
        return self.run(
            *(host, "java", "-cp", "/opt/aqueduct/kafka-4.3.1/libs/*", "kafka.admin.ConfigCommand"),
            *("--bootstrap-server", f"{host}:9092"),
            *("--command-config", "/etc/aqueduct/kafka/tls/client.properties"),
            *("--entity-type", "users", "--entity-name", user, *arguments),
        ).stdout

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

    def commit(self, client: Mapping[str, object], places: Sequence[TopicPartition]) -> None:
        """Commit a group's offsets, when its coordinator accepts them: it may not have read its log yet."""

        def committed() -> bool:
            consumer = Consumer({**client, "enable.auto.commit": False})
            try:
                consumer.commit(offsets=[*places], asynchronous=False)
                return True
            finally:
                consumer.close()

        wait_until(f"a commit of {client['group.id']}", committed)

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
        with self.reading(host, topic, isolation) as (consumer, places):
            found: dict[int, list[tuple[int, Record]]] = {place.partition: [] for place in places}
            for message in to_the_end(consumer, places):
                headers, (_, timestamp) = message.headers(), message.timestamp()
                record = Record(message.key(), message.value(), tuple(headers or ()), timestamp)
                found[message.partition()].append((message.offset(), record))
            return found


def wait_until(
    what: str, condition: Callable[[], Any], seconds: float = WAIT_SECONDS, every: float = 0.1
) -> Any:
    """Poll until the condition holds; its value. An exception counts as not yet, and is shown if it stays.

    A condition that takes longer than `every` is followed by a pause twice as long, of 2 s at most: asking
    takes the processors that what is waited for needs.
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
        time.sleep(max(every, min(2, 2 * (time.monotonic() - asked))))
    raise AssertionError(f"not within {seconds:.0f} s: {what}" + (f" ({problem})" if problem else ""))
