"""python -m bench.spark [--scale FACTOR] [--runs N]

The same work in this process, by Spark on this host, and on clusters of one-core workers.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aqueduct.work.options import SparkOptions
from aqueduct.work.spark import application
from aqueduct.work.spark_usage import SparkFigures
from bench import dedup
from bench.alone import command
from bench.data import DATA, EMPTY, PARTITIONS, create, delete, fill
from bench.measured import CommandFailed, Usage, descendants, measured
from bench.rounds import rounds
from bench.tell import machine, say, table
from servers import broker, spark
from servers.process import FAST

CORES = {"this process": (), "local[2]": ("--master", "local[2]")}
JOBS = 20
numbers = count()


@dataclass(frozen=True)
class Place:
    """Where a verb does its work."""

    name: str
    options: Sequence[str]
    environment: dict[str, str]
    workers: Sequence[int] = ()  # processes whose descendants work, too

    def run(self, *arguments: str, codes: Container[int] = (0,)) -> Usage:
        os.sync()
        with watched(self.workers) as used:
            usage = measured(command(*arguments, *self.options), self.environment, codes=codes)
        return replace(usage, cpu_seconds=usage.cpu_seconds + sum(used.values()))


@contextmanager
def watched(processes: Sequence[int]) -> Iterator[dict[int, float]]:
    """Yield the CPU seconds of all descendants of these, by process, as they were seen last."""
    used: dict[int, float] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            for process, cpu in descendants(processes):
                used[process] = max(used.get(process, 0), cpu)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield used
    finally:
        over.set()
        watching.join()


def commands(servers: str, folder: Path, topic: str, place: Place) -> dict[str, Callable[[], Usage]]:
    """Return what is run of each verb; each run writes into what is new, and removes it."""
    reached = ("--bootstrap-server", servers)
    store = (folder / f"store-of-{topic}").as_uri()

    def backup() -> Usage:
        new = folder / f"store-{next(numbers)}"
        return place.run("backup", *reached, "--topics", topic, "--store", new.as_uri())

    def restore() -> Usage:
        new = f"restored-{next(numbers)}"
        usage = place.run("restore", *reached, "--store", store, "--topics", f"{topic}:{new}", "--no-groups")
        delete(servers, new)
        return usage

    def deduped() -> Usage:
        clean, gaps = f"clean-{next(numbers)}", f"gaps-{next(numbers)}"
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        topics = [
            NewTopic(clean, PARTITIONS, 1),
            NewTopic(gaps, PARTITIONS, 1, config={"cleanup.policy": "compact"}),
        ]
        for made in admin.create_topics(topics).values():
            made.result()
        raw = ("--raw-topics", dedup.RAW if topic != EMPTY else EMPTY, "--gap-topic", gaps)
        usage = place.run(
            *(
                "dedup",
                *reached,
                *raw,
                "--topics",
                f"{topic}:{clean}",
                "--gap-grace",
                "0s",
                "--until-caught-up",
            ),
            codes=dedup.DEDUP_CODES,
        )
        for each in (clean, gaps):
            delete(servers, each)
        return usage

    return {
        "backup": backup,
        "verify": partial(place.run, "verify", "--store", store),
        "restore": restore,
        "reconcile": partial(
            place.run,
            "reconcile",
            *("--source-bootstrap-server", servers),
            *("--target-bootstrap-server", servers),
            "--topics",
            topic,
        ),
        "dedup": deduped,
    }


def size(number: int) -> int:
    return abs(number)


def kept(cluster: spark.Cluster) -> float:
    """Return the median of a job's seconds in a session that is kept: two tasks that do nothing."""
    os.environ |= {**cluster.environment, "PYSPARK_PYTHON": sys.executable}
    with application("bench", SparkOptions(cluster.url), SparkFigures()) as run:
        seconds = []
        for _ in range(JOBS):
            began = time.monotonic()
            run(size, [1, 2])
            seconds.append(time.monotonic() - began)
    return median(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/spark")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    data = replace(DATA["1-kb-records"], records=int(1_000_000 * args.scale))
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        folders = [folder / each for each in ("one", "two")]
        for each in folders:
            each.mkdir()
        say("Starting a broker and two clusters")
        with (
            broker.running(folder / "kafka", jvm=FAST) as kafka,
            spark.running(folders[0], 1) as one,
            spark.running(folders[1], 2) as two,
        ):
            places = [Place(where, options, {}) for where, options in CORES.items()]
            places += [
                Place(
                    f"{len(each.workers)} one-core worker{'s' * (len(each.workers) > 1)}",
                    ("--master", each.url),
                    {**each.environment, "PYSPARK_PYTHON": sys.executable},
                    [worker.id for worker in each.workers],
                )
                for each in (one, two)
            ]
            servers = kafka.plaintext
            create(servers, EMPTY)
            create(servers, dedup.RAW)
            say(f"Writing {data.bytes / 1e6:,.0f} MB")
            fill(servers, data)
            dedup.cross(servers, data, 0)
            for topic in (EMPTY, data.name):
                store = (folder / f"store-of-{topic}").as_uri()
                places[0].run("backup", "--bootstrap-server", servers, "--topics", topic, "--store", store)
            found: dict[tuple[str, str, str], Usage] = {}
            for topic in (EMPTY, data.name):
                say("Measuring start-up" if topic == EMPTY else f"Measuring {topic}")
                every = {
                    (verb, place.name, topic): run
                    for place in places
                    for verb, run in commands(servers, folder, topic, place).items()
                }
                found |= dict(zip(every, rounds(args.runs, every.values()), strict=True))
            job = kept(two)
    rows = []
    for verb, where, topic in found:
        if topic == EMPTY:
            continue
        usage, start = found[verb, where, topic], found[verb, where, EMPTY]
        seconds = usage.seconds - start.seconds
        rows.append(
            [
                *(verb, where, f"{usage.seconds:.1f}", f"{start.seconds:.1f}", f"{seconds:.1f}"),
                f"{(usage.cpu_seconds - start.cpu_seconds) / data.bytes * 1e9:.1f}",
                f"{start.cpu_seconds:.1f}",
            ]
        )
    head = ["what", "where", "s", "start-up s", "s beyond it", "CPU s/GB beyond it", "start-up CPU s"]
    print(f"{machine()} {data.bytes / 1e6:,.0f} MB, median of {args.runs}.\n\n{table(head, sorted(rows))}")
    print(f"\nA job of two tasks that do nothing, in a session that is kept: {job * 1000:.0f} ms.")


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
