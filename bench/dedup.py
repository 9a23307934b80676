"""python -m bench.dedup [--records N] [--lost ONE_IN]

What crossed a link, in a raw topic: how fast it becomes a clean topic, and what the ledger of all that was
lost comes to, in Kafka and in memory. The frames are the product's own; no datagram is sent.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aqueduct.common.offset_sets import Span, size
from aqueduct.kafka import client as kafka
from aqueduct.kafka.batches.batch import walk
from aqueduct.kafka.client_config import ClientConfig, End
from aqueduct.link.feed import Feed
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.arrivals import bucket, within
from aqueduct.link.ledger.entry import records
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame
from bench.alone import command
from bench.data import DATA, PARTITIONS, SEED, Data, fill
from bench.measured import Usage, measured
from bench.tell import machine, say, table
from servers.broker import running
from servers.process import FAST

CLEAN, GAPS, RAW = "clean", "gaps", "raw"


def cross(servers: str, data: Data, lost: float) -> int:
    """Write all of a topic into the raw topic, like a link that loses single records at random.

    Return how many it lost.
    """
    end = End("source", servers, ClientConfig())
    chance = random.Random(SEED)  # noqa: S311
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "message.max.bytes": 2 << 20})
    gone = read = 0
    with kafka.connect(end, "bench") as client, kafka.connect(end, "bench") as following:
        feed = Feed(
            client, following, "bench", lambda name: name == data.name,
            session=0, shift=0, largest=1 << 24, from_time=None,
        )  # fmt: skip
        while read < data.records:
            for found, count in feed.poll(1):
                read += count
                missing = sorted(
                    offset for offset in range(found.first, found.last + 1) if chance.random() < lost
                )
                gone += len(missing)
                for part in _parts(found, missing):
                    _produce(producer, part)
        for told in feed.announcements(0):
            _produce(producer, told)
    if producer.flush(120):
        raise SystemExit("the raw topic could not be written")
    return gone


def _parts(found: Frame, missing: Sequence[int]) -> Iterator[Frame]:
    """Yield the frame without these offsets, in pieces, which cover none of them."""
    first = found.first
    for stop in [*missing, found.last + 1]:
        if stop > first:
            whole = not missing
            kept = [found.batches] if whole else _cut(found, (first, stop - 1))
            yield replace(found, first=first, last=stop - 1, batches=b"".join(kept))
        first = stop + 1


def _cut(found: Frame, span: Span) -> list[memoryview]:
    return [batch.data for batch in within(walk(found.batches, check_crc=False), [span])]


def _produce(producer: Producer, of: Frame | Announcement) -> None:
    number = bucket(of.topic, of.partition, PARTITIONS)
    while True:
        try:
            producer.produce(RAW, frame.pack(of, compress_above=1000), frame.key(of), number)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)


# 3: all was done, and no sender is heard of; here there is none.
DEDUP_CODES = (0, 3)


def dedup(servers: str, source: str) -> Usage:
    return measured(
        command(
            *("dedup", "--bootstrap-server", servers, "--raw-topics", RAW, "--gap-topic", GAPS),
            *("--topics", f"{source}:{CLEAN}", "--gap-grace", "0s", "--until-caught-up"),
        ),
        codes=DEDUP_CODES,
    )


def ledger(servers: str) -> tuple[int, int, int]:
    """Return the missing offsets in the ledger, its gaps, and the bytes of its newest records."""
    with kafka.connect(End("target", servers, ClientConfig()), "bench") as client:
        found = gap_topic.whole(client, GAPS).values()
    gaps = [each.current.gaps for each in found if each.current]
    told = [item for each in found for item in records(each, 0).items()]
    return sum(map(size, gaps)), sum(map(len, gaps)), sum(len(key) + len(value or "") for key, value in told)


def kept(folder: Path, topic: str) -> int:
    """Return bytes of a topic's log, before anything was compacted."""
    return sum(each.stat().st_size for each in folder.glob(f"data/{topic}-*/*.log"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/dedup")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--lost", type=int, default=1000, help="one of so many; 0: none")
    args = parser.parse_args()
    data = replace(DATA["log-lines"], records=args.records)
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name) / "kafka"
        with running(folder, jvm=FAST) as kafka:
            broker = kafka.plaintext
            admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
            compacted = {"cleanup.policy": "compact"}
            topics = [NewTopic(RAW, PARTITIONS, 1), NewTopic(CLEAN, PARTITIONS, 1)]
            topics.append(NewTopic(GAPS, PARTITIONS, 1, config=compacted))
            for done in admin.create_topics(topics).values():
                done.result()
            say("Writing the source topic")
            fill(broker, data)
            say("Writing the raw topic")
            gone = cross(broker, data, 1 / args.lost if args.lost else 0)
            say("Making the clean topic")
            usage, start = dedup(broker, data.name), dedup(broker, data.name)  # then there is nothing to do
            missing, gaps, size_ = ledger(broker)
            if missing != gone:
                raise SystemExit(f"{gone} records were lost, but the ledger says {missing}")
            millions, seconds = data.records / 1e6, usage.seconds - start.seconds
            figures = (
                f"{data.records:,}", f"{gone:,}", f"{data.records / seconds:,.0f}", f"{start.seconds:.1f}",
                f"{(usage.cpu_seconds - start.cpu_seconds) / millions:.2f}", f"{gaps:,}",
                f"{size_ / 1e3:,.0f}", f"{kept(folder, GAPS) / 1e6:.1f}",
                f"{start.python_bytes / 1e6:.0f}", f"{usage.python_bytes / 1e6:.0f}",
            )  # fmt: skip
    head = [
        "records", "lost", "records/s", "start-up s", "CPU s/M", "gaps", "ledger KB", "gap topic MB",
        "memory at start-up MB", "memory MB",
    ]  # fmt: skip
    print(f"{machine()}\n\n{table(head, [list(figures)])}")


if __name__ == "__main__":
    main()
