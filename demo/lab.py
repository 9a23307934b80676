"""The lab, as its inventory says: hosts in containers, brokers that answer on this machine."""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from aqueduct.estate.links import Link, read_links
from aqueduct.estate.model import Flow, members, read_all_flows, site_names

# Bounds of what never ends by itself: a busy machine is ten times slower.
READ_SECONDS = 1800
RUN_SECONDS = 600
LINES, WORD = 5, 80  # of what a failed command printed; longer arguments are programs
METRICS = (
    "import urllib.request as r; print(r.urlopen('http://127.0.0.1:%d/metrics', timeout=60).read().decode())"
)


class HostCommandError(subprocess.CalledProcessError):
    """A command of a host failed; says what it printed last."""

    def __str__(self) -> str:
        said = (self.stderr or self.stdout or "").strip().splitlines()
        program = next((each for each in self.cmd[4:] if len(each) < WORD), "")
        return f"{program} on {self.cmd[3]} ended with {self.returncode}: {' | '.join(said[-LINES:])}"


@dataclass(frozen=True)
class Lab:
    """The lab of one inventory folder."""

    inventory: Path

    # What the inventory says

    @cached_property
    def _listing(self) -> dict[str, Any]:
        command = ["ansible-inventory", "--inventory", str(self.inventory), "--list"]
        listing = subprocess.run(command, check=True, capture_output=True, text=True)
        return dict(json.loads(listing.stdout))

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        """Return the variables, by host."""
        hosts: dict[str, dict[str, Any]] = self._listing["_meta"]["hostvars"]
        return hosts

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        listed = self._listing.items()
        return {name: group.get("hosts", []) for name, group in listed if name != "_meta"}

    @property
    def mirrors(self) -> tuple[Flow, ...]:
        return read_all_flows(self.groups, self.variables)

    @property
    def links(self) -> list[Link]:
        sites = site_names(self.groups)
        return [link for site in sites for link in read_links(self.groups, self.variables, site)]

    @property
    def brokers(self) -> dict[str, str]:
        """Return the first broker of each site."""
        return {site: members(self.groups, site, "kafka")[0] for site in site_names(self.groups)}

    @property
    def pki(self) -> Path:
        return self.inventory / "pki"

    @property
    def reports(self) -> Path:
        return self.inventory / "reports"

    # Its hosts

    def container(self, host: str) -> str:
        return f"{self.variables[host]['lab_name']}-{host}"

    def command(self, host: str, *command: str) -> list[str]:
        """Return what runs a command in a host, as root."""
        return ["docker", "exec", "--interactive", self.container(host), *command]

    def run(
        self, host: str, *command: str, check: bool = True, stdin: str = "", seconds: float = RUN_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a host, as root."""
        done = subprocess.run(
            self.command(host, *command),
            check=False, capture_output=True, text=True, timeout=seconds, input=stdin,
        )  # fmt: skip
        if check and done.returncode:
            raise HostCommandError(done.returncode, done.args, done.stdout, done.stderr)
        return done

    def journal(self, host: str, *which: str) -> str:
        """Return messages of a host's journal, by options of journalctl, also those not written to it yet."""
        self.run(host, "journalctl", "--sync")
        return self.run(
            host, "journalctl", "--no-pager", "--quiet", "--output=cat", *which, check=False
        ).stdout

    def metrics(self, host: str, port: int) -> str:
        """Return what a service of a host tells Prometheus, as it writes it."""
        return self.run(host, "python3", "-c", METRICS % port).stdout

    # Its brokers

    def address(self, host: str) -> str:
        return f"localhost:{self.variables[host]['lab_published_port']}"

    @property
    def admin_config(self) -> Path:
        """Return the client properties of who may do everything."""
        return self.pki / "clients/admin.properties"

    def client(self, host: str, principal: str = "admin") -> dict[str, Any]:
        """Return settings for a broker's client, with a certificate of the site's authority."""
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

    @contextmanager
    def reading(
        self, host: str, topic: str, isolation: str = "read_committed"
    ) -> Iterator[tuple[Consumer, list[TopicPartition]]]:
        """Yield a client that reads a topic from offset 0 on, and the topic's partitions.

        It is librdkafka, with no code of ours between it and the broker.
        """
        consumer = Consumer(
            {
                **self.client(host),
                "group.id": "lab",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            numbers = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            places = [TopicPartition(topic, number, 0) for number in numbers]
            consumer.assign(places)
            yield consumer, places
        finally:
            consumer.close()


def to_the_end(consumer: Consumer, places: Sequence[TopicPartition]) -> Iterator[Message]:
    """Yield all messages of what a consumer reads; TimeoutError where their ends don't come."""
    reading = {place.partition for place in places}
    deadline = time.monotonic() + READ_SECONDS
    while reading:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{places[0].topic} was not read to its end within {READ_SECONDS} s")
        for message in consumer.consume(10_000, timeout=0.1):
            if (error := message.error()) is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition())
            else:
                raise KafkaException(error)
