"""An upgrade and the way back, while producers write and both flows copy to the lake."""

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from subprocess import CompletedProcess

from backed_up import BackedUpSite
from confluent_kafka import Message
from confluent_kafka.admin import ConfigResource, ResourceType
from control_node import changes
from lab import Lab, Record, wait_until
from releases import Release

SOURCE, LAKE, SECOND = "pro1-1", "lake-1", "lake-2"
BROKERS = (SOURCE, LAKE)
MIRRORED, COPIED = "flights", "crews"  # by MirrorMaker 2, and by the engine `batches`
BATCHES_FLOW = "pro1-crews"
PARTITIONS = 3
STORE, RESTORED = "s3://backup/pro1", "restored-flights"
PAUSE_SECONDS = 0.02  # between two records of a topic
MORE = 30  # records of each partition that must arrive after a step
READY_SECONDS = 120  # in which the older release waits for flows that it cannot run

Topic = dict[int, list[Record]]


class Producer(threading.Thread):
    """Writes numbered records until it is stopped, and keeps each one that the broker acknowledged."""

    def __init__(self, lab: Lab, topic: str) -> None:
        super().__init__(name=topic, daemon=True)
        self.topic = topic
        self.failures: list[str] = []
        self._acknowledged: dict[int, dict[int, Record]] = defaultdict(dict)  # by partition and offset
        self._producer = lab.producer(SOURCE, "admin")
        self._stopping = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            if self._stopping.wait(PAUSE_SECONDS):
                break
            record = numbered(number)
            self._producer.produce(
                self.topic,
                record.value,
                record.key,
                number % PARTITIONS,
                timestamp=record.timestamp,
                headers=list(record.headers),
                on_delivery=partial(self._delivered, record),
            )
            self._producer.poll(0)
        if left := self._producer.flush(300):
            self.failures.append(f"{left} records were not acknowledged")

    def _delivered(self, record: Record, error: object, message: Message) -> None:
        if error:
            self.failures.append(str(error))
        else:
            self._acknowledged[message.partition()][message.offset()] = record

    def counts(self) -> dict[int, int]:
        """Return how many records of each partition are acknowledged."""
        return {partition: len(self._acknowledged[partition]) for partition in range(PARTITIONS)}

    def finish(self) -> Topic:
        """Stop; return all acknowledged records, by partition, in the order of their offsets."""
        self._stopping.set()
        self.join(600)
        assert not self.is_alive(), f"the producer of {self.topic} does not end"
        assert not self.failures, self.failures[:3]
        return {
            partition: [records[offset] for offset in sorted(records)]
            for partition, records in sorted(self._acknowledged.items())
        }


def numbered(number: int) -> Record:
    """Return a record; some have no key, no value, an empty value, or headers twice and without a value."""
    return Record(
        key=f"crew-{number % 500}".encode() if number % 7 else None,
        value=f"record {number}".encode() if number % 11 else (b"" if number % 2 else None),
        headers=(("leg", b"1"), ("leg", b"2"), ("meal", None), ("note", b"")) if number % 5 == 0 else (),
        timestamp=1_700_000_000_000 + number,
    )


