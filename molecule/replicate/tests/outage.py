"""Producers that never stop, and faults under them."""

import itertools
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from lab import Lab, Record, wait_until
from writer import Writer

from demo.flights import Flight, flights
from demo.offsets import watermarks

FLOWS = ("pro1", "pro2", "pro1-bookings")
MIRRORS = ("lake-mirror-1", "lake-mirror-2")
BATCHES_FLOW = "pro1-crews"  # of the engine `batches`
GROUP = "bookings-desk"

Topic = dict[int, list[Record]]


@dataclass
class Outcome:
    """What was read at the end: sources by (host, topic), and the lake by topic."""

    sources: dict[tuple[str, str], Topic] = field(default_factory=dict)
    lake: dict[str, Topic] = field(default_factory=dict)
    acknowledged: dict[tuple[str, str], int] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)


def bookings() -> Iterator[Flight]:
    """Made-up bookings with what real data rarely has: null and empty values, headers twice or valueless."""
    for number in itertools.count():
        yield Flight(
            key=f"passenger-{number % 500}".encode() if number % 7 else None,
            value=f"booking {number}".encode() if number % 11 else (b"" if number % 2 else None),
            timestamp=1_700_000_000_000 + number,
            headers=(("leg", b"1"), ("leg", b"2"), ("meal", None), ("note", b"")) if number % 5 == 0 else (),
        )


def write_and_break(lab: Lab, seeds: list[random.Random]) -> Outcome:
    outcome = Outcome()
    writers = [
        Writer(lab, "pro1-kafka-1", "flights", "flights", itertools.cycle(flights("EWR")), seeds[0]),
        Writer(lab, "pro2-kafka-1", "flights", "flights", itertools.cycle(flights("JFK")), seeds[0]),
        Writer(lab, "pro1-kafka-1", "bookings", "bookings", bookings(), seeds[0]),
        Writer(lab, "pro1-kafka-1", "crews", "bookings", bookings(), seeds[0]),
    ]
    for writer in writers:
        writer.start()
    wait_until("records of every flow in the lake", lambda: all_flows_carry(lab))
    commit_half(lab)
    # A mirror never translates a position that is older than its start: that comes before the first kill.
    wait_until(f"{GROUP} in the lake", lambda: committed(lab, "lake-kafka-1"))
    for seed, chance in enumerate(seeds, 1):
        kill_mirror(lab, chance, seed)
        kill_lake_broker(lab, chance, seed)
        outcome.created.append(grow_topics(lab, chance, seed))
        writers.append(Writer(lab, "pro1-kafka-1", outcome.created[-1], "bookings", bookings(), chance))
        writers[-1].start()
        pause(chance)
    lose_mirror_host(lab)
    pause(seeds[0])
    for writer in writers:
        outcome.acknowledged[writer.host, writer.topic] = writer.finish()
    for writer in writers:
        outcome.sources[writer.host, writer.topic] = lab.read(writer.host, writer.topic)
    for topic in {writer.topic for writer in writers}:
        sent = sum(count(read) for (_, name), read in outcome.sources.items() if name == topic)
        print(f"waiting for {sent:,} records of {topic} in the lake")
        try:
            wait_until(f"{sent} records of {topic} in the lake", lambda t=topic, n=sent: arrived(lab, t) >= n)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{what_mirrors_logged(lab)}") from error
        outcome.lake[topic] = lab.read("lake-kafka-1", topic)
        if count(outcome.lake[topic]) != sent:
            print(f"not {sent:,}, but {count(outcome.lake[topic]):,}: {evidence(lab)} has the logs")
    return outcome


def evidence(lab: Lab) -> Path:
    """Keep the lake's log segments and the mirrors' journals, for whoever looks for what doubled records."""
    folder = Path(tempfile.mkdtemp(prefix="aqueduct-replicate-"))
    lake = lab.container("lake-kafka-1")
    subprocess.run(["docker", "cp", f"{lake}:/var/lib/kafka", str(folder)], check=True, capture_output=True)
    for host in MIRRORS:
        said = lab.run(host, "journalctl", "--unit=mirror_maker@*", "--output=short-iso-precise", check=False)
        (folder / f"{host}.log").write_text(said.stdout)
    return folder


