"""Flights that never stop, and whatever takes part in landing them killed under them."""

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import other_formats
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from departures import Departures, Expected, expected
from lab import Lab, wait_until
from lake_readers import HOST, ICEBERG, TABLE, Lake, Read
from other_formats import OTHER_TOPICS, SITE
from spark_cluster import Command, SparkCluster
from stored import StoredLanding
from writer import Writer

from demo.hive import AS_SERVICE
from demo.offsets import watermarks

TOPIC, BROKER = "flights", "lake-kafka-1"
SITES = {"pro1-kafka-1": "EWR", "pro2-kafka-1": "JFK"}
SPARK = ("lake-spark-1", "lake-spark-2")
PAUSE = (0.2, 0.5)  # of a writer, after 100 records
GATE = {"name": "gate", "type": "string"}
# `script/scenario land --all`: more seeds, Iceberg, and an object store.
ALL = bool(os.environ.get("AQUEDUCT_ALL_SEEDS"))
LOST = "[landers-compete]"


@dataclass(frozen=True)
class Strike:
    """A kill -9, and by which processes that shows."""

    what: str
    at: float
    before: str
    after: str


@dataclass(frozen=True)
class Compaction:
    began: float
    ended: float
    said: str


@dataclass
class Outcome:
    """What there is when all is over."""

    strikes: list[Strike] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    second_lander: str = ""  # who was told that it lost
    acknowledged: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)  # by the sites' own offsets
    reads: dict[str, list[Read]] = field(default_factory=dict)
    commits: list[dict[str, Any]] = field(default_factory=list)
    topic: Expected = field(default_factory=lambda: Expected({}, {}, {}))
    stored: StoredLanding | None = None


