"""python -m bench.link [--scale FACTOR] [--loss PERCENT]... [--network NAME]...

How fast, and how late: events from a topic to the raw topic, and to the clean topic, on one machine.
"""

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import records
from aqueduct.link.wire.frame import Frame, unpack
from bench.alone import command
from bench.data import DATA, PARTITIONS, Data, _events, fill
from bench.dedup import DEDUP_CODES
from bench.measured import Usage, cpu_seconds, measured
from bench.tell import machine, say, table
from servers.broker import running
from servers.process import FAST, free_ports

SETTLE_SECONDS = 2.0  # without news: all that will come has come
LATENCY_SECONDS = 10
TOPICS = (
    replace(DATA["log-lines"], records=2_000_000),
    Data("10-kb-records", 40_000, 10_000, 64 << 10, _events),
)


LOOPBACK, NAMESPACES = "loopback", "namespaces"


@dataclass(frozen=True)
class Network:
    """The network on which the receiving end listens."""

    name: str
    address: str = "127.0.0.1"
    namespace: str | None = None

    def dropped(self, port: int) -> int:
        """Return the datagrams that the kernel dropped for want of room in the receiver's buffer."""
        enter = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        table = subprocess.run([*enter, "cat", "/proc/net/udp"], check=True, capture_output=True, text=True)  # noqa: S603
        rows = [line.split() for line in table.stdout.splitlines()[1:]]
        return sum(int(row[-1]) for row in rows if int(row[1].rpartition(":")[2], 16) == port)


@contextmanager
def network(name: str) -> Iterator[Network]:
    """Yield the network: this machine's own, or two namespaces.

    These are this machine's own and another one, joined by a pair of virtual cards (veth).
    """
    if name == LOOPBACK:
        yield Network(LOOPBACK)
        return
    here, there, namespace = "aqueduct-b0", "aqueduct-b1", "aqueduct-bench"
    _ip("netns", "add", namespace)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", namespace)
        _ip("address", "add", "198.18.77.1/30", "dev", here)  # RFC 2544: for benchmarks
        _ip("-n", namespace, "address", "add", "198.18.77.2/30", "dev", there)
        _ip("link", "set", here, "up")
        _ip("-n", namespace, "link", "set", there, "up")
        yield Network(NAMESPACES, "198.18.77.2", namespace)
    finally:
        _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)  # noqa: S603, S607
    if done.returncode:
        raise SystemExit(
            f"ip {' '.join(arguments)}: {done.stderr.strip()}; --network {LOOPBACK} needs none of that"
        )


