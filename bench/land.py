"""python -m bench.land [--scale FACTOR] [--runs N]

The same flights into ORC files on HDFS by `aqueduct land`, and by Structured Streaming.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path
from statistics import median

import yaml

from aqueduct.control_node.artifacts import maven_jars
from bench.alone import command
from bench.data import EMPTY, create
from bench.flights import AVRO, FIELDS, as_avro, as_json, fill
from bench.measured import CommandFailed, Usage, measured
from bench.tell import machine, say, table
from servers import broker, hdfs
from servers.hdfs import HdfsServer
from servers.process import FAST

RECORDS = 1_000_000
NOTE = {"json": 760, "avro": 900}  # digits of a note, so that a value has about 1,000 bytes
FORMATS = {"json": as_json, "avro": as_avro()}
SPARK = "4.1.1"  # the newest whose sources of Kafka and Avro are on Maven Central
COORDINATES = [f"org.apache.spark:spark-{name}_2.13:{SPARK}" for name in ("sql-kafka-0-10", "avro")]
LOCK = f"artifacts/spark-sources-{SPARK}.sha256"
PLACES = {"this process": (), "local[2]": ("--master", "local[2]")}
COLD, WARM = "streaming, first in its JVM", "streaming, second in its JVM"
numbers = count()


@dataclass(frozen=True)
class Landed:
    """What a landing took, and left."""

    seconds: float
    cpu_seconds: float
    python_bytes: float
    java_bytes: float
    files: float
    stored_bytes: float


@dataclass(frozen=True)
class Lake:
    """Where everything lands."""

    servers: str
    hdfs: HdfsServer
    folder: Path
    jars: str

    def land(self, topic: str, format_: str, options: Sequence[str]) -> Landed:
        """Land a topic with the product, beyond what it takes to start."""
        start, whole = (self._landed(each, format_, options) for each in (EMPTY, topic))
        files, stored = whole[1]
        return Landed(
            whole[0].seconds - start[0].seconds,
            whole[0].cpu_seconds - start[0].cpu_seconds,
            whole[0].python_bytes,
            whole[0].java_bytes,
            files,
            stored,
        )

    def stream(self, topic: str, format_: str) -> tuple[Landed, Landed]:
        """Land a topic twice with Structured Streaming in one session, after that has started."""
        at, told, file = (
            f"{self.hdfs.url}/{next(numbers)}",
            self.folder / "told.json",
            self.folder / "job.json",
        )
        job = {
            "servers": self.servers,
            "topic": topic,
            "format": format_,
            # A time in JSON is a number.
            "types": ", ".join(
                f"{name} {'bigint' if hive == 'timestamp' else hive}" for name, (_, hive) in FIELDS.items()
            ),
            "schema": json.dumps(AVRO),
            "jars": self.jars,
            "folders": [f"{at}/cold", f"{at}/warm"],
            "told": str(told),
        }
        file.write_text(json.dumps(job))
        os.sync()
        python = os.environ["AQUEDUCT_STREAMING_PYTHON"]
        usage = measured([python, "bench/streaming.py", str(file)], {"PYSPARK_PYTHON": python})
        files, stored = self._left(f"{at}/warm/table")
        self._remove(at)
        left = {"files": files, "stored_bytes": stored}
        memory = {"python_bytes": usage.python_bytes, "java_bytes": usage.java_bytes}
        cold, warm = (Landed(**each, **memory, **left) for each in json.loads(told.read_text()))
        return cold, warm

    def _landed(self, topic: str, format_: str, options: Sequence[str]) -> tuple[Usage, tuple[int, int]]:
        os.sync()
        at, file = f"{self.hdfs.url}/{next(numbers)}", self.folder / "tables.yml"
        file.write_text(yaml.safe_dump([declared(topic, format_)]))
        given = ("--bootstrap-server", self.servers, "--declarations", str(file), "--location", at)
        usage = measured(command("land", *given, "--until-caught-up", *options))
        left = self._left(f"{at}/bench/flights")
        self._remove(at)
        return usage, left

    def _left(self, folder: str) -> tuple[int, int]:
        """Return how many ORC files are below a folder, and their bytes."""
        lines = self.hdfs.shell("-ls", "-R", folder).splitlines()
        sizes = [int(line.split()[4]) for line in lines if line.endswith(".orc")]
        return len(sizes), sum(sizes)

    def _remove(self, folder: str) -> None:
        self.hdfs.shell("-rm", "-r", "-skipTrash", folder)


def declared(topic: str, format_: str) -> dict[str, object]:
    """Return the declaration of the table."""
    columns = [
        {"name": name, "type": hive, **({"unit": "ms"} if hive == "timestamp" and format_ == "json" else {})}
        for name, (_, hive) in FIELDS.items()
    ]
    return {
        "table": "bench.flights",
        "topics": [topic],
        "format": format_,
        "columns": columns,
        "partition_by": [{"name": "day", "of": "departed", "every": "day"}],
        **({"schema": json.dumps(AVRO)} if format_ == "avro" else {}),
    }


def streaming_jars(cache: Path, scratch: Path) -> str:
    """Return the jars that Structured Streaming takes to read Kafka and Avro, separated by commas."""
    packed = maven_jars(f"spark-sources-{SPARK}", COORDINATES, lock=LOCK, cache=str(cache))
    with tarfile.open(packed.path) as archive:
        archive.extractall(scratch, filter="data")
    return ",".join(str(jar) for jar in sorted((scratch / "libs").glob("*.jar")))


def middle(found: Sequence[Landed]) -> Landed:
    """Return the median of each figure."""
    return Landed(*(median(column) for column in zip(*map(astuple, found), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/land")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    number = int(RECORDS * args.scale)
    rows = []
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        jars = streaming_jars(Path(os.environ["AQUEDUCT_CACHE"]), folder)
        say("Starting a broker and HDFS")
        for each in ("kafka", "hdfs"):
            (folder / each).mkdir()
        with broker.running(folder / "kafka", jvm=FAST) as kafka, hdfs.running(folder / "hdfs") as files:
            lake = Lake(kafka.plaintext, files, folder, jars)
            create(kafka.plaintext, EMPTY)
            for format_, encode in FORMATS.items():
                say(f"Writing {number:,} records of {format_}")
                size = fill(kafka.plaintext, format_, number, NOTE[format_], encode)
                found: dict[str, list[Landed]] = {}
                for turn in range(args.runs):
                    say(f"Measuring {format_}, round {turn + 1} of {args.runs}")
                    for place, options in PLACES.items():
                        found.setdefault(f"aqueduct land, {place}", []).append(
                            lake.land(format_, format_, options)
                        )
                    for what, landed in zip((COLD, WARM), lake.stream(format_, format_), strict=True):
                        found.setdefault(what, []).append(landed)
                rows += [line(format_, what, number, size, middle(all_)) for what, all_ in found.items()]
    print(f"{machine()} {number:,} records of each format, median of {args.runs}.\n\n{table(HEAD, rows)}")


HEAD = ["format", "MB", "by", "records/s", "s", "CPU s/M", "Python MB", "JVM MB", "files", "ORC MB"]


def line(format_: str, what: str, number: int, size: int, of: Landed) -> list[str]:
    return [
        format_,
        f"{size / 1e6:,.0f}",
        what,
        f"{number / of.seconds:,.0f}",
        f"{of.seconds:.1f}",
        f"{of.cpu_seconds / number * 1e6:.1f}",
        f"{of.python_bytes / 1e6:.0f}",
        f"{of.java_bytes / 1e6:.0f}" if of.java_bytes else "",
        f"{of.files:.0f}",
        f"{of.stored_bytes / 1e6:,.0f}",
    ]


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