class Site(BackedUpSite):
    site, store = SOURCE, SECOND


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What hosts and stored records show of the release that deployed or wrote them."""

    memory_limited: dict[str, bool]  # kafka.service, by broker
    send_buffer: dict[str, str]  # the broker's setting, by broker
    has_source_end: bool  # in each stored position of the flow of the engine `batches`
    is_shared: bool  # whether the second host runs that flow, too


@dataclass
class Outcome:
    deployed: dict[str, Deployed] = field(default_factory=dict)  # by step
    arrived: dict[str, dict[str, int]] = field(default_factory=dict)  # records by step and topic
    second_run: dict[str, int] = field(default_factory=dict)  # changes by host
    verify_code: int = -1
    restore_code: int = -1
    backed_up: dict[int, int] = field(default_factory=dict)  # acknowledged before the backup, by partition
    restored: Topic = field(default_factory=dict)
    back: "CompletedProcess[str] | None" = None
    acknowledged: dict[str, Topic] = field(default_factory=dict)
    source: dict[str, Topic] = field(default_factory=dict)
    lake: dict[str, Topic] = field(default_factory=dict)


def upgrade_and_go_back(lab: Lab, older: Release, newer: Release) -> Outcome:
    outcome, site = Outcome(), Site(lab)
    producers = {topic: Producer(lab, topic) for topic in (MIRRORED, COPIED)}
    for producer in producers.values():
        producer.start()

    def note(step: str, *topics: str) -> None:
        print(f"{step}: waiting for records of {' and '.join(topics)} in the lake")
        outcome.arrived[step] = {topic: await_more(lab, producers[topic]) for topic in topics}
        outcome.deployed[step] = deployed(lab)

    note("older", MIRRORED, COPIED)
    outcome.backed_up = producers[MIRRORED].counts()
    play(lab, older, "backup")

    play(lab, newer, "check")
    play(lab, newer, "site", "--limit", LAKE)
    note("both", MIRRORED, COPIED)
    play(lab, newer, "site")
    note("newer", MIRRORED, COPIED)
    outcome.second_run = changes(play(lab, newer, "site").stdout)

    outcome.verify_code, output = site.aqueduct("verify", "--store", STORE)
    print(output)
    outcome.restore_code, output = site.aqueduct(
        *("restore", "--store", STORE, "--snapshot", "1", "--topics", f"{MIRRORED}:{RESTORED}", "--no-groups")
    )
    print(output)
    if outcome.restore_code == 0:
        outcome.restored = lab.read(SOURCE, RESTORED)

    variables = json.dumps({"mirror_maker_ready_seconds": READY_SECONDS})
    print("back: site.yml of the older release")
    outcome.back = older.play("site", lab.inventory, "--extra-vars", variables)
    note("back", MIRRORED)
    play(lab, newer, "site")
    note("again", MIRRORED, COPIED)

    for topic, producer in producers.items():
        outcome.acknowledged[topic] = producer.finish()
        outcome.source[topic] = lab.read(SOURCE, topic)
        numbers = {partition: len(records) for partition, records in outcome.acknowledged[topic].items()}
        await_records(lab, topic, numbers)
        outcome.lake[topic] = lab.read(LAKE, topic)
    return outcome


def play(lab: Lab, release: Release, playbook: str, *options: str) -> CompletedProcess[str]:
    """Run a playbook of a release, which must succeed."""
    print(f"{release.folder.name} release: {playbook} {' '.join(options)}")
    run = release.play(playbook, lab.inventory, *options)
    assert run.returncode == 0, run.stdout
    return run


def count(topic: Mapping[int, list[Record]]) -> int:
    return sum(map(len, topic.values()))


def await_more(lab: Lab, producer: Producer) -> int:
    """Wait until records arrive in each partition that are acknowledged only from now on; return how many."""
    before = producer.counts()
    await_records(lab, producer.topic, {partition: number + MORE for partition, number in before.items()})
    return count(lab.read(LAKE, producer.topic)) - sum(before.values())


def await_records(lab: Lab, topic: str, numbers: Mapping[int, int]) -> None:
    """Wait until each partition has so many records in the lake."""

    def have_arrived() -> bool:
        records = lab.read(LAKE, topic)
        return all(len(records[partition]) >= number for partition, number in numbers.items())

    try:
        wait_until(f"{dict(numbers)} records of {topic} in the lake", have_arrived)
    except AssertionError as error:
        journals = (lab.journal(host, "--unit=mirror_maker@*", "--lines=60") for host in (LAKE, SECOND))
        raise AssertionError("\n".join([str(error), *journals])) from error


def deployed(lab: Lab) -> Deployed:
    active = lab.run(SECOND, "systemctl", "is-active", f"mirror_maker@{BATCHES_FLOW}", check=False)
    return Deployed(
        memory_limited={host: memory_limit(lab, host) != "infinity" for host in BROKERS},
        send_buffer={host: setting(lab, host, "socket.send.buffer.bytes") for host in BROKERS},
        has_source_end=all("source_end" in position for position in positions(lab)),
        is_shared=active.stdout.strip() == "active",
    )


def memory_limit(lab: Lab, host: str) -> str:
    return lab.run(host, "systemctl", "show", "kafka", "--property=MemoryMax", "--value").stdout.strip()


def setting(lab: Lab, host: str, name: str) -> str:
    """Return a setting of a broker as the broker itself has it."""
    admin = lab.admin(host)
    [answer] = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return str(answer.result()[name].value)


def positions(lab: Lab) -> list[dict[str, object]]:
    """Return the last stored position of each partition of the flow of the engine `batches`."""
    topic = lab.read(LAKE, f"aqueduct-mirror-positions.{BATCHES_FLOW}.internal")
    last = {record.key: record.value for records in topic.values() for record in records}
    stored = [json.loads(value) for key, value in last.items() if value and (key or b"").startswith(b"[")]
    assert len(stored) == PARTITIONS, f"{len(stored)} positions of {PARTITIONS} partitions"
    return stored
