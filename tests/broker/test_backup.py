"""`aqueduct backup` of a real cluster into a directory, read again by Kafka's tools and by aiokafka."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import zstandard
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kit import clients, without_spark
from kit.clients import create
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.common import timestamps
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.client import Client
from aqueduct.snapshots.backup import commit, reading
from aqueduct.store import names
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import InstanceState
from aqueduct.store.snapshots import Snapshot
from servers.broker import Broker, running
from servers.process import java

Record = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@dataclass(frozen=True)
class Site:
    """A broker and a store to back it up to."""

    broker: Broker
    directory: Path

    @property
    def servers(self) -> str:
        return self.broker.plaintext

    @property
    def url(self) -> str:
        return f"file://{self.directory}"

    @cached_property
    def admin(self) -> AdminClient:
        return clients.admin(self.broker)

    def command(self, *arguments: str) -> list[str]:
        return ["backup", "--bootstrap-server", self.servers, "--store", self.url, *arguments]

    def back_up(self, *arguments: str) -> int:
        return main(self.command(*arguments))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "aqueduct.cli", *self.command(*arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def snapshot(self, number: int | None = None) -> Snapshot:
        return Catalog.open(open_store(self.url)).snapshot(number)

    def stored(self, topic: str, partition: int = 0, instance: int = 1) -> list[Record]:
        """Read a partition's records from the objects, by a decoder that isn't ours."""
        found = []
        for segment in self.snapshot().segments.get((topic, instance, partition), ()):  # type: ignore[call-overload]
            if segment.records:
                data = (self.directory / segment.path).read_bytes()
                unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(data)
                found += decoded(unpacked if segment.compressed else data)
        return found


@pytest.fixture
def site(brokers: list[Broker], tmp_path: Path) -> Site:
    return Site(brokers[0], tmp_path / "store")


@pytest.fixture
def make_topic(site: Site) -> Callable[..., str]:
    return lambda partitions=1, **config: create(site.broker, clients.unique("backup"), partitions, **config)


def decoded(data: bytes) -> list[Record]:
    return [
        (each.offset, each.timestamp, each.key, each.value, list(each.headers))
        for each in clients.decoded(data)
    ]


def produce(site: Site, topic: str, values: Iterable[bytes], partition: int = 0, **settings: str) -> None:
    keyed = ({"value": value, "key": value} for value in values)  # compaction demands a key
    clients.produce(site.broker, topic, keyed, partition, **settings)


def values(records: Iterable[Record]) -> list[bytes | None]:
    return [value for _, _, _, value, _ in records]


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % each for each in range(start, stop)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_stored_as_they_are(site: Site, make_topic: Callable[..., str], codec: str) -> None:
    topic = make_topic()
    kinds: list[Record] = [
        (0, 5_000, b"key", b"value", [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")]),
        (1, 1_000, None, b"", []),
        (2, 9_000, b"", None, []),
        (3, 9_000, None, None, [("", b"x")]),
    ]
    fields = ("timestamp", "key", "value", "headers")
    written = [dict(zip(fields, each[1:], strict=True)) for each in kinds]
    clients.produce(site.broker, topic, written, **{"compression.type": codec})
    assert site.back_up("--topics", topic) == 0
    assert site.stored(topic) == kinds
    (segment,) = site.snapshot().segments[topic, 1, 0]  # type: ignore[index]
    assert (segment.start, segment.stop, segment.records, segment.max_time) == (0, 4, 4, 9_000)


# Everything is more than one process does sooner: 1.2 GB on a host with 64 cores, and on two no size at all.
ALWAYS_SPARK = """
import os
os.cpu_count = lambda: 64
from aqueduct.cli import main
from aqueduct.work import crossover, workers
crossover.START_SECONDS = 0
asked, find_spec = [], workers.find_spec
workers.find_spec = lambda name: asked.append(name) or find_spec(name)
code = main(sys.argv[1:])
assert asked == ["pyspark"] * len(asked) != [], "Spark was not considered"
sys.exit(code)
"""


def test_large_backup_needs_no_pyspark(site: Site, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3)
    for partition in range(3):
        produce(site, topic, numbers(0, 100), partition)
    done = without_spark.run(ALWAYS_SPARK, *site.command("--topics", topic))
    assert done.returncode == 0, done.stderr
    assert [values(site.stored(topic, partition)) for partition in range(3)] == [numbers(0, 100)] * 3
    wanted = without_spark.run(without_spark.MAIN, *site.command("--topics", topic, "--master", "local[2]"))
    assert (wanted.returncode, printed(wanted.stderr)) == (2, ["python-package-missing"])
    assert Catalog.open(open_store(site.url)).numbers() == [1]


def test_a_segment_unpacked_is_one_of_kafka_s(
    site: Site, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    produce(site, topic, numbers(0, 1_000))
    assert site.back_up("--topics", topic) == 0
    (segment,) = site.snapshot().segments[topic, 1, 0]  # type: ignore[index]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(
        zstandard.ZstdDecompressor()
        .stream_reader((site.directory / segment.path).read_bytes(), read_across_frames=True)
        .read()
    )
    tool = java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", log)
    dumped = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    assert dumped.count("| offset: ") == 1_000
    assert "isvalid: false" not in dumped


def test_only_what_was_committed_and_never_waiting(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic()
    clients.transaction(site.broker, topic, ["commit"], "commit")
    clients.transaction(site.broker, topic, ["abort"], "abort")
    opened = clients.transaction(site.broker, topic, ["open"], "leave")
    produce(site, topic, [b"behind the open one"])
    assert site.back_up("--topics", topic) == 0
    assert values(site.stored(topic)) == [b"commit"]
    assert "an open transaction ends the backup at offset 4; the log ends at 6" in capsys.readouterr().out
    opened.commit_transaction()
    assert clients.settle(site.broker, topic) == [7]
    assert site.back_up("--topics", topic) == 0
    assert values(site.stored(topic)) == [b"commit", b"open", b"behind the open one"]


def test_next_backup_adds_new_records_and_reports_gap(
    site: Site, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2)
    produce(site, topic, numbers(0, 10))
    assert site.back_up("--topics", topic) == 0
    clients.grow(site.broker, topic, 3)
    produce(site, topic, numbers(10, 20))
    produce(site, topic, [b"new"], partition=2)
    (deleted,) = site.admin.delete_records([TopicPartition(topic, 0, 15)]).values()
    deleted.result()
    report = tmp_path / "report.json"
    assert site.back_up("--topics", topic, "--report", str(report)) == 3
    assert json.loads(report.read_text())["gaps"] == [{"topic": topic, "partition": 0, "from": 10, "to": 15}]
    assert values(site.stored(topic)) == numbers(0, 10) + numbers(15, 20)
    assert (site.stored(topic, 1), values(site.stored(topic, 2))) == ([], [b"new"])
    assert site.snapshot(1).manifest.positions == {(topic, 1): (10, 0)}
    assert site.back_up("--topics", topic) == 0  # a gap is told once


def test_idle_backup_requests_are_independent_of_topic_count(
    site: Site, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without new records fetches nothing and sends as many requests for 8 topics as for one."""
    topics = [make_topic(4) for _ in range(8)]
    for topic in topics:
        produce(site, topic, numbers(0, 3))
    group = f"{topics[0]}-readers"  # others' share groups, say, would be asked for what they have
    consumer = clients.consumer(site.broker, group)
    clients.commit(consumer, TopicPartition(topics[0], 0, 1))
    consumer.close()

    def back_up(*some: str) -> int:
        return site.back_up("--topics", ",".join(some), "--groups-pattern", group)

    for some in (topics[:1], topics):
        assert back_up(*some) == 0
    asked = list[str]()
    submit = Client.submit

    def watched(self: Client, request: Any, node_id: int | None = None) -> Any:
        asked.append(type(request).__name__)
        return submit(self, request, node_id)

    monkeypatch.setattr(Client, "submit", watched)
    found = []
    for some in (topics[:1], topics):
        asked.clear()
        assert back_up(*some) == 0
        found.append(Counter(asked))
    assert found[0] == found[1]
    assert not any("Fetch" in name and name != "OffsetFetchRequest" for name in found[0])
    assert found[0]["ListOffsetsRequest"] == 3  # starts, ends, and last stable offsets
    objects = [each.path for each in open_store(site.url).list(names.TOPICS)]
    assert len(objects) == 2 * len(topics)  # those of the first runs
    produce(site, topics[0], [b"new"])
    asked.clear()
    assert back_up(topics[0]) == 0
    assert "FetchRequest" in asked


