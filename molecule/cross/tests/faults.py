"""Every fault that a link is to stand, each with a topic of its own, one after another on one estate."""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import edge_cases
from confluent_kafka import Consumer, TopicPartition
from crossing import DOWNSTREAM, SOURCE, TARGET, UPSTREAM, Crossing
from edge_cases import KINDS
from lab import Lab, Record, wait_until
from spark_cluster import SparkCluster
from wire import Wire

from demo.offsets import watermarks
from demo.spark import Event, logs

ALL = bool(os.environ.get("AQUEDUCT_ALL_SEEDS"))
SENDER, RECEIVER, DEDUP = "diode_upstream@enclave-pro1", "diode_downstream@pro1", "dedup@pro1"
EXECUTOR_LOST, ROUND = "SparkListenerExecutorRemoved", "SparkListenerJobStart"
AQUEDUCT = "/opt/aqueduct/diode/bin/aqueduct"
OPTIONS = "/etc/aqueduct/diode_upstream/enclave-pro1/config.yml"
PARTITIONS = 2
RECORDS, BATCH = 8_000, 250
KILLS = 3
DATAGRAM, BLOCK = 1_408, 200 * 1_408  # bytes of a shard and of a full block, at an MTU of 1,500
LARGEST = 10 << 20
ROOMY = {"max.message.bytes": str(LARGEST + (1 << 20))}


