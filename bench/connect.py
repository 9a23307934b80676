"""python -m bench.connect [--scale FACTOR] [--runs N]

What a sink of Kafka Connect writes a second, with and without mutual TLS and dead letters, on one machine.
"""

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from bench.data import DATA, PARTITIONS, Data, create, fill
from bench.measured import cpu_seconds
from bench.tell import machine, say
from servers.broker import running
from servers.process import FAST, Process, free_ports, java

SINK_SECONDS = 300
POISON_EACH = 1_000
POISONED = "poisoned"


def objects(size: int) -> Iterator[bytes]:
    """Yield the same JSON objects as DATA's, whole."""
    for text in DATA["1-kb-records"].values(size - 2):
        head, _, rest = text[:-1].rpartition(b'"')
        yield head + b'"' + rest + b'"}'


TOPIC = Data("events", 500_000, 1_000, 64 << 10, objects)

WORKER = """
bootstrap.servers={bootstrap}
group.id=bench-{name}
config.storage.topic=bench-{name}-configs
offset.storage.topic=bench-{name}-offsets
status.storage.topic=bench-{name}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=1000
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
listeners=http://127.0.0.1:{port}
"""
CLIENT_TLS = """
{client}security.protocol=SSL
{client}ssl.keystore.type=PEM
{client}ssl.keystore.location={keystore}
{client}ssl.truststore.type=PEM
{client}ssl.truststore.location={truststore}
"""
DEAD_LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
numbers = count()


@dataclass(frozen=True)
class Case:
    tls: bool
    letters: bool
    topic: str = TOPIC.name


@dataclass(frozen=True)
class Speed:
    records: float  # a second, from the first one written to the last
    cpu_seconds: float  # of the worker for a million records


CASES = (
    Case(tls=False, letters=False),
    Case(tls=True, letters=False),
    Case(tls=False, letters=True),
    Case(tls=True, letters=True),
    Case(tls=True, letters=True, topic=POISONED),
)


@dataclass(frozen=True)
class Worker:
    url: str
    process: int

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        request.method = method
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=90) as answer:
            return json.loads(answer.read() or "null")


@contextmanager
def worker(directory: Path, name: str, bootstrap: str, tls: str) -> Iterator[Worker]:
    [port] = free_ports(1)
    properties, log = directory / f"{name}.properties", directory / f"{name}.log"
    properties.write_text(WORKER.format(bootstrap=bootstrap, name=name, port=port) + tls)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return bool(Worker(url, 0).ask("/health")["status"] == "healthy")
        except (urllib.error.URLError, OSError):
            return False

    command = java("org.apache.kafka.connect.cli.ConnectDistributed", properties, jvm=FAST)
    with Process(command, log, ready).running() as process:
        yield Worker(url, process.id)


def sink(worker: Worker, directory: Path, case: Case, records: int) -> Speed:
    """Run a new connector that reads its topic from the beginning into a file, and return its speed."""
    name = f"sink-{next(numbers)}"
    file = directory / name
    letters = {**DEAD_LETTERS, "errors.deadletterqueue.topic.name": f"{name}-dlq"} if case.letters else {}
    worker.ask(
        f"/connectors/{name}/config",
        "PUT",
        {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": case.topic,
            "file": str(file),
            "consumer.override.auto.offset.reset": "earliest",
            **letters,
        },
    )
    used = 0.0

    def begun() -> bool:
        return file.exists() and file.stat().st_size > 0

    def failed() -> bool:
        return "FAILED" in json.dumps(worker.ask("/connectors?expand=status").get(name))

    def lines() -> int:
        with file.open("rb") as content:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: content.read(1 << 20), b""))

    wait(lambda: begun() or failed())
    started, used = time.monotonic(), cpu_seconds(worker.process)
    size = 0

    def still() -> bool:
        """Return whether nothing is written any more."""
        nonlocal size
        before, size = size, file.stat().st_size
        return before == size

    ended, used_then = started, used
    while True:
        while not still():
            ended, used_then = time.monotonic(), cpu_seconds(worker.process)
            time.sleep(0.05)
        if lines() >= records:
            break
        if failed() or time.monotonic() - ended > SINK_SECONDS:
            raise SystemExit(f"{name} wrote {lines()} of {records} records, and no more")
        time.sleep(0.05)
    worker.ask(f"/connectors/{name}", "DELETE")
    file.unlink()
    return Speed(records / (ended - started), (used_then - used) / records * 1e6)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SINK_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {SINK_SECONDS} s")
        time.sleep(0.02)


def poison(bootstrap: str, data: Data) -> None:
    """Write the same records, of which one in POISON_EACH isn't JSON."""
    create(bootstrap, POISONED)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 20})
    values = list(data.values(data.record_bytes))
    for number in range(data.records):
        value = values[number % len(values)] if number % POISON_EACH else b"no JSON"
        while True:
            try:
                producer.produce(POISONED, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("the poisoned records could not be written")


def table(found: dict[Case, Speed]) -> str:
    plain = found[CASES[0]]
    head = "TLS | dead letters | poison | records/s | of plaintext without | worker's CPU s for a million"
    rows = [f"| {head} |", "|---|---|---|---:|---:|---:|"]
    for case, speed in found.items():
        cells = (
            "yes" if case.tls else "no",
            "yes" if case.letters else "no",
            f"1 in {POISON_EACH:,}" if case.topic == POISONED else "none",
            f"{speed.records:,.0f}",
            f"{speed.records / plain.records:.2f}",
            f"{speed.cpu_seconds:.1f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.connect")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    data = replace(TOPIC, records=int(TOPIC.records * args.scale))
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder:
        directory = Path(folder)
        say("Starting a broker and two workers")
        with ExitStack() as stack:
            broker = stack.enter_context(running(directory / "kafka", jvm=FAST, supers=["connect"]))
            stores = {
                "keystore": broker.authority.issue("connect"),
                "truststore": broker.authority.certificate,
            }
            clients = ("", "consumer.", "producer.", "admin.")
            tls = "".join(CLIENT_TLS.format(client=client, **stores) for client in clients)
            bootstrap = broker.plaintext
            plain = stack.enter_context(worker(directory, "plain", bootstrap, ""))
            encrypted = stack.enter_context(worker(directory, "tls", broker.tls, tls))
            say(f"Writing twice {data.bytes / 1e6:,.0f} MB")
            fill(bootstrap, data)
            poison(bootstrap, data)
            found: dict[Case, list[Speed]] = {case: [] for case in CASES}
            for number in range(args.runs + 1):  # the first one for the compilers
                say(f"Round {number} of {args.runs}")
                for case in CASES:
                    good = data.records - (-(-data.records // POISON_EACH) if case.topic == POISONED else 0)
                    speed = sink(encrypted if case.tls else plain, directory, case, good)
                    found[case] += [speed] if number else []
    print(f"{machine()} Median of {args.runs}.\n\n`bench/connect`\n")
    print(
        table(
            {
                case: Speed(median(s.records for s in speeds), median(s.cpu_seconds for s in speeds))
                for case, speeds in found.items()
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
