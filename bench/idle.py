"""python -m bench.idle TOPICS,...

A real broker with many idle partitions: what a run takes that finds nothing new in them.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.measured import Usage, measured
from bench.tell import machine, say, table
from servers.broker import running
from servers.process import FAST

AT_ONCE = 20  # topics that one request makes
PARTITIONS = 12  # of a topic


def idle(sizes: Sequence[int]) -> Iterator[tuple[int, str, Usage]]:
    """Yield, for each number of topics, ascending, what a backup of all takes: the first time, and again."""
    with _broker() as (servers, folder):
        made = 0
        for topics in sizes:
            say(f"Making topics {made} to {topics}")
            _fill(servers, range(made, topics))
            made = topics
            store = f"file://{folder}/store-{topics}"
            command = [
                *(sys.executable, "-m", "aqueduct.cli", "backup", "--bootstrap-server", servers),
                *("--topics-pattern", "idle-.*", "--store", store),
            ]
            for what in ("one record in each", "nothing new", "nothing new"):
                say(f"Backing up {topics * PARTITIONS:,} partitions, {what}")
                yield topics * PARTITIONS, what, measured(command)


@contextmanager
def _broker() -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        (folder / "kafka").mkdir()
        with running(folder / "kafka", jvm=FAST) as kafka:
            yield kafka.plaintext, folder


def _fill(servers: str, numbers: range) -> None:
    """Make topics with one record in each partition."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    names = [f"idle-{number:05}" for number in numbers]
    for at in range(0, len(names), AT_ONCE):
        new = [NewTopic(name, PARTITIONS, 1) for name in names[at : at + AT_ONCE]]
        for done in admin.create_topics(new, request_timeout=120).values():
            done.result()
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 5})
    for name in names:
        for partition in range(PARTITIONS):
            producer.produce(name, b"a value", b"a key", partition)
        producer.poll(0)
    if producer.flush(300):
        raise SystemExit("the topics could not be filled")


def main(sizes: str) -> None:
    rows = [
        [
            f"{partitions:,}",
            what,
            f"{used.seconds:.1f}",
            f"{used.cpu_seconds:.1f}",
            f"{used.python_bytes / 1e6:,.0f}",
        ]
        for partitions, what, used in idle(sorted(map(int, sizes.split(","))))
    ]
    print(machine())
    print(table(["partitions", "what", "s", "CPU s", "memory MB"], rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
