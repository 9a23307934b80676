"""Topics cross from one real cluster to another, as an independent client sees both ends."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka_broker import Broker, free_ports
from relay import Faults, Relay

from aqueduct.cli import main
from aqueduct.errors import ExitCode

SECONDS = 60
Record = tuple[bytes | None, bytes | None, Any, tuple[int, int]]  # key, value, headers, time with its type


@pytest.fixture
def source(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def target(brokers: list[Broker]) -> Broker:
    return brokers[1]


@pytest.fixture
def topic(source: Broker, target: Broker) -> str:
    name = f"link.{uuid4().hex[:8]}_x-y"
    for broker in (source, target):
        create(broker, name, 2)
    return name


@pytest.fixture
def raw(target: Broker) -> str:
    return create(target, f"raw.{uuid4().hex[:8]}", 2)


@pytest.fixture
def gaps(target: Broker) -> str:
    return create(target, f"gaps.{uuid4().hex[:8]}", 2, {"cleanup.policy": "compact"})


@pytest.fixture
def relay() -> Iterator[Relay]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    relay = Relay(port)
    relay.target = port  # type: ignore[attr-defined]
    yield relay
    relay.stop()


class Ends:
    """Both ends of a link, as processes of their own."""

    def __init__(
        self, folder: Path, source: Broker, target: Broker, topic: str, raw: str, relay: Relay
    ) -> None:
        self.folder = folder
        for kind, name in (("receiver", "down"), ("sender", "up")):
            assert main(["diode", "keygen", "--kind", kind, "--out", str(folder), "--name", name]) == 0
        [self.metrics_port] = free_ports(1)
        self.state = folder / "state"
        self.state.mkdir()
        self.sending = {
            "bootstrapServers": source.plaintext,
            "targetIP": "127.0.0.1",
            "targetPort": str(relay.port),
            "mtu": "1500",
            "publicKeyFile": str(folder / "down.pub"),
            "signingKeyFile": str(folder / "up.key"),
            "link": "7",
            # Not the default: a group remembers when its last session began, which may be ahead of the clock.
            "groupID": f"up-{topic}",
        }
        self.upstream_options = self.sending | {"topic": topic, "linger": "5"}
        self.downstream_options = {
            "bootstrapServers": target.plaintext,
            "targetIP": "127.0.0.1",
            "targetPort": str(relay.target),  # type: ignore[attr-defined]
            "rawTopic": raw,
            "privateKeyFiles": str(folder / "down.key"),
            "senderPublicKeyFile": str(folder / "up.pub"),
            "stateDir": str(self.state),
            "link": "7",
            "metricsPort": str(self.metrics_port),
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def upstream(self, **more: str) -> subprocess.Popen[bytes]:
        return self._start("upstream", self.upstream_options | more)

    def following(self, **more: str) -> subprocess.Popen[bytes]:
        """Start an upstream that has announced its keys, and sends from now on whatever is new."""
        process = self.upstream(**more)
        wait_for(lambda: "following" in self.said("upstream") or bool(process.poll()), "following")
        return process

    def downstream(self, **more: str) -> subprocess.Popen[bytes]:
        """Start the receiving end; return when it listens."""
        log = self.folder / "downstream.log"
        before = log.read_text().count("listening") if log.exists() else 0
        process = self._start("downstream", self.downstream_options | more)
        wait_for(lambda: log.read_text().count("listening") > before or bool(process.poll()), "listening")
        return process

    def _start(self, verb: str, options: dict[str, str]) -> subprocess.Popen[bytes]:
        file = self.folder / f"{verb}-{uuid4().hex[:4]}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items() if value))
        log = (self.folder / f"{verb}.log").open("a")
        process = subprocess.Popen(
            [sys.executable, "-m", "aqueduct.cli", "diode", verb, "--config", str(file)], stderr=log
        )
        self._running.append(process)
        return process

    def said(self, verb: str) -> str:
        return (self.folder / f"{verb}.log").read_text()

    def counted(self, name: str) -> int:
        """Return a counter of the running receiving end, see aqueduct.link.wire.counters."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            content = answer.read().decode()
        found = re.search(rf"^aqueduct_diode_downstream_{name}_total (\S+)$", content, re.MULTILINE)
        assert found, content
        return int(float(found[1]))

    def kept(self) -> int:
        """Return when what must not be taken twice was last written, in nanoseconds; 0: never."""
        file = self.state / "link-7.json"
        return file.stat().st_mtime_ns if file.exists() else 0

    def check(self) -> None:
        for process in self._running:
            assert process.poll() is None, self.said("upstream") + self.said("downstream")

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        self._running.remove(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, self.said("upstream") + self.said("downstream")

    def kill_one(self, process: subprocess.Popen[bytes]) -> None:
        self._running.remove(process)
        process.kill()
        process.wait()

    def kill(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def ends(
    tmp_path: Path, source: Broker, target: Broker, topic: str, raw: str, relay: Relay
) -> Iterator[Ends]:
    ends = Ends(tmp_path, source, target, topic, raw, relay)
    yield ends
    ends.kill()


@pytest.fixture
def dedup(target: Broker, topic: str, raw: str, gaps: str) -> Callable[..., None]:
    def run(grace: str = "0s", code: ExitCode = ExitCode.DONE, raw_topics: str = raw) -> None:
        argv = ["dedup", "--bootstrap-servers", target.plaintext, "--raw-topics", raw_topics]
        argv += ["--gap-topic", gaps, "--topics", topic, "--gap-grace", grace, "--until-caught-up"]
        assert main(argv) == code

    return run


def create(broker: Broker, name: str, partitions: int, config: dict[str, str] | None = None) -> str:
    admin = AdminClient({"bootstrap.servers": broker.plaintext})
    admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result()
    return name


def write(broker: Broker, topic: str, count: int, seed: int = 0, **settings: Any) -> None:
    """Write records of many shapes, into both partitions."""
    chance = random.Random(seed)  # noqa: S311
    producer = Producer({"bootstrap.servers": broker.plaintext, "linger.ms": 20, **settings})
    for number in range(count):
        key = chance.choice([None, b"", b"k%d" % number])
        value = chance.choice([None, b"", b"%d " % number + chance.randbytes(chance.randrange(400))])
        headers = chance.choice([[], [("h", b"1"), ("h", None), ("", b"")]])
        producer.produce(
            topic, value, key, partition=number % 2, headers=headers, timestamp=1_700_000_000_000 - number
        )
        if number % 500 == 0:
            producer.flush()
    producer.flush()


def consumed(broker: Broker, topic: str, partition: int) -> list[Record]:
    """Read all of a partition, read-committed; what was just committed may take a moment to be seen."""
    settings = {"bootstrap.servers": broker.plaintext, "group.id": uuid4().hex, "enable.auto.commit": False}
    place = TopicPartition(topic, partition, 0)
    asking = Consumer({**settings, "isolation.level": "read_uncommitted"})
    start, end = asking.get_watermark_offsets(place, timeout=SECONDS)
    asking.close()
    consumer = Consumer(settings)
    consumer.assign([place])
    found: list[Record] = []
    while start < end and consumer.position([place])[0].offset < end:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.append((message.key(), message.value(), message.headers(), message.timestamp()))
    consumer.close()
    return found


def assert_equal(source: Broker, target: Broker, topic: str) -> int:
    count = 0
    for partition in (0, 1):
        expected = consumed(source, topic, partition)
        assert consumed(target, topic, partition) == expected
        count += len(expected)
    return count


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(0.1)


def end_of(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.plaintext, "group.id": "x"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=SECONDS)[1] for number in (0, 1)
    ]
    consumer.close()
    return sum(ends)


def frames(broker: Broker, raw: str) -> list[bytes]:
    """Return the raw topic's keys, but for announcements."""
    keys = [key or b"" for partition in (0, 1) for key, *_ in consumed(broker, raw, partition)]
    return [key for key in keys if key.count(b"/") == 3]


def sent_all(source: Broker, topic: str, ends: "Ends") -> Callable[[], bool]:
    """Return the check that the group of the upstream has no lag."""

    def done() -> bool:
        ends.check()
        consumer = Consumer({"bootstrap.servers": source.plaintext, "group.id": f"up-{topic}"})
        try:
            places = consumer.committed([TopicPartition(topic, number) for number in (0, 1)], timeout=SECONDS)
        except KafkaException:  # a young cluster has no coordinator yet
            return False
        finally:
            consumer.close()
        return sum(max(0, place.offset) for place in places) == end_of(source, topic)

    return done


def told_all(source: Broker, target: Broker, topic: str, raw: str) -> Callable[[], bool]:
    """Return the check that the raw topic holds an announcement of the end of both partitions.

    What came before it is then there as well.
    """

    def done() -> bool:
        keys = [
            (key or b"").split(b"/") for partition in (0, 1) for key, *_ in consumed(target, raw, partition)
        ]
        told = {key[1]: int(key[3]) for key in keys if len(key) == 5}
        return sum(told.values()) == end_of(source, topic)

    return done


def bundle(target: Broker, gaps: str, folder: Path) -> dict[str, Any]:
    file = folder / "bundle.json"
    argv = ["diode", "create", "--bootstrap-servers", target.plaintext, "--topic", gaps]
    assert main([*argv, "--resendFileName", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_everything_crosses(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    write(source, topic, 3000, **{"compression.type": "lz4"})
    down, up = ends.downstream(), ends.upstream()
    wait_for(sent_all(source, topic, ends), "sending all")
    write(source, topic, 2000, seed=1)
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    assert assert_equal(source, target, topic) == 5000
    assert bundle(target, gaps, tmp_path) == {"type": "all", "results": []}
    dedup()  # nothing new
    assert assert_equal(source, target, topic) == 5000


def test_what_is_lost_is_listed_resent_and_never_doubled(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    relay: Relay,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    down, up = ends.downstream(), ends.following(parity="5")
    relay.faults = Faults(lose=0.2, double=0.05, delay=0.05, flip=0.01)
    for seed in range(20):
        write(source, topic, 400, seed=seed)
    wait_for(sent_all(source, topic, ends), "sending all")
    relay.faults = Faults()
    wait_for(told_all(source, target, topic, raw), "telling all")
    dedup()
    found = bundle(target, gaps, tmp_path)
    missing = {
        (each["partition"], offset)
        for each in found["results"]
        for first, last in each["gaps"]
        for offset in range(first, last + 1)
    }
    assert missing, "nothing was lost: the test proves nothing"
    for partition in (0, 1):
        expected = consumed(source, topic, partition)
        arrived = [each for offset, each in enumerate(expected) if (partition, offset) not in missing]
        assert consumed(target, topic, partition) == arrived
    argv = [f"--{name}={value}" for name, value in ends.sending.items()]
    assert main(["diode", "resend", *argv, "--resendFileName", str(tmp_path / "bundle.json")]) == 0

    def filled() -> bool:
        dedup()
        return not bundle(target, gaps, tmp_path)["results"]

    wait_for(filled, "filling what was lost")
    for partition in (0, 1):
        expected, actual = consumed(source, topic, partition), consumed(target, topic, partition)
        assert sorted(map(repr, actual)) == sorted(map(repr, expected))
    ends.stop(up)
    ends.stop(down)


def test_a_receiver_that_is_killed_takes_nothing_twice(
    source: Broker, target: Broker, topic: str, ends: Ends, relay: Relay, dedup: Callable[..., None], raw: str
) -> None:
    relay.recorded = []
    down, up = ends.downstream(), ends.upstream()
    write(source, topic, 1000)
    wait_for(sent_all(source, topic, ends), "sending all")
    wait_for(told_all(source, target, topic, raw), "telling all")
    for _ in range(2):  # the first may be of before
        kept = ends.kept()
        wait_for(lambda kept=kept: ends.kept() != kept, "keeping the state")
    ends.kill_one(down)
    before = frames(target, raw)
    down = ends.downstream()
    wait_for(lambda: ends.counted("keys") + ends.counted("keys_repeated") > 0, "having the session's key")
    for data in list(relay.recorded):
        relay.send(data)
    write(source, topic, 1000, seed=1)
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    after = frames(target, raw)
    assert len(set(after)) == len(after) > len(before)  # what is new, and nothing of the recording
    dedup()
    assert assert_equal(source, target, topic) == 2000


def test_a_sender_that_is_killed_goes_on(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    down, up = ends.downstream(), ends.upstream()
    for seed in range(5):
        write(source, topic, 500, seed=seed)
        ends.kill_one(up)
        up = ends.upstream()
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    assert bundle(target, gaps, tmp_path)["results"] == []
    assert assert_equal(source, target, topic) == 2500


def test_keys_rotate_and_old_private_keys_still_open(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    tmp_path: Path,
) -> None:
    assert main(["diode", "keygen", "--kind", "receiver", "--out", str(tmp_path), "--name", "new"]) == 0
    down = ends.downstream(privateKeyFiles=f"{tmp_path}/new.key,{tmp_path}/down.key")
    up = ends.upstream(generateNewSymmetricKeyEvery="2")
    for seed in range(6):
        write(source, topic, 300, seed=seed)
        known = ends.counted("keys")
        if seed % 2:
            wait_for(lambda known=known: ends.counted("keys") > known, "another key")
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    assert assert_equal(source, target, topic) == 1800


def test_a_strangers_datagrams_and_another_receivers_are_nothing(
    source: Broker, target: Broker, topic: str, ends: Ends, raw: str, tmp_path: Path
) -> None:
    for kind, name in (("receiver", "other"), ("sender", "stranger")):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", name]) == 0
    write(source, topic, 200)
    down = ends.downstream()
    for dropped, more in (
        ("keys_of_strangers", {"signingKeyFile": f"{tmp_path}/stranger.key"}),
        ("keys_for_others", {"publicKeyFile": f"{tmp_path}/other.pub"}),
    ):
        up = ends.upstream(groupID=f"up-{uuid4()}", **more)
        wait_for(lambda dropped=dropped: ends.counted(dropped) > 0, dropped)
        before = ends.counted("unknown_session")
        wait_for(lambda before=before: ends.counted("unknown_session") > before, "what it sends")
        ends.stop(up)
    assert end_of(target, raw) == ends.counted("values") == 0
    # A known one sends the same records: so the end was there to take them.
    up = ends.upstream(groupID=f"up-{uuid4()}")
    wait_for(lambda: end_of(target, raw) > 0, "what a known sender sends")
    ends.stop(up)
    ends.stop(down)


def test_what_the_source_never_had_is_no_gap(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    """Cross aborted transactions, their markers, and records that the filter withholds."""
    producer = Producer({"bootstrap.servers": source.plaintext, "transactional.id": topic})
    producer.init_transactions()
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            what = ("plain", "secret", "other")[number % 3]
            producer.produce(topic, f"{what} {number}", partition=partition)
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    rules = {"inputFilterRules": "deny:^secret,allow:^plain", "inputFilterDefaultAction": "deny"}
    down, up = ends.downstream(), ends.upstream(**rules)
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    assert bundle(target, gaps, tmp_path)["results"] == []
    for partition in (0, 1):
        values = [value for _, value, _, _ in consumed(target, topic, partition)]
        assert values == [b"plain 0", b"plain 6"]
    assert b"secret" not in b"".join(message or b"" for _, message, _, _ in consumed(target, topic, 0))


def test_only_a_record_that_is_too_large_by_itself_stays_behind(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Cross small records in large batches."""
    write(source, topic, 400, **{"compression.type": "zstd"})
    write(source, topic, 400, seed=1)
    producer = Producer({"bootstrap.servers": source.plaintext})
    producer.produce(topic, random.Random(1).randbytes(5000), partition=1)  # noqa: S311
    producer.flush()
    down, up = ends.downstream(), ends.upstream(largestRecord="3000")
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    assert f"a record of {topic} may have up to 1048588 bytes (max.message.bytes)" in ends.said("upstream")
    assert ends.said("upstream").count("it does not cross") == 1
    wait_for(told_all(source, target, topic, raw), "telling all")
    dedup()
    [missing] = bundle(target, gaps, tmp_path)["results"]
    assert (missing["partition"], missing["gaps"]) == (1, [[400, 400]])
    argv = [f"--{name}={value}" for name, value in ends.sending.items()]
    argv = ["diode", "resend", *argv, "--resendFileName", str(tmp_path / "bundle.json")]
    assert main([*argv, "--largestRecord=3000"]) == ExitCode.INCOMPLETE
    assert f"{topic}-1: 400 to 400 can't be sent" in capsys.readouterr().out
    assert main([*argv, "--largestRecord=6000"]) == ExitCode.DONE

    def filled() -> bool:
        dedup()
        return not bundle(target, gaps, tmp_path)["results"]

    wait_for(filled, "filling what was lost")
    ends.stop(down)
    assert assert_equal(source, target, topic) == 801


def test_partitions_are_shifted(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    admin = AdminClient({"bootstrap.servers": target.plaintext})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()
    write(source, topic, 100)
    down, up = ends.downstream(), ends.upstream(partitionStartValue="2")
    wait_for(sent_all(source, topic, ends), "sending all")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    for partition in (0, 1):
        assert consumed(target, topic, partition + 2) == consumed(source, topic, partition)
        assert consumed(target, topic, partition) == []


def test_two_links_lose_different_things(
    source: Broker,
    target: Broker,
    topic: str,
    ends: Ends,
    relay: Relay,
    dedup: Callable[..., None],
    raw: str,
    gaps: str,
    tmp_path: Path,
) -> None:
    other_raw = create(target, f"raw.{uuid4().hex[:8]}", 2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = Relay(port, seed=2)
    (tmp_path / "state2").mkdir()
    down = ends.downstream()
    down2 = ends.downstream(
        targetPort=str(port),
        rawTopic=other_raw,
        link="8",
        stateDir=str(tmp_path / "state2"),
        metricsPort="",
    )
    up = ends.following(targetIP="", targets=f"127.0.0.1:{relay.port}=7,127.0.0.1:{other.port}=8", parity="0")
    relay.faults = other.faults = Faults(lose=0.02)
    for seed in range(10):
        write(source, topic, 400, seed=seed)
        wait_for(sent_all(source, topic, ends), "sending all")  # so that each is a frame of its own
    relay.faults = other.faults = Faults()
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    wait_for(told_all(source, target, topic, other_raw), "telling all")
    for each in (down, down2):
        ends.stop(each)
    other.stop()
    dedup()
    alone = {
        (each["partition"], *gap)
        for each in bundle(target, gaps, tmp_path)["results"]
        for gap in each["gaps"]
    }
    dedup(raw_topics=f"{raw},{other_raw}")
    both = {
        (each["partition"], *gap)
        for each in bundle(target, gaps, tmp_path)["results"]
        for gap in each["gaps"]
    }
    assert alone
    assert size(both) < size(alone)
    for partition in (0, 1):
        actual = consumed(target, topic, partition)
        assert len(actual) == len(consumed(source, topic, partition)) - size(
            each for each in both if each[0] == partition
        )


def size(gaps: Any) -> int:
    return sum(last - first + 1 for _, first, last in gaps)