class Estate:
    """The estate, to break."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.lake = lab, Lake(lab)
        self.spark = SparkCluster(lab, "lake", SPARK[0], SPARK)

    @property
    def avro_schema(self) -> Any:
        """Return the schema of the declaration, which is that of the writer."""
        [schema] = [each["schema"] for each in self.lab.variables[HOST]["land_tables"] if "schema" in each]
        return schema

    def process(self, unit: str) -> str:
        """Return the id of a unit's main process; 0 if there is none."""
        return self.lab.run(HOST, "systemctl", "show", "--property=MainPID", "--value", unit).stdout.strip()

    @property
    def postgresql(self) -> str:
        listed = ("list-units", "--plain", "--no-legend", "postgresql@*.service")
        return self.lab.run(HOST, "systemctl", *listed).stdout.split()[0]

    def land(self, *arguments: str) -> Command:
        """Start `aqueduct land`, or one of its verbs, as the service but without Spark."""
        given = (each for each in self.lake.landing.options() if not each.startswith("--master="))
        return Command(self.lab, HOST, AS_SERVICE, "land", *arguments, *given)

    def strike(self, what: str, chance: random.Random) -> Callable[[], Strike]:
        """kill -9; return what waits for another process in its place."""
        time.sleep(chance.uniform(0, 4))
        if what == "executor":
            worker = wait_until("an executor", lambda: self._one_with_executor(chance))
            return self._strike(
                f"{what} of {worker}", lambda: " ".join(self.spark.executors(worker)),
                lambda: self.spark.kill_executor(worker),
            )  # fmt: skip
        unit = {
            "driver": "land",
            "namenode": "hdfs_namenode",
            "datanode": "hdfs_datanode",
            "metastore": "hive_metastore",
            "postgresql": self.postgresql,
            "registry": "schema_registry",
        }[what]
        return self._strike(what, lambda: self.process(unit), lambda: self.lab.kill(HOST, unit))

    def _one_with_executor(self, chance: random.Random) -> str | None:
        workers = [worker for worker in SPARK if self.spark.executors(worker)]
        return chance.choice(workers) if workers else None

    def _strike(
        self, what: str, processes: Callable[[], str], kill: Callable[[], None]
    ) -> Callable[[], Strike]:
        before, at = wait_until(f"{what} to run", lambda: _some(processes())), time.time()
        kill()
        print(f"kill -9: {what}", flush=True)

        def again() -> Strike:
            after = wait_until(
                f"{what} to run again", lambda: (now := _some(processes())) and now != before and now
            )
            return Strike(what, at, before, after)

        return again

    def landing_goes_on(self, than: int | None = None) -> int:
        """Wait for another commit; return its number."""
        last = self.lake.newest() if than is None else than
        return int(
            wait_until(
                f"a commit after {last}", lambda: (new := self.lake.newest()) > last and new, 1800, every=1
            )
        )

    def compact(self) -> Compaction:
        """Compact while the service lands, as the timer does; who is overtaken too often is started again."""
        began = time.time()
        unit = "land_compact.service"

        def done() -> Compaction | None:
            start = ("systemctl", "start", "--wait", unit)
            code = self.lab.run(HOST, *start, check=False, seconds=1800).returncode
            run = self.lab.run(HOST, "systemctl", "show", "--property=InvocationID", "--value", unit).stdout
            said = self.lab.journal(HOST, f"_SYSTEMD_INVOCATION_ID={run.strip()}")
            print(said.strip(), flush=True)
            return Compaction(began, time.time(), said) if code == 0 else None

        compaction: Compaction = wait_until("a compaction", done, 1800)
        return compaction

    def two_landers(self) -> str:
        """Land by hand beside the service until one of both is told that it was not the first."""
        began = time.time()
        seconds = [self.land("--every=1s")]

        def loser() -> str:
            if LOST in seconds[-1].said:
                return "the second"
            if not seconds[-1].running:
                if LOST in seconds[-1].ended()[1]:
                    return "the second"
                seconds.append(self.land("--every=1s"))  # what was killed before did not answer yet
            said = self.lab.journal(HOST, "--unit=land", f"--since=@{began:.0f}")
            return "the service" if LOST in said else ""

        lost: str = wait_until("one of two landers to lose", loser, 1800, every=1)
        second = seconds[-1]
        if lost == "the second":
            code, said = second.ended()
            assert code == 1, said
        elif second.running:
            second.kill()
            second.ended()
        print(f"of two landers {lost} lost", flush=True)
        return lost

    def declare(self, *, gate: bool, iceberg: bool) -> None:
        """Declare a column more, and a table, in the way that a user does it."""
        departures, delimited, *others = self.lab.variables[HOST]["land_tables"]
        columns = [*departures["columns"], *([GATE] if gate else [])]
        more = [delimited | {"table": ICEBERG, "kind": "iceberg"}] if iceberg else []
        changed = [departures | {"columns": columns}, delimited, *others, *more]
        done = self.lab.play("land", land_tables=changed)
        assert done.returncode == 0, done.stdout

    def add_partition(self) -> int:
        """Give the topic a partition more at one site; return its number, when the lake has it."""
        admin = self.lab.admin("pro1-kafka-1")
        number = len(admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions)
        admin.create_partitions([NewPartitions(TOPIC, number + 1)])[TOPIC].result()
        there = self.lab.admin(BROKER)
        wait_until(
            "the partition in the lake",
            lambda: len(there.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions) > number,
        )
        return number

    def written(self, host: str, topic: str = TOPIC) -> int:
        """Count what a site's topic has; nothing was ever taken from it."""
        with self.lab.reading(host, topic) as (reader, places):
            return sum(watermarks(reader, TopicPartition(topic, place.partition))[1] for place in places)


def _some(processes: str) -> str:
    return "" if processes == "0" else processes


FAULTS = ("driver", "executor", "namenode", "metastore")
if ALL:
    FAULTS += ("datanode", "postgresql", "registry")


