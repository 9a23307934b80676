"""A connector that writes a topic to a file, as the demo compares both."""

import hashlib
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aqueduct.estate.connectors import read_connectors
from aqueduct.estate.model import members
from demo.lab import Lab, to_the_end

WAIT_SECONDS = 600
MODULUS = 1 << 128


@dataclass(frozen=True)
class Content:
    """The number of values, and the sum of their digests: the same in whatever order."""

    values: int
    digest: int

    @classmethod
    def of(cls, values: Iterable[bytes]) -> "Content":
        count = digest = 0
        for value in values:
            count += 1
            digest += int.from_bytes(hashlib.blake2b(value, digest_size=16).digest())
        return cls(count, digest % MODULUS)


@dataclass(frozen=True)
class Sink:
    lab: Lab
    site: str
    name: str
    topic: str
    file: str

    def arrived(self) -> dict[str, Any]:
        """Wait until the file has all that the topic has; both, and how long it took."""
        started, topic = time.monotonic(), self.in_topic()
        while self.lines() < topic.values and time.monotonic() - started < WAIT_SECONDS:
            time.sleep(1)
        file = self.in_file()
        return {
            "site": self.site,
            "connector": self.name,
            "records_in": topic.values,
            "records_out": file.values,
            "equal": topic == file,
            "seconds": time.monotonic() - started,
        }

    def hosts(self) -> list[str]:
        return members(self.lab.groups, self.site, "connect")

    def lines(self) -> int:
        return sum(
            int(self.lab.run(host, "sh", "-c", f"cat {self.file} | wc -l").stdout) for host in self.hosts()
        )

    def in_file(self) -> Content:
        """Read the content of all hosts' files: each host has what its tasks wrote."""
        commands = [self.lab.command(host, "cat", self.file) for host in self.hosts()]
        files = [subprocess.run(command, capture_output=True, check=True).stdout for command in commands]
        return Content.of(line for file in files for line in file.splitlines())

    def in_topic(self) -> Content:
        with self.lab.reading(self.lab.brokers[self.site], self.topic) as reading:
            return Content.of(message.value() or b"" for message in to_the_end(*reading))


def sinks(lab: Lab) -> list[Sink]:
    return [
        Sink(lab, site, each.name, each.config["topics"], each.config["file"])
        for site in lab.brokers
        for each in read_connectors(lab.groups, lab.variables, site)
        if each.is_sink and "file" in each.config
    ]