@dataclass(frozen=True)
class Link:
    """Keys, addresses and topics of one run."""

    servers: str
    folder: Path
    ports: Mapping[str, int]
    network: Network = Network(LOOPBACK)

    @contextmanager
    def running(self, topic: str, loss: float, **upstream: object) -> Iterator[tuple[int, int]]:
        """Run both ends; yield their process ids: upstream and downstream."""
        sending = {"topic": topic, "publicKeyFile": "down.pub", "signingKeyFile": "up.key", **upstream}
        receiving = {
            "rawTopic": "raw", "privateKeyFiles": "down.key", "senderPublicKeyFile": "up.pub",
            "stateDir": f"state-{uuid4()}",
        }  # fmt: skip
        (self.folder / str(receiving["stateDir"])).mkdir()
        with ExitStack() as stack:
            self._file("down.properties", {**receiving, "metricsPort": self.ports["down"]})
            where = [self.network.namespace] if self.network.namespace else []
            down = stack.enter_context(self._process("bench.lossy", str(loss), "down.properties", *where))
            self._wait("down", "downstream_values_total", lambda value: value == 0)
            self._file(
                "up.properties", {**sending, "groupID": f"bench-{uuid4()}", "metricsPort": self.ports["up"]}
            )
            up = stack.enter_context(self._process("aqueduct.cli", "diode", "upstream", "up.properties"))
            self._wait("up", "upstream_key", bool)
            yield up, down

    def figure(self, end: str, name: str) -> float:
        """Read a figure from an end's metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[end]}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"aqueduct_diode_{name}")]
        return sum(map(float, found))

    def _wait(self, end: str, name: str, done: Callable[[float], bool]) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                if done(self.figure(end, name)):
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"the {end}stream end did not start: {(self.folder / 'log').read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def _file(self, name: str, options: Mapping[str, object]) -> None:
        common = {
            "bootstrapServers": self.servers, "mtu": 1500,
            "targetIP": self.network.address, "targetPort": self.ports["udp"],
        }  # fmt: skip
        text = "".join(f"{key}={value}\n" for key, value in {**common, **options}.items())
        (self.folder / name).write_text(text)

    @contextmanager
    def _process(self, *arguments: str) -> Iterator[int]:
        with (self.folder / "log").open("a") as log:
            command = [sys.executable, "-m", *arguments]
            root = Path(__file__).resolve().parents[1]
            process = subprocess.Popen(  # noqa: S603
                command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(root)}
            )
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


@contextmanager
def link() -> Iterator[Link]:
    with (
        tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name,
        running(Path(name) / "kafka", jvm=FAST) as broker,
    ):
        folder = Path(name)
        for kind, pair in (("receiver", "down"), ("sender", "up")):
            command = [sys.executable, "-m", "aqueduct.cli", "diode", "keygen", "--kind", kind]
            subprocess.run([*command, "--out", name, "--name", pair], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        [udp] = free_ports(1, socket.SOCK_DGRAM)
        ports = dict(zip(("up", "down"), free_ports(2), strict=True), udp=udp)
        yield Link(broker.plaintext, folder, ports)


def fresh(link: Link, clean: str) -> None:
    """Create new raw, gap and clean topics."""
    admin = AdminClient({"bootstrap.servers": link.servers, "log_level": 0})
    names = ["raw", "gaps", clean]
    known = admin.list_topics(timeout=30).topics
    if gone := [name for name in names if name in known]:
        for done in admin.delete_topics(gone).values():
            done.result()
        time.sleep(1)  # a broker refuses the names while the logs go
    compacted = NewTopic("gaps", PARTITIONS, 1, config={"cleanup.policy": "compact"})
    topics = [NewTopic("raw", PARTITIONS, 1), compacted, NewTopic(clean, PARTITIONS, 1)]
    for done in admin.create_topics(topics).values():
        done.result()


def to_raw(link: Link, data: Data, loss: float) -> list[str]:
    """Measure a row: to the raw topic, then to the clean topic."""
    clean = f"{data.name}-clean"
    fresh(link, clean)
    with link.running(data.name, loss) as (up, down):
        while link.figure("up", "upstream_records_total") == 0:
            time.sleep(0.01)
        began = last = time.monotonic()
        used = cpu_seconds(up), cpu_seconds(down)
        seen = -1.0
        while link.figure("up", "upstream_lag") or time.monotonic() < last + SETTLE_SECONDS:
            written = link.figure("down", "downstream_written_total")
            if written != seen:
                seen, last = written, time.monotonic()
            time.sleep(0.05)
        seconds = last - began
        cpu = cpu_seconds(up) - used[0], cpu_seconds(down) - used[1]
        sent, repaired, dropped = (
            link.figure(end, name)
            for end, name in (
                ("up", "upstream_datagrams_total"),
                ("down", "downstream_shards_repaired_total"),
                ("down", "downstream_dropped_total"),
            )
        )
        overflown = link.network.dropped(link.ports["udp"])
    usage, start = dedup_all(link, data.name, clean), dedup_all(link, data.name, clean)
    millions = data.records / 1e6
    return [
        data.name, link.network.name, f"{loss:g} %",
        f"{data.records / seconds:,.0f}", f"{data.bytes / seconds / 1e6:.0f}",
        f"{cpu[0] / millions:.1f}", f"{cpu[1] / millions:.1f}", f"{sent:,.0f}", f"{repaired:,.0f}",
        f"{overflown:,} / {dropped:,.0f}", f"{missing(link):,}",
        f"{data.records / (usage.seconds - start.seconds):,.0f}", f"{start.seconds:.1f}",
        f"{(usage.cpu_seconds - start.cpu_seconds) / millions:.1f}",
    ]  # fmt: skip


def dedup_all(link: Link, source: str, clean: str) -> Usage:
    """Run dedup over the whole raw topic; the second time there is nothing to do, which is start-up."""
    return measured(
        command(
            *("dedup", "--bootstrap-server", link.servers, "--raw-topics", "raw", "--gap-topic", "gaps"),
            *("--topics", f"{source}:{clean}", "--gap-grace", "0s", "--until-caught-up"),
        ),
        codes=DEDUP_CODES,
    )


def missing(link: Link) -> int:
    """Return the number of missing offsets, by the ledger."""
    command = [sys.executable, "-m", "aqueduct.cli", "diode", "create", "--bootstrap-server", link.servers]
    found = subprocess.run([*command, "--topic", "gaps"], check=True, capture_output=True)  # noqa: S603
    results = json.loads(found.stdout)["results"]
    return sum(last - first + 1 for each in results for first, last in each["gaps"])


def latency(link: Link, per_second: int) -> list[str]:
    """Measure a row: from produce() to a consumer of the raw topic."""
    name = f"late-{per_second}"
    fresh(link, name)
    consumer = Consumer({"bootstrap.servers": link.servers, "group.id": "bench", "fetch.wait.max.ms": 10})
    producer = Producer({"bootstrap.servers": link.servers, "linger.ms": 0, "log_level": 0})
    late: list[float] = []
    with link.running(name, 0):
        consumer.assign([TopicPartition("raw", number, 0) for number in range(PARTITIONS)])
        time.sleep(2)
        began, number = time.monotonic(), 0
        while (now := time.monotonic()) < began + LATENCY_SECONDS + 1:
            due = min(int((now - began) * per_second), per_second * LATENCY_SECONDS)
            for each in range(number, due):
                value = struct.pack(">q", time.time_ns()).ljust(200)
                producer.produce(name, value, partition=each % PARTITIONS)
            number = max(number, due)
            producer.poll(0)
            message = consumer.poll(0.001)
            if message is not None and not message.error():
                late += lateness(message.value() or b"")
    producer.flush()
    consumer.close()
    p50, p99 = np.percentile(late, [50, 99])
    return [f"{per_second:,}", f"{len(late):,}", f"{p50:.1f}", f"{p99:.1f}"]


def lateness(value: bytes) -> Iterator[float]:
    """Yield the milliseconds that every record in a frame took."""
    now = time.time_ns()
    found = unpack(value)
    if isinstance(found, Frame):
        for batch in walk(found.batches):
            for record in records(batch):
                (then,) = struct.unpack_from(">q", key_and_value(record.body)[1] or b"")
                yield (now - then) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/link")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--loss", type=float, action="append")
    parser.add_argument("--network", choices=[LOOPBACK, NAMESPACES], action="append")
    args = parser.parse_args()
    rows, delays = [], []
    with link() as where:
        for data in (replace(each, records=int(each.records * args.scale)) for each in TOPICS):
            say(f"Writing {data.name}")
            fill(where.servers, data)
            usage = measured([sys.executable, "-m", "bench.consumer", where.servers, data.name])
            read = data.records / usage.seconds, data.bytes / usage.seconds / 1e6
            rows.append([data.name, "-", "consumer", f"{read[0]:,.0f}", f"{read[1]:.0f}", *["-"] * 9])
            for name in args.network or [LOOPBACK, NAMESPACES]:
                with network(name) as between:
                    for loss in args.loss or [0, 1, 5]:
                        say(f"Sending {data.name}, {between.name}, {loss:g} % lost")
                        rows.append(to_raw(replace(where, network=between), data, loss))
        for rate in (100, 10_000):
            say(f"Waiting for {rate} events a second")
            delays.append(latency(where, rate))
    print(machine())
    head = [
        "data", "network", "lost", "events/s to raw", "MB/s", "upstream CPU s/M", "downstream CPU s/M",
        "datagrams", "repaired", "dropped", "missing", "dedup events/s", "start-up s", "dedup CPU s/M",
    ]  # fmt: skip
    print(f"\n{table(head, rows)}\n\n{table(['events/s', 'seen', 'p50 ms', 'p99 ms'], delays)}")


if __name__ == "__main__":
    main()