def land_and_break(lab: Lab, seeds: Sequence[random.Random], poison: int, *, everywhere: bool) -> Outcome:
    """Write, land and break, all of it by seeds; `poison`: so many records are bad one after another.

    `everywhere`: a topic lands as an Iceberg table, too, and one in the object store.
    """
    estate, outcome = Estate(lab), Outcome()
    before = {host: estate.written(host) for host in SITES}
    # Each thread has its own, so that seeds draw the same faults each time.
    sources = {
        host: Departures(airport, random.Random(airport))  # noqa: S311
        for host, airport in SITES.items()
    }
    soon = {"topic.metadata.refresh.interval.ms": 5_000}  # new partitions get some
    writers = [
        Writer(lab, host, TOPIC, "flights", source, random.Random(number), pause=PAUSE, **soon)  # noqa: S311
        for number, (host, source) in enumerate(sources.items())
    ]
    told = _Told()
    other_formats.write(lab, estate.avro_schema, random.Random(1))  # noqa: S311
    if everywhere:
        estate.declare(gate=False, iceberg=True)
    for writer in writers:
        writer.start()
    first = estate.landing_goes_on(0)
    outcome.stored = StoredLanding(lab) if everywhere else None
    told("the first flights have landed")
    with estate.lake.watched() as watches:
        for number, chance in enumerate(seeds):
            sources[chance.choice([*SITES])].break_next(poison)
            faults = chance.sample(FAULTS, len(FAULTS))
            extras: list[Callable[[], object]] = [lambda: outcome.compactions.append(estate.compact())]
            if number == 0:
                extras += [estate.add_partition, lambda: estate.declare(gate=True, iceberg=everywhere)]
            if number == 0 and (stored := outcome.stored):
                extras.append(partial(stored.kill, chance))
            pending = []
            for fault in faults:
                last = estate.lake.newest() if fault in ("driver", "namenode", "datanode") else first
                pending.append(estate.strike(fault, chance))
                if fault in ("driver", "namenode", "datanode"):
                    outcome.strikes.append(pending.pop()())
                    estate.landing_goes_on(last)
                    told(f"{fault} is back, and landing goes on")
                elif extras:
                    extras.pop()()
                    told(f"after {fault}, something else was done")
            outcome.strikes += [again() for again in pending]
            for extra in extras:
                extra()
            outcome.second_lander = estate.two_landers()
            told("all were killed once")
            estate.landing_goes_on()
        for writer in writers:
            outcome.acknowledged[writer.host] = writer.finish()
            outcome.written[writer.host] = estate.written(writer.host) - before[writer.host]
        _all_arrived(estate)
        told("all have arrived in the lake")
        for table in (TABLE, *OTHER_TOPICS, *([ICEBERG] if everywhere else [])):
            replace(estate.lake.landing, table=table).caught_up()
        if outcome.stored:
            outcome.stored.caught_up()
        told("all have landed")
        outcome.compactions.append(estate.compact())
        told("all is compacted")
        wait_until(
            "both readers' last reads",
            lambda: all(
                watch.whole and watch.whole[-1].began > outcome.compactions[-1].ended for watch in watches
            ),
        )
    outcome.reads = {watch.name: watch.reads for watch in watches}
    outcome.commits = estate.lake.ask("commits", TABLE)
    outcome.topic = expected(TOPIC, lab.read_offsets(BROKER, TOPIC))
    told("the topic was read")
    return outcome


def _all_arrived(estate: Estate) -> None:
    for topic, hosts in {TOPIC: [*SITES], **{topic: [SITE] for topic in OTHER_TOPICS.values()}}.items():
        sent = sum(estate.written(host, topic) for host in hosts)

        def arrived(topic: str = topic, sent: int = sent) -> bool:
            return sum(map(len, estate.lab.read(BROKER, topic).values())) >= sent

        wait_until(f"{sent:,} records of {topic} in the lake", arrived, every=1)


class _Told:
    """Tells how far it is, and after how many seconds."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:4.0f} s: {what}", flush=True)
