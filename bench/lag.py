"""python -m bench.lag [--seconds N] [--rate N] [--every SECONDS]

How late a record of a steady stream is readable in a table on HDFS, while small files are joined beside.
"""

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml
from confluent_kafka import Producer
from hdfs_native import Client
from pyarrow import orc

from bench.alone import command
from bench.data import PARTITIONS, create
from bench.flights import as_json, flights
from bench.land import NOTE, PLACES, declared
from bench.measured import CommandFailed, Usage, cpu_seconds, descendants, measured
from bench.tell import machine, say, table
from servers import broker, hdfs
from servers.process import FAST

DIFFERENT = 50_000  # flights, each with a new note whenever it is written
TICK_SECONDS = 0.05
LOOK_SECONDS = 0.25
LANDED_SECONDS = 300  # until everything has landed after the last record was written


class Stream(threading.Thread):
    """Writes so many flights a second, each to the next partition.

    So offset o of partition p is flight o * PARTITIONS + p.
    """

    def __init__(self, servers: str, topic: str, rate: int, seconds: int) -> None:
        super().__init__(daemon=True)
        self.servers, self.topic, self.rate, self.seconds = servers, topic, rate, seconds
        self.number = rate * seconds
        self.began = 0.0
        self.bytes = 0
        self.late = 0.0  # seconds that a flight was written later than its rate says, at most

    def run(self) -> None:
        heads = [as_json(flight)[:-2] for flight in flights(DIFFERENT, 0)]
        note = NOTE["json"] // 2
        producer = Producer(
            {"bootstrap.servers": self.servers, "compression.type": "zstd", "linger.ms": 20, "log_level": 0}
        )
        self.began = time.monotonic()
        written = 0
        while written < self.number:
            due = min(self.number, int((time.monotonic() - self.began) * self.rate))
            for each in range(written, due):
                value = heads[each % DIFFERENT] + os.urandom(note).hex().encode() + b'"}'
                self.bytes += len(value)
                producer.produce(self.topic, value, partition=each % PARTITIONS)
            written = due
            producer.poll(0)
            self.late = max(self.late, time.monotonic() - self.at(written))
            time.sleep(TICK_SECONDS)
        producer.flush()

    def at(self, flight: int) -> float:
        """Return when a flight was due, by the monotonic clock."""
        return self.began + flight / self.rate

    def begun(self) -> "Stream":
        self.start()
        while not self.began:
            time.sleep(TICK_SECONDS)
        return self


