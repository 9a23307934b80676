"""A one-way link between two real clusters: both ends as processes, an unreliable network between them."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

from kit import clients
from kit.clients import Record, wait_for
from kit.relay import Relay

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker
from servers.process import free_ports

SECONDS = 120
PARTITIONS = (0, 1)


class Link:
    """The topics, keys, relay and processes of a link between two clusters."""

    def __init__(self, folder: Path, source: Broker, target: Broker, topic: str) -> None:
        self.folder, self.source, self.target, self.topic = folder, source, target, topic
        self.raw = clients.create(target, clients.unique("raw"), 2)
        self.gaps = clients.create(target, clients.unique("gaps"), 2, cleanup_policy="compact")
        self.bundle_file = folder / "bundle.json"
        self.state = folder / "state"
        self.state.mkdir()
        self.keys("receiver", "down")
        self.keys("sender", "up")
        [self.port] = free_ports(1, socket.SOCK_DGRAM)  # of the receiving end
        [self.metrics_port] = free_ports(1)
        self.relay = Relay(self.port)
        self.sending = {
            "bootstrapServers": source.plaintext,
            "targetIP": "127.0.0.1",
            "targetPort": str(self.relay.port),
            "mtu": "1500",
            "publicKeyFile": str(folder / "down.pub"),
            "signingKeyFile": str(folder / "up.key"),
            "link": "7",
            # Not the default: a group remembers when its last session began, which may be ahead of the clock.
            "groupID": f"up-{topic}",
        }
        self.receiving = {
            "bootstrapServers": target.plaintext,
            "targetIP": "127.0.0.1",
            "targetPort": str(self.port),
            "rawTopic": self.raw,
            "privateKeyFiles": str(folder / "down.key"),
            "senderPublicKeyFile": str(folder / "up.pub"),
            "stateDir": str(self.state),
            "link": "7",
            "metricsPort": str(self.metrics_port),
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def keys(self, kind: str, name: str) -> None:
        """Create NAME.key and NAME.pub."""
        assert main(["diode", "keygen", "--kind", kind, "--out", str(self.folder), "--name", name]) == 0

    def write(self, count: int, seed: int = 0, **settings: Any) -> None:
        """Write various records to both partitions at the source."""
        chance = random.Random(seed)  # noqa: S311
        producer = clients.idempotent(self.source, **{"linger.ms": 20, **settings})
        clients.request_id(producer, self.topic)
        for number in range(count):
            key = chance.choice([None, b"", b"k%d" % number])
            value = chance.choice([None, b"", b"%d " % number + chance.randbytes(chance.randrange(400))])
            headers = chance.choice([[], [("h", b"1"), ("h", None), ("", b"")]])
            time = 1_700_000_000_000 - number
            producer.produce(self.topic, value, key, number % 2, headers=headers, timestamp=time)
            if number % 500 == 0:
                producer.flush()
        assert producer.flush(SECONDS) == 0

    # Both ends

    def upstream(self, **more: str) -> subprocess.Popen[bytes]:
        return self._start("upstream", self.sending | {"topic": self.topic, "linger": "5"} | more)

    def following(self, **more: str) -> subprocess.Popen[bytes]:
        """Start a sending end that sends new records, and wait until it has announced its keys."""
        process = self.upstream(**more)
        wait_for("sending", lambda: "sending to" in self.said("upstream") or bool(process.poll()))
        return process

    def downstream(self, **more: str) -> subprocess.Popen[bytes]:
        """Start the receiving end, and wait until it listens."""
        before = self.said("downstream").count("listening")
        process = self._start("downstream", self.receiving | more)
        wait_for(
            "listening",
            lambda: self.said("downstream").count("listening") > before or bool(process.poll()),
        )
        return process

    def _start(self, verb: str, options: Mapping[str, str]) -> subprocess.Popen[bytes]:
        file = self.folder / f"{verb}-{uuid4().hex}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items() if value))
        with (self.folder / f"{verb}.log").open("a") as log:
            command = [sys.executable, "-m", "aqueduct.cli", "diode", verb, "--config", str(file)]
            process = subprocess.Popen(command, stderr=log)
        self._running.append(process)
        return process

    def run(self, verb: str, options: Mapping[str, str]) -> ExitCode:
        """Run a verb of `aqueduct diode` in this process until it ends."""
        return ExitCode(main(["diode", verb, *(f"--{name}={value}" for name, value in options.items())]))

    def said(self, verb: str) -> str:
        log = self.folder / f"{verb}.log"
        return log.read_text() if log.exists() else ""

    def counted(self, name: str) -> int:
        """Return a counter of the running receiving end (aqueduct.link.wire.counters)."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            content = answer.read().decode()
        found = re.search(rf"^aqueduct_diode_downstream_{name}_total (\S+)$", content, re.MULTILINE)
        assert found, content
        return int(float(found[1]))

    def kept(self) -> int:
        """Return when the state against replays was last written, in nanoseconds; 0: never."""
        file = self.state / "link-7.json"
        return file.stat().st_mtime_ns if file.exists() else 0

    def check(self) -> None:
        for process in self._running:
            assert process.poll() is None, self.said("upstream") + self.said("downstream")

    def stop(self, *processes: subprocess.Popen[bytes]) -> None:
        """Stop the processes one after another with SIGTERM, as systemd does."""
        for process in processes:
            self._running.remove(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0, self.said("upstream") + self.said("downstream")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        self._running.remove(process)
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in [*self._running]:
            self.kill(process)
        self.relay.stop()

    # What has crossed

    def wait_until_sent(self) -> None:
        """Wait until the group of the sending end has no lag."""

        def sent() -> bool:
            self.check()
            reached = clients.committed(self.source, f"up-{self.topic}").values()
            return sum(reached) == sum(clients.ends(self.source, self.topic, *PARTITIONS))

        wait_for("all as sent", sent)

    def wait_until_told(self, raw: str = "") -> None:
        """Wait until the raw topic has the announced ends of both partitions, and so all earlier frames."""

        def told() -> bool:
            keys = [key.split(b"/") for key in self._keys(raw)]
            ends = {key[1]: int(key[3]) for key in keys if len(key) == 5}
            return sum(ends.values()) == sum(clients.ends(self.source, self.topic, *PARTITIONS))

        wait_for("all as announced", told)

    def finish(self, down: subprocess.Popen[bytes], up: subprocess.Popen[bytes]) -> None:
        """Stop both ends after all records are sent and announced, and write the clean topics."""
        self.wait_until_sent()
        self.stop(up)
        self.wait_until_told()
        self.stop(down)
        self.dedup()

    def frames(self) -> list[bytes]:
        """Return the keys of the raw topic, without announcements."""
        return [key for key in self._keys() if key.count(b"/") == 3]

    def covered(self) -> set[tuple[int, int]]:
        """Return the partitions and offsets that have arrived."""
        keys = [key.decode().rsplit("/", 3) for key in self.frames()]
        ranges = [(int(number), int(first), int(last)) for _, number, first, last in keys]
        return {(number, each) for number, first, last in ranges for each in range(first, last + 1)}

    def _keys(self, raw: str = "") -> list[bytes]:
        return [key or b"" for key, *_ in clients.records(self.target, raw or self.raw, *PARTITIONS)]

    def sent(self, partition: int) -> list[Record]:
        return clients.records(self.source, self.topic, partition)

    def arrived(self, partition: int) -> list[Record]:
        return clients.records(self.target, self.topic, partition)

    def assert_equal(self, count: int) -> None:
        """Assert that both ends have the same records, and so many."""
        assert sum(len(self.sent(partition)) for partition in PARTITIONS) == count
        for partition in PARTITIONS:
            assert self.arrived(partition) == self.sent(partition)

    # What becomes of it

    def dedup(self, raw_topics: str = "") -> None:
        argv = ["dedup", "--bootstrap-server", self.target.plaintext, "--raw-topics", raw_topics or self.raw]
        argv += ["--gap-topic", self.gaps, "--topics", self.topic, "--gap-grace", "0s", "--until-caught-up"]
        assert main(argv) == ExitCode.DONE
        clients.settle(self.target, self.gaps, *PARTITIONS)  # else the ledger is that of before

    def bundle(self) -> dict[str, Any]:
        """Create the bundle of missing offsets."""
        options = {"bootstrapServers": self.target.plaintext, "topic": self.gaps}
        assert self.run("create", options | {"resendFileName": str(self.bundle_file)}) == 0
        found: dict[str, Any] = json.loads(self.bundle_file.read_text())
        return found

    def missing(self) -> set[tuple[int, int]]:
        """Return the partitions and offsets in the bundle."""
        return {
            (each["partition"], offset)
            for each in self.bundle()["results"]
            for first, last in each["gaps"]
            for offset in range(first, last + 1)
        }

    def resend(self, **options: str) -> ExitCode:
        """Resend records: by default, the offsets in the bundle."""
        what = {} if "partition" in options else {"resendFileName": str(self.bundle_file)}
        return self.run("resend", self.sending | what | options)

    def filled(self) -> bool:
        self.dedup()
        return not self.bundle()["results"]


@contextmanager
def linked(folder: Path, source: Broker, target: Broker, topic: str) -> Iterator[Link]:
    """Yield a link for a topic of both clusters, without running processes."""
    link = Link(folder, source, target, topic)
    try:
        yield link
    finally:
        link.close()
