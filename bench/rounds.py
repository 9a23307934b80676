"""The shared parts of both benchmarks: servers, rounds of runs, and the table."""

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from bench.alone import command
from bench.data import EMPTY, Data, create, delete, fill
from bench.measured import Usage, cpu_seconds, measured
from bench.tell import say
from servers import broker, object_store
from servers.broker import Broker
from servers.object_store import Gateway
from servers.process import FAST

NOISE_SECONDS = 0.1
STORES = ("local", "s3")
Kind = tuple[str, str]  # store, mode
Name = tuple[str, str, str]  # what is done; and its kind
Commands = dict[Name, Callable[[], Usage]]
Verb = Callable[["Estate", str, list[Kind]], Commands]  # what it runs for a topic
CONSUMER = "consumer", "", ""
# How a command runs, and its options.
ONE_PROCESS, SPARK = "one process", "Spark"
MODES = {ONE_PROCESS: (), SPARK: ("--master", "local[*]")}


@dataclass(frozen=True)
class Rounds:
    data: tuple[Data, ...]
    stores: tuple[str, ...]
    runs: int

    def kinds(self, data: Data | None = None) -> list[Kind]:
        """Return stores and modes: in one process; in one of the stores by Spark, too."""
        if data is None:  # all that any has
            return sorted({kind for each in self.data for kind in self.kinds(each)})
        alone = [(store, ONE_PROCESS) for store in self.stores]
        return [*alone, (self.stores[0], SPARK)] if data.batch_bytes else alone


@dataclass(frozen=True)
class Estate:
    """The place where everything runs."""

    broker: Broker
    s3: Gateway
    directory: Path

    @property
    def servers(self) -> str:
        return self.broker.plaintext

    @property
    def encrypted(self) -> tuple[str, ...]:
        """The options of a backup for one recipient, by a host that can read manifests alone."""
        keys = self.directory
        return "--recipient", f"{keys}/recipient.pub", "--private-key", f"{keys}/host.key"

    @property
    def opened(self) -> tuple[str, str]:
        """The options by which the recipient reads it."""
        return "--private-key", f"{self.directory}/recipient.key"

    def url(self, kind: str, name: str) -> str:
        """Return the URL of a store in the directory, which is new if the name is."""
        return (self.directory / name).as_uri() if kind == "local" else f"s3://store/{name}"

    def remove(self, name: str) -> None:
        for root in (self.directory, self.s3.bucket("store")):
            shutil.rmtree(root / name, ignore_errors=True)

    def aqueduct(self, *arguments: str) -> Usage:
        return self._measured(command(*arguments))

    def back_up(self, topic: str, url: str, *options: str) -> Usage:
        return self.aqueduct(
            *("backup", "--bootstrap-server", self.servers, "--topics", topic, "--store", url, *options)
        )

    def consume(self, topic: str) -> Usage:
        return self._measured([sys.executable, "-m", "bench.consumer", self.servers, topic])

    def _measured(self, program: Sequence[str]) -> Usage:
        os.sync()  # what was written before is not this run's to write
        before = self._servers_cpu()
        usage = measured(program, self.s3.environment)
        return replace(usage, servers_cpu_seconds=self._servers_cpu() - before)

    def _servers_cpu(self) -> float:
        return sum(cpu_seconds(each.process.id) for each in (self.broker, self.s3))

    @contextmanager
    def topic(self, data: Data) -> Iterator[None]:
        say(f"Writing {data.bytes / 1e6:,.0f} MB of {data.name}")
        fill(self.servers, data)
        self.consume(data.name)  # nobody's first: the broker's compiler has done its work
        yield
        delete(self.servers, data.name)


@contextmanager
def estate() -> Iterator[Estate]:
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        directory = Path(name)
        say("Starting a broker and an object store")
        with (
            broker.running(directory / "kafka", jvm=FAST) as kafka,
            object_store.running(directory / "s3", None) as s3,
        ):
            create(kafka.plaintext, EMPTY)
            where = Estate(kafka, s3, directory)
            for pair in ("recipient", "host"):
                where.aqueduct("diode", "keygen", "--kind", "receiver", "--out", name, "--name", pair)
            yield where


@dataclass(frozen=True)
class Row:
    """The usage of a command, and of the same command with nothing to do: its start-up."""

    data: Data
    name: Name
    usage: Usage
    start: Usage

    @property
    def speed(self) -> float:
        """MB/s beyond start-up; not a number if that is lost in the noise."""
        seconds = self.usage.seconds - self.start.seconds
        return self.data.bytes / 1e6 / seconds if seconds > NOISE_SECONDS else math.nan


HEAD = (
    "data | MB | what | store | run by | s | start-up s | MB/s | of the consumer's | CPU s/GB "
    "| start-up CPU s | servers' CPU s/GB | Python MB | JVM MB"
)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table. MB/s and CPU s/GB are beyond start-up, of the records' values."""
    limits = {row.data.name: row.speed for row in rows if row.name == CONSUMER}
    lines = [f"| {HEAD} |", "|---|---:|---|---|---|" + "---:|" * (HEAD.count("|") - 4)]
    for row in rows:
        data, usage, start = row.data, row.usage, row.start
        cells = (
            data.name,
            f"{data.bytes / 1e6:,.0f}",
            *row.name,
            f"{usage.seconds:.1f}",
            f"{start.seconds:.1f}",
            f"{row.speed:,.0f}",
            f"{row.speed / limits[data.name]:.2f}",
            f"{(usage.cpu_seconds - start.cpu_seconds) / data.bytes * 1e9:.1f}",
            f"{start.cpu_seconds:.1f}",
            f"{(usage.servers_cpu_seconds - start.servers_cpu_seconds) / data.bytes * 1e9:.1f}",
            f"{usage.python_bytes / 1e6:.0f}",
            f"{usage.java_bytes / 1e6:.0f}" if usage.java_bytes else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rows(plan: Rounds, where: Estate, verbs: Sequence[Verb]) -> list[list[Row]]:
    """Measure each verb, beside a consumer."""

    def measure(verb: Verb, topic: str, kinds: list[Kind]) -> Mapping[Name, Usage]:
        every: Commands = {CONSUMER: partial(where.consume, topic), **verb(where, topic, kinds)}
        return dict(zip(every, rounds(plan.runs, every.values()), strict=True))

    found: list[list[Row]] = [[] for _ in verbs]
    say("Measuring start-up")
    starts = [measure(verb, EMPTY, plan.kinds()) for verb in verbs]
    for data in plan.data:
        with where.topic(data):
            for verb, start, mine in zip(verbs, starts, found, strict=True):
                say(f"Measuring {data.name}")
                usages = measure(verb, data.name, plan.kinds(data)).items()
                mine += [Row(data, name, usage, start[name]) for name, usage in usages]
    return found


def rounds(runs: int, commands: Collection[Callable[[], Usage]]) -> Iterator[Usage]:
    """Yield each figure's median.

    The commands run in turn, so that what else the machine does hits all of them.
    """
    found = [[command() for command in commands] for _ in range(runs)]
    for usages in zip(*found, strict=True):
        yield Usage(*(median(column) for column in zip(*map(astuple, usages), strict=True)))