@dataclass
class Table:
    """The table as its readers see it: by a client of HDFS that shares nothing with what lands."""

    client: Client
    folder: str
    topic: str
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield commits that nobody was told of, each after its files can be read."""
        for name in self._names("_land/commits"):
            if name not in self.commits:
                commit = json.loads(self._read(f"_land/commits/{name}"))
                for file in commit["added"]:
                    self._await(file["path"])
                self.commits[name] = commit
                yield commit

    def live(self) -> dict[str, int]:
        """Return the bytes of files, by path."""
        found: dict[str, int] = {}
        for _, commit in sorted(self.commits.items()):
            for path in commit["removed"]:
                del found[path]
            found |= {file["path"]: file["bytes"] for file in commit["added"] if not file.get("table")}
        return found

    def rows(self) -> int:
        return sum(orc.ORCFile(io.BytesIO(self._read(path))).nrows for path in self.live())

    def _names(self, folder: str) -> list[str]:
        try:
            found = self.client.list_status(f"{self.folder}/{folder}")
            return sorted(name for each in found if (name := Path(each.path).name).endswith(".json"))
        except FileNotFoundError:
            return []

    def _read(self, path: str) -> bytes:
        with self.client.read(f"{self.folder}/{path}") as file:
            return bytes(file.read())

    def _await(self, path: str) -> None:
        """Wait for a file; one that was joined meanwhile was there."""
        for _ in range(40):
            try:
                self.client.get_file_info(f"{self.folder}/{path}")
                return
            except FileNotFoundError:
                time.sleep(LOOK_SECONDS / 10)
        say(f"{path} was not seen")


@dataclass(frozen=True)
class Late:
    """What a landing of a stream came to."""

    rounds: int
    lags: list[float]  # seconds from when the oldest record of a commit was written until it could be read
    rows: int
    landed: list[int]  # bytes of each file that landed
    joined: list[int]  # bytes of each file of the table after the last compaction
    cpu_seconds: float
    compactions: list[Usage]


@contextmanager
def landing(command: list[str], log: Path) -> Iterator[int]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)  # noqa: S603
    try:
        yield process.pid
        if process.poll() is not None:
            raise CommandFailed(f"the landing ended:\n{log.read_text()[-3000:]}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


class Compacting(threading.Thread):
    """Joins small files over and over, as its timer does in an estate."""

    def __init__(self, command: list[str], every: float) -> None:
        super().__init__(daemon=True)
        self.command, self.every = command, every
        self.over = threading.Event()
        self.usages: list[Usage] = []

    def run(self) -> None:
        while not self.over.wait(self.every):
            self.usages.append(measured(self.command))


def land(
    kafka: str, files: hdfs.HdfsServer, topic: str, args: argparse.Namespace, options: tuple[str, ...]
) -> Late:
    """Land a stream while it is written, and join its files; return what that came to."""
    create(kafka, topic)
    folder = f"{files.url}/{topic}"
    declarations = files.directory / f"{topic}.yml"
    declarations.write_text(yaml.safe_dump([declared(topic, "json")]))
    given = ["--bootstrap-server", kafka, "--declarations", str(declarations), "--location", folder]
    seen = Table(Client(files.url), f"/{topic}/bench/flights", topic)
    lags: list[float] = []
    landed: list[int] = []
    compacting = Compacting(command("land", "compact", *given), args.compact)
    lander = command("land", *given, "--every", f"{args.every}s", *options)
    with landing(lander, files.directory / "landing.log") as process:
        stream = Stream(kafka, topic, args.rate, args.seconds).begun()
        compacting.start()
        deadline = time.monotonic() + args.seconds + LANDED_SECONDS
        reached = 0
        while reached < stream.number:
            for commit in seen.new():
                if commit["kind"] == "land":
                    now = time.monotonic()
                    before, next_ = (commit["positions"][each].get(topic, {}) for each in ("before", "next"))
                    oldest = min(
                        int(before.get(str(number), 0)) * PARTITIONS + number for number in range(PARTITIONS)
                    )
                    lags.append(now - stream.at(oldest))
                    landed += [file["bytes"] for file in commit["added"]]
                    reached = sum(map(int, next_.values()))
            if time.monotonic() > deadline:
                raise CommandFailed(f"{reached:,} of {stream.number:,} records landed in time")
            time.sleep(LOOK_SECONDS)
        used = cpu_seconds(process) + sum(dict(descendants([process])).values())
        if stream.late > 1:
            say(f"The writer was late by up to {stream.late:.1f} s: lags are too small by that")
    compacting.over.set()
    compacting.join()
    compacting.usages.append(measured(compacting.command))
    list(seen.new())
    rows = seen.rows()
    if rows != stream.number:
        raise CommandFailed(f"the table has {rows:,} rows of {stream.number:,} records")
    return Late(len(lags), lags, rows, landed, list(seen.live().values()), used, compacting.usages)


HEAD = [
    *("by", "records", "rounds", "lag s (median)", "lag s (most)", "files landed", "MB each"),
    *("files after", "MB each after", "least MB", "CPU s/M", "compactions", "their CPU s/M", "their MB"),
]


def line(place: str, of: Late) -> list[str]:
    million = of.rows / 1e6
    return [
        place,
        f"{of.rows:,}",
        f"{of.rounds}",
        f"{median(of.lags):.0f}",
        f"{max(of.lags):.0f}",
        f"{len(of.landed)}",
        f"{mean(of.landed) / 1e6:.0f}",
        f"{len(of.joined)}",
        f"{mean(of.joined) / 1e6:.0f}",
        f"{min(of.joined) / 1e6:.0f}",
        f"{of.cpu_seconds / million:.1f}",
        f"{len(of.compactions)}",
        f"{sum(each.cpu_seconds for each in of.compactions) / million:.1f}",
        f"{max(each.python_bytes for each in of.compactions) / 1e6:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/lag")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=30)
    parser.add_argument("--compact", type=int, default=60)
    args = parser.parse_args()
    rows = []
    topics = (f"stream-{number}" for number in count())
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        for each in ("kafka", "hdfs"):
            (folder / each).mkdir()
        say("Starting a broker and HDFS")
        with broker.running(folder / "kafka", jvm=FAST) as kafka, hdfs.running(folder / "hdfs") as files:
            for place, options in PLACES.items():
                say(f"Landing {args.rate:,} records a second for {args.seconds} s: {place}")
                topic = next(topics)
                found = land(kafka.plaintext, files, topic, args, options)
                rows.append(line(place, found))
                files.shell("-rm", "-r", "-skipTrash", f"{files.url}/{topic}")
    print(
        f"{machine()} {args.rate:,} records a second for {args.seconds} s, landed every {args.every} s, "
        f"joined every {args.compact} s.\n\n{table(HEAD, rows)}"
    )


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
