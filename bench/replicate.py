"""python -m bench.replicate [--data NAME]... [--scale FACTOR] [--runs N]

How fast the engine batches, MirrorMaker 2 and the classic MirrorMaker copy a full topic between two brokers.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from confluent_kafka import Consumer, TopicPartition

from aqueduct.estate import classic_mirror
from aqueduct.estate.classic_mirror import BUFFERS
from aqueduct.estate.model import Flow
from aqueduct.estate.schema_registry import properties_file
from bench.data import DATA, PARTITIONS, Data, create, delete, fill
from bench.measured import cpu_seconds
from bench.tell import machine, say, table
from demo.offsets import watermarks
from servers.broker import Broker, running
from servers.process import FAST, Process, binary, java

ROLE = Path(__file__).resolve().parents[1] / "roles/mirror_maker"
THREADS = 2
STILL_SECONDS = 3  # without another record: all have arrived
STALL_SECONDS = 120
ENGINES = {
    "batches": "engine batches, exactly once",
    "mm2": "MirrorMaker 2 of 4.3.1, exactly once",
    "classic": "classic of 3.9.2, at least once",
}
numbers = count()


@dataclass(frozen=True)
class Speed:
    records: float  # a second, from the first one that arrived to the last
    cpu_seconds: float  # of the mirror meanwhile, for a million records
    start_seconds: float  # until the first one arrived


def tuning(which: str) -> dict[str, Any]:
    """Return settings that the role has as defaults, of its `producer` or `consumer`."""
    found: dict[str, Any] = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    return dict(found[f"mirror_maker_{which}_settings"])


def mm2(
    alias: str, topic: str, source: str, target: str, folder: Path, buffers: Mapping[str, str] = BUFFERS
) -> list[str]:
    """Return the command of one with the settings of mm2.properties.j2 that bear on its speed."""
    flow = f"{alias}->lake"
    properties = {
        "clusters": f"{alias},lake",
        f"{alias}.bootstrap.servers": source,
        "lake.bootstrap.servers": target,
        f"{flow}.enabled": "true",
        f"{flow}.topics": topic,
        f"lake->{alias}.enabled": "false",
        f"lake->{alias}.emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "tasks.max": THREADS,
        "offset-syncs.topic.location": "target",
        "sync.topic.acls.enabled": "false",
        "lake.exactly.once.source.support": "enabled",
        f"{flow}.transaction.boundary": "interval",
        f"{flow}.transaction.boundary.interval.ms": 500,
        f"{alias}.consumer.isolation.level": "read_committed",
        "lake.plugin.discovery": "service_load",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "replication.factor": 1,
        **{f"{kind}.topic.replication.factor": 1 for kind in ("heartbeats", "offset-syncs")},
        **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
        **{f"{alias}.consumer.{key}": value for key, value in {**buffers, **tuning("consumer")}.items()},
        **{f"lake.producer.{key}": value for key, value in {**buffers, **tuning("producer")}.items()},
    }
    file = folder / f"{alias}.properties"
    file.write_text(properties_file(properties))
    return java("org.apache.kafka.connect.mirror.MirrorMaker", file, "--clusters", "lake", jvm=FAST)


def classic(
    alias: str, topic: str, source: str, target: str, folder: Path, buffers: Mapping[str, str] = BUFFERS
) -> list[str]:
    flow = Flow(source=alias, target="lake", topics=(topic,), engine="classic", threads=THREADS)
    own = folder / alias
    own.mkdir()
    consumer = classic_mirror.consumer(flow, source, {}, {**buffers, **tuning("consumer")}, 60)
    producer = classic_mirror.producer(flow, target, {}, {**buffers, **tuning("producer")}, "h1")
    (own / "consumer.cfg").write_text(properties_file(consumer))
    (own / "producer.cfg").write_text(properties_file(producer))
    classes = f"{ROLE}/files:{binary('AQUEDUCT_OLDER_KAFKA_JARS')}/*"
    return ["java", *FAST, "-cp", classes, *classic_mirror.arguments(flow, str(own), 5)]


def batches(
    alias: str, topic: str, source: str, target: str, folder: Path, buffers: Mapping[str, str] = BUFFERS
) -> list[str]:
    return [
        *(sys.executable, "-m", "aqueduct.cli", "replicate", "--flow", alias, "--topics-pattern", topic),
        *("--source-bootstrap-server", source, "--target-bootstrap-server", target),
        *("--tasks", str(THREADS)),
    ]


COMMANDS = {"batches": batches, "mm2": mm2, "classic": classic}


def copied(
    engine: str,
    data: Data,
    source: Broker,
    target: Broker,
    folder: Path,
    buffers: Mapping[str, str] = BUFFERS,
) -> Speed:
    """Copy the topic by a mirror of its own, and return its speed."""
    create(target.plaintext, data.name)
    alias = f"{engine}{next(numbers)}"
    command = COMMANDS[engine](alias, data.name, source.plaintext, target.plaintext, folder, buffers)
    reader = Consumer({"bootstrap.servers": target.plaintext, "group.id": "none", "log_level": 0})
    places = [TopicPartition(data.name, each) for each in range(PARTITIONS)]
    started = begun = moved = time.monotonic()
    used = used_then = 0.0
    there = 0
    with Process(command, folder / f"{alias}.log", lambda: True).running() as process:
        while there < data.records or time.monotonic() - moved < STILL_SECONDS:
            found = sum(watermarks(reader, each)[1] for each in places)
            now = time.monotonic()
            if found > there:
                if not there:
                    begun, used = now, cpu_seconds(process.id)
                there, moved, used_then = found, now, cpu_seconds(process.id)
            elif now - moved > STALL_SECONDS:
                raise SystemExit(f"{alias} copied {there} of {data.records} records, and no more")
            time.sleep(0.05)
    reader.close()
    delete(target.plaintext, data.name)
    time.sleep(1)  # the name is free again
    return Speed(data.records / (moved - begun), (used_then - used) / data.records * 1e6, begun - started)


def row(data: Data, engine: str, speeds: Sequence[Speed]) -> list[str]:
    records = median(each.records for each in speeds)
    return [
        data.name,
        ENGINES[engine],
        f"{records:,.0f}",
        f"{records * data.record_bytes / 1e6:,.0f}",
        f"{median(each.cpu_seconds for each in speeds):.1f}",
        f"{median(each.start_seconds for each in speeds):.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.replicate")
    chosen = ("log-lines", "1-kb-records")
    parser.add_argument("--data", action="append", choices=chosen)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    sets = [replace(DATA[name], records=int(DATA[name].records * args.scale)) for name in args.data or chosen]
    rows = []
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        say("Starting two brokers")
        with ThreadPoolExecutor() as starting:
            made = [running(folder / each, jvm=FAST) for each in ("source", "target")]
            for each in ("source", "target"):
                (folder / each).mkdir()
            source, target = starting.map(stack.enter_context, made)
        for data in sets:
            say(f"Writing {data.bytes / 1e6:,.0f} MB of {data.name}")
            fill(source.plaintext, data)
            found: dict[str, list[Speed]] = {engine: [] for engine in ENGINES}
            for number in range(args.runs):
                for engine in ENGINES:
                    say(f"Round {number + 1} of {args.runs}: {engine}")
                    found[engine].append(copied(engine, data, source, target, folder))
            rows += [row(data, engine, speeds) for engine, speeds in found.items()]
    print(f"{machine()} Median of {args.runs}.\n\n`bench/replicate`\n")
    print(table(["data", "mirror", "records/s", "MB/s", "mirror's CPU s/M", "start-up s"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