def test_a_topic_that_was_made_again_is_another(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic()
    produce(site, topic, [b"old"])
    assert site.back_up("--topics", topic) == 0
    clients.recreate(site.broker, topic)
    produce(site, topic, [b"new"])
    assert site.back_up("--topics", topic) == 0
    assert (values(site.stored(topic, instance=1)), values(site.stored(topic, instance=2))) == (
        [b"old"],
        [b"new"],
    )
    assert main(["snapshots", "--store", site.url]) == 0
    told = capsys.readouterr().out.splitlines()[-2:]
    assert told == [f"{topic} g1: ACTIVATE 1, PASSIVATE 2", f"{topic} g2: ACTIVATE 2"]


def test_record_of_any_time_is_kept_and_listed(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Java's largest time, for example, with which a producer means that a record never expires."""
    latest = 2**63 - 1
    topic = make_topic(message_timestamp_after_max_ms=str(latest))
    clients.produce(site.broker, topic, [{"value": b"1", "timestamp": latest}])
    assert site.back_up("--topics", topic) == 0
    assert [time for _, time, *_ in site.stored(topic)] == [latest]
    capsys.readouterr()
    assert main(["snapshots", "--store", site.url]) == 0
    assert main(["verify", "--store", site.url]) == 0
    capsys.readouterr()
    assert main(["snapshots", "--store", site.url, "--json"]) == 0
    assert [each["newest_record"] for each in json.loads(capsys.readouterr().out)] == [str(latest)]


def test_generations_of_a_compacted_topic(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic(cleanup_policy="compact")
    produce(site, topic, [b"1"])
    assert site.back_up("--topics", topic) == 0
    produce(site, topic, [b"2"])
    assert site.back_up("--topics", topic) == 0
    assert values(site.stored(topic)) == [b"1", b"2"]
    for due in (2, 3):
        assert site.back_up("--topics", topic, "--compacted-generation-hours", "0.000001") == 0
        # Nothing is written meanwhile.
        assert site.back_up("--topics", topic, "--compacted-generation-hours", "0.000001") == 0
        said = capsys.readouterr().out
        assert "without a new generation" in said
        assert f": {topic}." in said
        instances = site.snapshot().topics[topic].instances
        assert [(each.number, each.state) for each in instances] == [
            (due - 1, InstanceState.PASSIVATE),
            (due, InstanceState.ACTIVATE),
        ]
        assert values(site.stored(topic, instance=due)) == [b"1", b"2", b"3"][:due]
        assert (site.directory / "topics" / topic / f"g{due}").is_dir()
        produce(site, topic, [b"3"])


def test_backup_stores_groups_and_settings_and_commits_position(
    site: Site, make_topic: Callable[..., str]
) -> None:
    """The position is the offset of a consumer group, which Kafka's tools show."""
    topic = make_topic(retention_ms="123456789")
    produce(site, topic, numbers(0, 10))
    group = f"{topic}-readers"
    consumer = clients.consumer(site.broker, group)
    clients.commit(consumer, TopicPartition(topic, 0, 7, metadata="here"))
    consumer.close()
    assert site.back_up("--topics", topic, "--groups-pattern", f"{topic}.*") == 0
    snapshot = site.snapshot()
    assert snapshot.topics[topic].settings == {"retention.ms": "123456789"}
    (saved,) = snapshot.manifest.groups
    assert (saved.group, [tuple(each) for each in saved.offsets]) == (
        group,
        [(topic, 0, 7, "here\0")],  # librdkafka sends the zero that ends a string in C
    )
    store = Catalog.open(open_store(site.url)).id
    position = f"aqueduct-backup-{store}"
    assert clients.committed(site.broker, position) == {(topic, 0): 10}


def test_backup_commits_changed_positions_and_daily_all_positions(
    site: Site, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run commits positions that changed or expired, and once a day all of them."""
    topic = make_topic(3)
    produce(site, topic, numbers(0, 10))
    clock = [20_000 * commit.DAY]
    monkeypatch.setattr(timestamps, "now", lambda: clock[0])
    told = list[dict[TopicPartition, int]]()
    committed = groups.commit

    def watched(client: Client, group: str, offsets: groups.CommittedOffsets) -> None:
        told.append({each: offset for each, (offset, _) in offsets.items()})
        committed(client, group, offsets)

    monkeypatch.setattr(groups, "commit", watched)
    all_of_them = {(topic, 0): 10, (topic, 1): 0, (topic, 2): 0}
    assert site.back_up("--topics", topic) == 0
    assert site.back_up("--topics", topic) == 0
    produce(site, topic, numbers(10, 12), 1)
    assert site.back_up("--topics", topic) == 0
    position = f"aqueduct-backup-{Catalog.open(open_store(site.url)).id}"
    site.admin.delete_consumer_groups([position])[position].result()  # as when they expire
    assert site.back_up("--topics", topic) == 0
    all_now = {**all_of_them, (topic, 1): 2}
    assert clients.committed(site.broker, position) == all_now
    clock[0] += commit.DAY
    assert site.back_up("--topics", topic) == 0
    assert told == [all_of_them, {}, {(topic, 1): 2}, all_now, all_now]


@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 3))])
def test_killed_backup_commits_nothing_and_next_is_complete(
    site: Site, make_topic: Callable[..., str], seed: int
) -> None:
    topic = make_topic(6)
    expected = {number: numbers(0, 3_000) for number in range(6)}
    for number, batch in expected.items():
        produce(site, topic, batch, number)
    pause = random.Random(seed).uniform(1.0, 3.0)  # noqa: S311
    print(f"seed {seed}: kill -9 after {pause:.2f} s")
    killed = site.start("--topics", topic, "--rate-limit-bytes", "40000")
    time.sleep(pause)
    assert killed.poll() is None, killed.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not list(site.directory.glob("snapshots/*"))
    assert site.back_up("--topics", topic) == 0
    assert {number: values(site.stored(topic, number)) for number in range(6)} == expected


def test_of_two_runs_at_once_one_wins(site: Site, make_topic: Callable[..., str]) -> None:
    topic = make_topic(6)
    for number in range(6):
        produce(site, topic, numbers(0, 3_000), number)
    slow = site.start("--topics", topic, "--rate-limit-bytes", "80000")
    clients.wait_for("its first object", lambda: list(site.directory.glob(f"topics/{topic}/*/*")))
    slow.send_signal(signal.SIGSTOP)
    try:
        assert site.back_up("--topics", topic) == 0
    finally:
        slow.send_signal(signal.SIGCONT)
    _, said = slow.communicate(timeout=400)
    assert (slow.returncode, "[snapshot-number-taken]" in said) == (1, True), said
    assert sum(len(site.stored(topic, number)) for number in range(6)) == 18_000
    assert site.back_up("--topics", topic) == 0


def test_store_refuses_recreated_cluster_without_other_cluster_option(
    site: Site, brokers: list[Broker], make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its empty topics would be the newest snapshot, and what is to be restored the one before."""
    topic = make_topic()
    produce(site, topic, numbers(0, 10))
    assert site.back_up("--topics", topic) == 0
    other = Site(brokers[1], site.directory)
    create(other.broker, topic)
    assert other.back_up("--topics", topic) == 2
    assert "restore it first" in capsys.readouterr().err
    assert site.snapshot().manifest.number == 1
    assert other.back_up("--topics", topic, "--other-cluster") == 0
    assert other.back_up("--topics", topic) == 0
    assert values(site.stored(topic)) == numbers(0, 10)


def test_backup_on_lost_base_requires_past_damage_option(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """That run continues after the newest undamaged snapshot, or reads everything."""
    topic = make_topic()
    expected: list[bytes] = []

    def run(*arguments: str) -> int:
        expected.append(b"%d" % len(expected))
        produce(site, topic, expected[-1:])
        return site.back_up("--topics", topic, *arguments)

    def until_one_builds_on_a_later_base() -> int:
        while True:
            assert run() == 0
            newest = site.snapshot().manifest
            if newest.chain.base > 1 and not newest.full:
                return newest.chain.base

    for whole in (True, False):
        base = until_one_builds_on_a_later_base()
        for lost in [base] if whole else range(1, base + 1):
            (site.directory / names.snapshot(lost)).unlink(missing_ok=True)
        then = (
            f"continues after snapshot {base - 1}, the newest undamaged one" if whole else "reads all records"
        )
        there = list(site.directory.rglob("snapshots/*"))
        assert run() == 1
        said = capsys.readouterr().err
        assert f"builds on snapshot {base}, which is lost. Nothing was committed." in said
        assert f"back up once with --past-damage, which {then}." in said
        assert list(site.directory.rglob("snapshots/*")) == there
        assert run("--past-damage") == 0
        assert values(site.stored(topic)) == expected


def test_backup_never_replaces_lost_store_id(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic()
    assert site.back_up("--topics", topic) == 0
    (site.directory / "store.json").unlink()
    assert site.back_up("--topics", topic) == 1
    assert_printed(capsys.readouterr().err, "store-identity-damaged", "store.json", "snapshot 1")
    assert not (site.directory / "store.json").exists()


def test_unknown_group_in_exclude_groups_is_reported(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.back_up("--topics", make_topic(), "--exclude-groups", "nope") == 0
    assert "[group-unknown] --exclude-groups: the cluster has no group nope" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "id_", "name"),
    [
        (["--topics", "nope"], "topic-unknown", "nope"),
        (["--topics", "__transaction_state"], "topic-reserved", "__transaction_state"),
        (["--topics-pattern", "nope.*"], "pattern-matches-nothing", "nope.*"),
        (["--topics-pattern", "("], "pattern-invalid", "--topics-pattern ("),
        (["--topics-pattern", ".*", "--groups-pattern", "nope"], "pattern-matches-nothing", "nope"),
    ],
)
def test_selection_of_nothing_gets_an_identifier(
    site: Site, capsys: pytest.CaptureFixture[str], arguments: list[str], id_: str, name: str
) -> None:
    clients.create(site.broker, clients.unique("some"))
    assert site.back_up(*arguments) == 2
    (error,) = (line for line in capsys.readouterr().err.splitlines() if f"[{id_}] " in line)
    assert name in error
    assert not list(site.directory.glob("snapshots/*"))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--topics", "a", "--topics-pattern", "a"], 2, "not allowed with argument"),
        (["--topics", "a", "--segment-bytes", "0"], 2, "'0' is not a whole number from 1 "),
    ],
)
def test_bad_input_gets_a_sentence(
    site: Site, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
) -> None:
    clients.create(site.broker, clients.unique("some"))
    assert site.back_up(*arguments) == code
    assert sentence in capsys.readouterr().err
    assert not list(site.directory.glob("snapshots/*"))


def test_backup_fails_with_message_for_unusable_store(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.directory.write_text("a file")
    assert site.back_up("--topics-pattern", ".*") == 1
    assert f"in the store {site.url}: " in capsys.readouterr().err


def test_a_store_of_a_newer_version_is_refused(
    site: Site, make_topic: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    site.directory.mkdir()
    (site.directory / "store.json").write_text('{"format":2,"id":"x"}')
    assert site.back_up("--topics", make_topic()) == 2
    assert_printed(capsys.readouterr().err, "store-format-unsupported", "format 2")


def test_backup_skips_remaining_partitions_when_cluster_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not wait for each partition anew."""
    read = reading._read
    reads: list[Any] = []

    def last(*asked: Any) -> Any:
        reads.append(asked)
        found = read(*asked)
        monkeypatch.setattr(raw, "STALL_SECONDS", 1)
        monkeypatch.setattr(raw, "CONNECT_SECONDS", 1)
        broker.process.kill()
        return found

    (tmp_path / "kafka").mkdir()
    with running(tmp_path / "kafka") as broker:
        topic = clients.numbered(broker, "gone", 20, 3)
        monkeypatch.setattr(reading, "_read", last)
        argv = ["backup", "--bootstrap-server", broker.plaintext, "--store", (tmp_path / "store").as_uri()]
        assert main([*argv, "--topics", topic]) == 3
    assert len(reads) < 5
    said = capsys.readouterr().out
    assert len(re.findall(rf"Skipped: (?:\[[a-z-]+\] )?{topic}-", said)) == 19
