"""Comparisons on a Spark cluster are correct, also if processes are killed or hang."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import edge_cases
import pytest
from lab import Lab, Record
from spark_cluster import SOON, Command, SparkCluster

SOURCE, LAKE = "pro1-kafka-1", "lake-kafka-1"
MASTER, WORKERS = "lake-spark-1", ("lake-spark-2", "lake-spark-3")
NAME = "aqueduct reconcile"
SEEDS = range(1, 6)
EQUAL, UNEQUAL = "faults-equal", "faults-unequal"
PARTITIONS, RECORDS = 4, {EQUAL: 6_000, UNEQUAL: 1_500}
LACKING = range(700, 706)  # offsets of the source
RATE = 400_000  # bytes a second of each end, so that there is time to strike
REPORT = "/var/lib/aqueduct-reconcile/fault.json"
# Scenario land kills executors and the driver.
pytestmark = pytest.mark.long
RUN = ("User=reconcile", "WorkingDirectory=/var/lib/aqueduct-reconcile")


@dataclass(frozen=True)
class Ends:
    """Two topics at both ends of which the lake lacks some records of one partition."""

    cluster: SparkCluster
    partition: int  # of UNEQUAL, where the lake lacks something

    def compare(self, *topics: str) -> Command:
        config = "/etc/aqueduct/reconcile"
        return Command(
            *(self.cluster.lab, MASTER, (*RUN, f"Environment=SPARK_CONF_DIR={config}")),
            *(
                "reconcile",
                *("--source-bootstrap-server", f"{SOURCE}:9092"),
                *("--target-bootstrap-server", f"{LAKE}:9092"),
            ),
            *("--command-config", f"{config}/tls/client.properties", "--topics", ",".join(topics)),
            *("--report", REPORT, "--master", self.cluster.url, *SOON),
        )

    @contextmanager
    def comparing(self, *topics: str) -> Iterator[Command]:
        """Yield a comparison that reads; and wait for the cluster, whatever was done to it."""
        command = self.compare(*topics)
        try:
            self.cluster.wait_until_it_works(command)
            yield command
        finally:
            if command.running:
                command.ended()


@pytest.fixture(scope="module")
def ends(lab: Lab) -> Iterator[Ends]:
    partition = random.Random(SEEDS[0]).randrange(PARTITIONS)  # noqa: S311
    for host in (SOURCE, LAKE):
        for topic, records in RECORDS.items():
            edge_cases.make(lab, host, topic, PARTITIONS)
            for number in range(PARTITIONS):
                lacks = LACKING if (host, topic, number) == (LAKE, UNEQUAL, partition) else ()
                some = (record(each) for each in range(records) if each not in lacks)
                edge_cases.write(lab, host, topic, some, number)
        lab.quota(host, "reconcile-lake", "--alter", "--add-config", f"consumer_byte_rate={RATE}")
    yield Ends(SparkCluster(lab, "lake", MASTER, WORKERS), partition)
    for host in (SOURCE, LAKE):
        lab.quota(host, "reconcile-lake", "--alter", "--delete-config", "consumer_byte_rate")


def record(number: int) -> Record:
    """Return a record that no codec makes smaller."""
    return Record(b"%d" % number, random.Random(number).randbytes(200), (), 1_700_000_000_000 + number)  # noqa: S311


@pytest.mark.parametrize("seed", SEEDS)
def test_reconcile_names_missing_records_despite_killed_spark_processes(
    lab: Lab, ends: Ends, seed: int
) -> None:
    """Of executors, workers with theirs, and the master, in the middle of the reading."""
    chance, began = random.Random(seed), time.time()  # noqa: S311
    with ends.comparing(EQUAL, UNEQUAL) as command:
        ends.cluster.strike(chance, *chance.sample(["executor", "worker", "master"], 3))
        code, said = command.ended()
    assert code == 3, said
    assert f"{UNEQUAL}-{ends.partition}: 6 records of the source are not in the target" in said
    verdicts = json.loads(lab.run(MASTER, "cat", REPORT).stdout)["partitions"]
    unequal = [each for each in verdicts if not each["equal"]]
    assert [(each["topic"], each["partition"]) for each in unequal] == [(UNEQUAL, ends.partition)]
    assert unequal[0]["sources"][0]["missing"] == {"records": 6, "ranges": [[LACKING[0], LACKING[-1]]]}
    assert sum(each["source_records"] for each in verdicts) == PARTITIONS * sum(RECORDS.values())
    assert ends.cluster.lost_executors(NAME, began) >= 2
    ends.cluster.whole_again()


@pytest.mark.parametrize("seed", SEEDS)
def test_reconcile_confirms_equality_despite_driver_and_worker_faults(ends: Ends, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    with ends.comparing(EQUAL) as command:
        time.sleep(chance.uniform(0, 1.5))
        command.kill()
        code, said = command.ended()
        assert code != 0, said
    began = time.time()
    with ends.comparing(EQUAL) as again:
        ends.cluster.make_a_zombie(
            chance,
            lambda: "1 of 2 tasks done" in again.said and ends.cluster.lost_executors(NAME, began) > 0,
        )
        code, said = again.ended()
    assert code == 0, said
    assert "none unequal; 24,000 records in, 24,000 records out." in said
    ends.cluster.whole_again()