@dataclass(frozen=True)
class Stage:
    """What faults are inflicted on."""

    lab: Lab
    crossing: Crossing
    cluster: SparkCluster
    first: Wire
    second: Wire

    def write(self, topic: str, records: Iterator[Record], **settings: Any) -> None:
        """In batches, of which some may be lost."""
        producer = self.lab.producer(SOURCE, "admin", **settings)
        for number, record in enumerate(records):
            producer.produce(
                *(topic, record.value, record.key, number % PARTITIONS),
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            if number % BATCH == BATCH - 1:
                assert producer.flush(300) == 0
        assert producer.flush(300) == 0

    @contextmanager
    def streaming(self, topic: str, seed: int) -> Iterator[None]:
        """Records come all the time, and afterwards have all been sent."""
        stopping = threading.Event()
        failures: list[BaseException] = []

        def write() -> None:
            try:
                self.write(topic, paced(numbers(seed), stopping))
            except BaseException as error:
                failures.append(error)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            yield
        finally:
            stopping.set()
            writer.join(600)
        assert not writer.is_alive()
        assert failures == []
        self.crossing.wait_until_sent(topic)

    def restart(self, host: str, unit: str) -> None:
        self.lab.run(host, "systemctl", "restart", unit)

    def kill(self, host: str, unit: str) -> None:
        """And wait until systemd has started it again."""
        before = self.crossing.started(host, unit)
        self.lab.kill(host, unit)
        wait_until(f"{unit} to be back", lambda: self.crossing.started(host, unit) != before)

    def hears(self) -> None:
        """The receiving end has keys of who sends."""
        wait_until(
            "the sender's key", lambda: self.crossing.figures(DOWNSTREAM)["downstream_beats_total"] > 0
        )

    def kill_dedup(self, topic: str, seconds: float) -> bool:
        """So soon after it began to write to a topic; whether it had a transaction open."""
        with (
            closing(self._reader("read_uncommitted")) as of_all,
            closing(self._reader("read_committed")) as of_committed,
        ):
            before = ends(of_all, topic)
            self.lab.run(DOWNSTREAM, "systemctl", "start", DEDUP)
            # It is quick, so all is ready for the blow.
            pid = f"pid=$(systemctl show --value --property=MainPID {DEDUP})"
            blow = self.lab.start(DOWNSTREAM, "sh", "-c", f"{pid}; echo ready; read _; kill -9 $pid")
            assert blow.stdout is not None
            assert blow.stdout.readline() == "ready\n"
            wait_until("dedup at work", lambda: ends(of_all, topic) > before, every=0.005)
            time.sleep(seconds)
            blow.communicate("\n", timeout=600)
            return ends(of_committed, topic) < ends(of_all, topic)

    def _reader(self, isolation: str) -> Consumer:
        return Consumer({**self.lab.client(TARGET), "group.id": "ends", "isolation.level": isolation})


def ends(reader: Consumer, topic: str) -> int:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return sum(watermarks(reader, place)[1] for place in places)


Inflict = Callable[[Stage, str, int], str]  # on a topic, from a seed; says what was done


@dataclass(frozen=True)
class Fault:
    name: str
    inflict: Inflict
    seeded: bool = True  # another seed is another fault
    second: bool = False  # only the second link carries the topic
    source: dict[str, str] = field(default_factory=dict)  # settings of the topic, there
    target: dict[str, str] = field(default_factory=dict)
    crosses: Callable[[Record], bool] = lambda _: True  # the others are withheld
    long: bool = False  # for `script/scenario cross --all`
    several_ways: bool = False  # so that there is no one order in which it arrives

    def topic(self, seed: int) -> str:
        name = "".join(each if each.isalnum() or each == "_" else "-" for each in self.name)
        return f"{'second' if self.second else 'faults'}.{name}.{seed}"


def numbers(seed: int, size: int = 300) -> Iterator[Record]:
    """Records of which no two are alike, and no codec makes much smaller."""
    chance = random.Random(seed)  # noqa: S311
    for number in range(1_000_000):
        key = b"%d" % number
        yield Record(key, key + b" " + chance.randbytes(size), (("seed", b"%d" % seed),), 1_700_000_000_000)


def paced(records: Iterator[Record], stopping: threading.Event) -> Iterator[Record]:
    for number, record in enumerate(records):
        if stopping.is_set():
            return
        yield record
        if number % BATCH == 0:
            time.sleep(0.05)


def pause(chance: random.Random) -> None:
    time.sleep(chance.uniform(0.5, 2))


def said(counted: Counter[str]) -> str:
    return "relay: " + ", ".join(f"{number:,} {what}" for what, number in counted.items())


# Faults of the wire


def bad(*evidence: str, **faults: float) -> Inflict:
    """A wire with these of relay.Faults, which must have done what is `evidence`."""

    def inflict(stage: Stage, topic: str, seed: int) -> str:
        with stage.first.bad(seed, **faults) as counted:
            stage.write(topic, islice(numbers(seed), RECORDS))
            stage.crossing.wait_until_sent(topic)
        assert all(counted[what] for what in evidence), said(counted)
        return said(counted)

    return inflict


def lost_tail(stage: Stage, topic: str, seed: int) -> str:
    records = list(islice(numbers(seed), RECORDS))
    stage.write(topic, iter(records[: RECORDS // 2]))
    stage.crossing.wait_until_sent(topic)
    with stage.first.bad(lose=1) as counted:
        stage.write(topic, iter(records[RECORDS // 2 :]))
        stage.crossing.wait_until_sent(topic)
    return said(counted)


def two_links(stage: Stage, topic: str, seed: int) -> str:
    with (
        stage.first.bad(seed, burst=0.004, longest=200) as first,
        stage.second.bad(seed + 100, burst=0.002, longest=200) as second,
    ):
        stage.write(topic, islice(numbers(seed), RECORDS))
        for each in (False, True):
            stage.crossing.wait_until_sent(topic, second=each)
    return f"first {said(first)}; second {said(second)}"


def replay(stage: Stage, topic: str, seed: int) -> str:
    """Of all that crossed, to a receiver that was killed since."""
    earlier = stage.first.tell(record=True)["replayed"]  # with other seeds
    stage.write(topic, islice(numbers(seed), RECORDS))
    stage.crossing.wait_until_sent(topic)
    stage.kill(DOWNSTREAM, RECEIVER)
    stage.hears()
    before = stage.crossing.figures(DOWNSTREAM)
    replayed = stage.first.tell(replay=True)["replayed"] - earlier

    def heard() -> bool:
        now = stage.crossing.figures(DOWNSTREAM)
        return now["downstream_datagrams_total"] >= before["downstream_datagrams_total"] + replayed

    wait_until("the replayed datagrams", heard)
    now = stage.crossing.figures(DOWNSTREAM)
    old = sum(now[f"downstream_shards_{each}_total"] for each in ("old", "again", "spare"))
    assert old > 0, now
    return f"kill -9 of the receiver, then {replayed:,} datagrams again: {old:,.0f} of them refused as old"


# Faults of the ends


def receiver_restarts(stage: Stage, topic: str, seed: int) -> str:
    chance = random.Random(seed)  # noqa: S311
    with stage.streaming(topic, seed):
        for _ in range(KILLS):
            pause(chance)
            stage.restart(DOWNSTREAM, RECEIVER)
            stage.hears()
        pause(chance)
    return f"restarted {KILLS} times, while records came"


def receiver_dies(stage: Stage, topic: str, seed: int) -> str:
    """By a kill, after which systemd may have kept all for it."""
    chance = random.Random(seed)  # noqa: S311
    with stage.streaming(topic, seed):
        for _ in range(2):
            pause(chance)
            stage.kill(DOWNSTREAM, RECEIVER)
            stage.hears()
        pause(chance)
    return "kill -9 twice, while records came"


def receiver_is_away(stage: Stage, topic: str, seed: int) -> str:
    chance = random.Random(seed)  # noqa: S311
    with stage.streaming(topic, seed):
        pause(chance)
        stage.lab.run(DOWNSTREAM, "systemctl", "stop", RECEIVER)
        pause(chance)
        stage.lab.run(DOWNSTREAM, "systemctl", "start", RECEIVER)
        stage.hears()
        pause(chance)
    return "stopped and started, while records came"


def sender_dies(stage: Stage, topic: str, seed: int) -> str:
    chance = random.Random(seed)  # noqa: S311
    with stage.streaming(topic, seed):
        for how in (stage.restart, stage.kill):
            pause(chance)
            how(UPSTREAM, SENDER)
        pause(chance)
    return "restarted, kill -9, while records came"


def dedup_dies(stage: Stage, topic: str, seed: int) -> str:
    """Until it was killed so many times with a transaction open."""
    chance = random.Random(seed)  # noqa: S311
    records = numbers(seed)
    inside = tries = 0
    while inside < KILLS:
        tries += 1
        assert tries <= 6 * KILLS, f"of {tries - 1} kills only {inside} hit a transaction"
        stage.lab.run(DOWNSTREAM, "systemctl", "stop", DEDUP)
        stage.write(topic, islice(records, 40_000))
        stage.crossing.wait_until_sent(topic)
        inside += stage.kill_dedup(topic, chance.uniform(0, 0.1))
    stage.lab.run(DOWNSTREAM, "systemctl", "start", DEDUP)
    return f"kill -9 of dedup {tries} times, {inside} times with a transaction open"


def dedup_s_cluster_dies(stage: Stage, topic: str, seed: int) -> str:
    """An executor of Spark, a worker with its own, and the master, in the middle of rounds."""
    chance, began = random.Random(seed), time.time()  # noqa: S311
    faults = chance.sample(["executor", "worker", "master"], 3)
    with stage.streaming(topic, seed):
        for fault in faults:
            pause(chance)
            stage.cluster.strike(chance, fault)
        pause(chance)
    stage.cluster.whole_again()

    def both_lost() -> bool:
        """By a driver that waits for the master's word, which was killed, too."""
        return sum(each["Event"] == EXECUTOR_LOST for each in dedup_events(stage.lab, began)) >= 2

    wait_until("the driver to know that it lost two executors", both_lost)
    return f"kill -9 of Spark's {', '.join(faults)}, while records came"


def worker_hangs(stage: Stage, topic: str, seed: int) -> str:
    """Until another worker has done its task of the round."""
    chance, began = random.Random(seed), time.time()  # noqa: S311

    def given() -> bool:
        """A round has begun since the executor was given up, so the one before it is whole."""
        lost, rounds = (
            [each[when] for each in dedup_events(stage.lab, began) if each["Event"] == event]
            for event, when in ((EXECUTOR_LOST, "Timestamp"), (ROUND, "Submission Time"))
        )
        return bool(lost) and max(rounds) > lost[0]

    with stage.streaming(topic, seed):
        pause(chance)
        stage.cluster.make_a_zombie(chance, given)
        pause(chance)
    stage.cluster.whole_again()
    return "a worker of Spark hung until its task was done by another, while records came"


def dedup_events(lab: Lab, since: float) -> list[Event]:
    """Return what Spark logged of dedup since then, whenever its session began."""
    return [
        each
        for log in logs(lab, DOWNSTREAM, "aqueduct dedup")
        for each in log
        if each.get("Timestamp", each.get("Submission Time", 0)) > since * 1000
    ]


def foreign_keys(stage: Stage, topic: str, seed: int) -> str:
    """What was lost comes again from a stranger, and then sealed for somebody else."""
    with stage.first.bad(lose=1):
        stage.write(topic, islice(numbers(seed), RECORDS // 4))
        stage.crossing.wait_until_sent(topic)
    made = "/tmp/foreign"
    stage.lab.run(UPSTREAM, "mkdir", made)
    for kind in ("sender", "receiver"):
        keygen = (AQUEDUCT, "diode", "keygen", "--kind", kind, "--out", made, "--name", kind)
        stage.lab.run(UPSTREAM, *keygen)
    before = stage.crossing.figures(DOWNSTREAM)
    for option in (f"--signing-key-file={made}/sender.key", f"--public-key-file={made}/receiver.pub"):
        for partition in range(PARTITIONS):
            what = ("--topic", topic, "--partition", str(partition), "--offset-from", "0")
            stage.lab.run(UPSTREAM, AQUEDUCT, "diode", "resend", "--config", OPTIONS, option, *what)
    stage.lab.run(UPSTREAM, "rm", "-r", made)

    def refused() -> dict[str, float]:
        now = stage.crossing.figures(DOWNSTREAM)
        counted = {
            what: now[name] - before[name]
            for what, name in (
                ("of strangers", "downstream_keys_of_strangers_total"),
                ("for others", "downstream_keys_for_others_total"),
            )
        }
        assert all(counted.values()), counted
        return counted

    counted = wait_until("the receiving end to count them", refused)
    return "key frames refused: " + ", ".join(f"{number:.0f} {what}" for what, number in counted.items())


def keys_rotate(stage: Stage, topic: str, seed: int) -> str:
    """Every 2 s, over a wire that reorders."""

    def key() -> float:
        return stage.crossing.figures(UPSTREAM, second=True)["upstream_key"]

    began = key()
    with stage.second.bad(seed, delay=0.1) as counted:
        for number in range(3):
            stage.write(topic, islice(numbers(seed * 10 + number), RECORDS // 3))
            wait_until("another key", lambda than=began + number: key() > than)
        stage.crossing.wait_until_sent(topic, second=True)
    return f"{key() - began:.0f} new keys; {said(counted)}"


# Records that are easily got wrong


def every_size(stage: Stage, topic: str, seed: int) -> str:
    sizes = [0, 1, *range(DATAGRAM - 200, DATAGRAM + 100, 7), *range(BLOCK - 400, BLOCK + 100, 45), LARGEST]
    chance = random.Random(seed)  # noqa: S311
    chance.shuffle(sizes)
    records = [Record(None, chance.randbytes(size), (), number) for number, size in enumerate(sizes)]
    records += [Record(None, None, (), len(sizes))]
    settings = {"message.max.bytes": LARGEST + 1_000, "compression.type": "none", "linger.ms": 0}
    stage.write(topic, iter(records), **settings)
    stage.crossing.wait_until_sent(topic)
    return f"{len(records)} sizes from null to {LARGEST:,} bytes"


def edge_kinds(stage: Stage, topic: str, seed: int) -> str:
    edge_cases.write(stage.lab, SOURCE, topic, KINDS, 1)
    stage.crossing.wait_until_sent(topic)
    return "null, empty, headers twice, times out of order"


def filled_before(stage: Stage, topic: str, seed: int) -> str:
    stage.crossing.wait_until_sent(topic)
    return "of it some offsets hold nothing"


def transactions(stage: Stage, topic: str, seed: int) -> str:
    for number in range(0, 6, 2):
        edge_cases.transaction(stage.lab, SOURCE, topic, "commit", number)
        edge_cases.transaction(stage.lab, SOURCE, topic, "abort", number + 1)
    stage.crossing.wait_until_sent(topic)
    return "3 committed, 3 aborted"


def withheld(stage: Stage, topic: str, seed: int) -> str:
    """See the second link's rules."""
    slow = b"slow" + b"a" * 60  # one more character, and a match takes longer than the universe has
    values = {"open": b"open secret", "denied": b"the secret", "default": b"plain", "slow": slow}
    before = stage.crossing.figures(UPSTREAM, second=True)
    records = [
        Record(kind.encode(), value + b" %d" % number if value != slow else value, (), number)
        for number in range(500)
        for kind, value in values.items()
    ]
    records += [Record(b"timeout", slow + b"!", (), number) for number in range(10)]
    random.Random(seed).shuffle(records)  # noqa: S311
    half = len(records) // 2
    stage.write(topic, iter(records[:half]))
    stage.crossing.wait_until_sent(topic, second=True)
    with stage.second.bad(lose=1) as counted:  # so that the resend has denied ones among its offsets
        stage.write(topic, iter(records[half:]))
        stage.crossing.wait_until_sent(topic, second=True)
    now = stage.crossing.figures(UPSTREAM, second=True)
    timeouts, denied = (
        now[name] - before[name] for name in ("upstream_filter_timeouts_total", "upstream_withheld_total")
    )
    assert (timeouts, denied) == (10, 510)
    return f"{denied:.0f} withheld, of them {timeouts:.0f} for want of time; {said(counted)}"


def may_cross(record: Record) -> bool:
    return record.key not in (b"denied", b"timeout")


_FAULTS = [
    Fault("loss 0.1 %", bad("in", lose=0.001), long=True),
    Fault("loss 1 %", bad("lost", lose=0.01), long=True),
    Fault("loss 5 %", bad("lost", lose=0.05), long=True),
    Fault("loss 20 %", bad("lost", lose=0.2)),
    Fault("bursts of up to 300", bad("bursts", burst=0.003, longest=300)),
    Fault("reorder, double, flip", bad("doubled", "delayed", "flipped", double=0.05, delay=0.05, flip=0.02)),
    Fault("lost tail", lost_tail),
    Fault("two links", two_links, several_ways=True),
    Fault("replay", replay),
    Fault("receiver restarts", receiver_restarts),
    Fault("receiver dies", receiver_dies),
    Fault("receiver is away", receiver_is_away),
    Fault("sender dies", sender_dies),
    Fault("dedup dies", dedup_dies),
    Fault("dedup's cluster dies", dedup_s_cluster_dies, long=True),
    Fault("a worker hangs", worker_hangs, long=True),
    Fault("foreign keys", foreign_keys, seeded=False),
    Fault("a key every 2 s", keys_rotate, second=True),
    Fault(
        "every size",
        every_size,
        seeded=False,
        source=(large := {"max.message.bytes": "12000000"}),
        target=large,
    ),
    Fault("edge_cases", edge_kinds, seeded=False),
    Fault("compacted", filled_before, seeded=False, source=edge_cases.COMPACTED),
    Fault("transactions", transactions, seeded=False),
    Fault("filter", withheld, second=True, crosses=may_cross),
]
FAULTS = [each for each in _FAULTS if ALL or not each.long]
