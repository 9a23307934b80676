"""python -m bench.distance [--milliseconds N] [--scale FACTOR] [--runs N]

How fast clients are whose broker is at another site, with Kafka's default buffers and with this product's.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from aqueduct.estate.classic_mirror import BUFFERS
from bench.alone import command
from bench.consumer import FULL_QUEUES
from bench.data import DATA, PARTITIONS, Data, create, delete, fill
from bench.delay import Line, line
from bench.measured import CommandFailed, measured
from bench.replicate import copied
from bench.tell import machine, say, table
from servers.broker import Broker, running
from servers.process import FAST, java

RECORDS = 200_000
KERNEL = -1  # bytes of a buffer: the kernel sizes it
DEFAULTS = {"receive": 65_536, "send": 131_072}  # bytes, of Kafka's consumers and producers
READ = re.compile(r"^\d{4}-.*", re.MULTILINE)  # the line of figures of ConsumerPerformance
SENT = re.compile(r"records sent, ([\d.]+) records/sec")
MIRRORS = {"mm2": "MirrorMaker 2, from the other site", "classic": "classic MirrorMaker, from the other site"}
numbers = count()


@dataclass(frozen=True)
class Sites:
    """The broker at the other site, and the one here."""

    far: Broker
    near: Broker
    folder: Path
    data: Data

    def mirror(self, engine: str, *, kernel: bool) -> float:
        defaults = {f"{kind}.buffer.bytes": str(size) for kind, size in DEFAULTS.items()}
        buffers = BUFFERS if kernel else defaults
        return copied(engine, self.data, self.far, self.near, self.folder, buffers).records

    def java_consumer(self, *, kernel: bool) -> float:
        size = KERNEL if kernel else DEFAULTS["receive"]
        printed = self._tool(
            *("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", self.far.plaintext),
            *("--topic", self.data.name, "--num-records", str(self.data.records), "--hide-header"),
            f"--socket-buffer-size={size}",
        )
        found = READ.findall(printed)
        if not found:
            raise CommandFailed(printed)
        return float(found[-1].split(", ")[-1])  # fetch.nMsg.sec: without the time to join the group

    def java_producer(self, *, kernel: bool) -> float:
        size = KERNEL if kernel else DEFAULTS["send"]
        topic = f"produced-{next(numbers)}"
        create(self.far.plaintext, topic)
        printed = self._tool(
            *("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", self.far.plaintext),
            *("--topic", topic, "--num-records", str(self.data.records), "--throughput", "-1"),
            *("--record-size", str(self.data.record_bytes), "--command-property"),
            *("batch.size=524288", "linger.ms=50", f"send.buffer.bytes={size}"),
        )
        delete(self.far.plaintext, topic)
        found = SENT.findall(printed)
        if not found:
            raise CommandFailed(printed)
        return float(found[-1])

    def librdkafka_consumer(self, *, kernel: bool) -> float:
        """Read the topic; librdkafka leaves its buffers to the kernel by default."""
        size = 0 if kernel else DEFAULTS["receive"]
        consumer = Consumer(
            {
                "bootstrap.servers": self.far.plaintext,
                "group.id": "bench",
                "enable.auto.commit": False,
                "socket.receive.buffer.bytes": size,
                **FULL_QUEUES,
            }
        )
        consumer.assign([TopicPartition(self.data.name, number, 0) for number in range(PARTITIONS)])
        began, rest = None, self.data.records
        while rest > 0:
            found = consumer.consume(min(10_000, rest), timeout=10)
            began = began or time.monotonic()
            rest -= len(found)
        consumer.close()
        return self.data.records / (time.monotonic() - (began or 0))

    def backup(self, store: str) -> float:
        began = time.monotonic()
        reached = ("--bootstrap-server", self.far.plaintext, "--store", store)
        measured(command("backup", *reached, "--topics", self.data.name))
        return self.data.records / (time.monotonic() - began)

    def restore(self) -> float:
        """Restore what is here to the other site."""
        store = (self.folder / f"store-{next(numbers)}").as_uri()
        self.backup(store)
        topic = f"restored-{next(numbers)}"
        began = time.monotonic()
        reached = ("--bootstrap-server", self.far.plaintext, "--store", store)
        measured(command("restore", *reached, "--topics", f"{self.data.name}:{topic}", "--no-groups"))
        seconds = time.monotonic() - began
        delete(self.far.plaintext, topic)
        return self.data.records / seconds

    def _tool(self, *arguments: str) -> str:
        run = subprocess.run(java(*arguments, jvm=FAST), capture_output=True, text=True)  # noqa: S603
        if run.returncode:
            raise CommandFailed(run.stdout + run.stderr)
        return run.stdout


def commands(sites: Sites) -> dict[tuple[str, str], Callable[[], float]]:
    """Return what is measured, by its client and its buffers."""
    both: dict[str, Callable[..., float]] = {
        **{MIRRORS[engine]: partial(sites.mirror, engine) for engine in MIRRORS},
        "Java consumer": sites.java_consumer,
        "Java producer": sites.java_producer,
        "librdkafka consumer": sites.librdkafka_consumer,
    }
    found = {
        (name, buffers): partial(run, kernel=kernel)
        for name, run in both.items()
        for buffers, kernel in (("Kafka's defaults", False), ("the kernel's", True))
    }
    store = (sites.folder / "store").as_uri
    return {
        **found,
        ("aqueduct backup", "the kernel's"): lambda: sites.backup(f"{store()}-{next(numbers)}"),
        ("aqueduct restore", "the kernel's"): sites.restore,
    }


def measure(sites: Sites, wire: Line, milliseconds: int, runs: int) -> list[list[str]]:
    wire.delay(milliseconds)
    every = commands(sites)
    speeds: dict[tuple[str, str], list[float]] = {name: [] for name in every}
    for number in range(runs):
        for name, run in every.items():
            say(f"Round {number + 1} of {runs}: {', '.join(name)}")
            speeds[name].append(run())
    wire.delay(0)
    middles = {name: median(each) for name, each in speeds.items()}
    return [
        [
            *name,
            f"{records:,.0f}",
            f"{records * sites.data.record_bytes / 1e6:,.1f}",
        ]
        for name, records in middles.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/distance")
    parser.add_argument("--milliseconds", type=int, default=50)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    data = replace(DATA["log-lines"], records=int(RECORDS * args.scale))
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        wire = stack.enter_context(line())
        say("Starting two brokers")
        for each in ("far", "near"):
            (folder / each).mkdir()
        made = [
            running(folder / "far", jvm=FAST, address=wire.address, enter=wire.enter),
            running(folder / "near", jvm=FAST),
        ]
        with ThreadPoolExecutor() as starting:
            far, near = starting.map(stack.enter_context, made)
        say(f"Writing {data.bytes / 1e6:,.0f} MB")
        fill(far.plaintext, data)
        rows = measure(Sites(far, near, folder, data), wire, args.milliseconds, args.runs)
    said = f"{data.records:,} log lines, {args.milliseconds} ms each way, median of {args.runs}."
    print(f"{machine()} {said}\n")
    print(table(["client", "buffers", "records/s", "MB/s"], rows))


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