def what_mirrors_logged(lab: Lab) -> str:
    """Return the last that mirrors' workers said of their groups and tasks."""
    asked = ("--grep=Herder|Coordinator|ERROR|WorkerSourceTask", "--lines=80", "--output=short-iso")
    said = (lab.run(host, "journalctl", "--unit=mirror_maker@*", *asked, check=False) for host in MIRRORS)
    return "\n".join(each.stdout for each in said)


def count(topic: Topic) -> int:
    return sum(len(records) for records in topic.values())


def arrived(lab: Lab, topic: str) -> int:
    return count(lab.read("lake-kafka-1", topic))


def all_flows_carry(lab: Lab) -> bool:
    read = lab.read("lake-kafka-1", "flights")
    origins = {record.header("origin") for records in read.values() for record in records}
    return origins == {b"EWR", b"JFK"} and all(arrived(lab, topic) > 0 for topic in ("bookings", "crews"))


def pause(chance: random.Random) -> None:
    time.sleep(chance.uniform(3, 8))


def kill_mirror(lab: Lab, chance: random.Random, seed: int) -> None:
    host, flow = chance.choice(MIRRORS), chance.choice(FLOWS)
    print(f"seed {seed}: kill -9 of mirror_maker@{flow} on {host}")
    lab.kill(host, f"mirror_maker@{flow}")
    lab.kill(host, f"mirror_maker@{BATCHES_FLOW}")
    pause(chance)


def kill_lake_broker(lab: Lab, chance: random.Random, seed: int) -> None:
    print(f"seed {seed}: kill -9 of the lake's broker")
    lab.kill("lake-kafka-1", "kafka")
    pause(chance)


def grow_topics(lab: Lab, chance: random.Random, seed: int) -> str:
    """A new topic that the flow's pattern covers, and more partitions of one that it carries."""
    admin = lab.admin("pro1-kafka-1")
    topic, partitions = f"bookings-{seed}", chance.randint(1, 4)
    print(f"seed {seed}: new topic {topic} with {partitions} partitions; bookings gets one partition more")
    for made in admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})]).values():
        made.result()
    now = len(admin.list_topics("bookings", timeout=60).topics["bookings"].partitions)
    for grown in admin.create_partitions([NewPartitions("bookings", now + 1)]).values():
        grown.result()
    return topic


def lose_mirror_host(lab: Lab) -> None:
    host = MIRRORS[1]
    print(f"{host} is lost for good")
    lab.lose(host)


def commit_half(lab: Lab) -> None:
    """A group that has read some of the bookings at the source, and left."""
    consumer = Consumer(
        {
            **lab.client("pro1-kafka-1", "bookings"),
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["bookings"])
    read = 0
    deadline = time.monotonic() + 600
    while read < 500 and time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=1):
            assert message.error() is None, message.error()
            consumer.commit(message=message, asynchronous=False)
            read += 1
    consumer.close()
    assert read >= 500, f"the group read only {read} bookings"


def commit(lab: Lab, host: str, offsets: dict[int, int]) -> None:
    """Set the group's next offsets, by partition."""
    places = [TopicPartition("bookings", partition, offset) for partition, offset in offsets.items()]
    lab.commit({**lab.client(host, "bookings"), "group.id": GROUP}, places)


def ends(lab: Lab, host: str) -> dict[int, int]:
    """The end offsets of the bookings, by partition."""
    consumer = Consumer({**lab.client(host, "bookings"), "group.id": GROUP})
    try:
        partitions = consumer.list_topics("bookings", timeout=60).topics["bookings"].partitions
        return {each: watermarks(consumer, TopicPartition("bookings", each))[1] for each in partitions}
    finally:
        consumer.close()


def committed(lab: Lab, host: str) -> dict[int, int]:
    """The next offset of the group by partition, where it has one."""
    consumer = Consumer({**lab.client(host, "bookings"), "group.id": GROUP})
    try:
        partitions = consumer.list_topics("bookings", timeout=60).topics["bookings"].partitions
        found = consumer.committed(
            [TopicPartition("bookings", partition) for partition in partitions], timeout=60
        )
    finally:
        consumer.close()
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}
