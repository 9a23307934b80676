"""Workers with executors, the master and the driver are killed in the middle of a backup and of a restore."""

import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from estate import SITE, Estate
from lab import Lab, wait_until
from test_spark import MASTER, WORKERS

pytestmark = pytest.mark.usefixtures("outcome")

SEEDS = range(1, 6) if os.environ.get("AQUEDUCT_ALL_SEEDS") else range(1, 2)
TOPIC, PARTITIONS, RECORDS = "shared-out", 4, 6_000
CLUSTER = (
    *("--master", "spark://lake-spark-1:7077", "--bootstrap-servers", f"{SITE}:9092"),
    *("--client-config", "/etc/aqueduct/kafka/tls/client.properties"),
)
_numbers = count()


class Command:
    """One of our commands in the site's host, as a unit that can be killed."""

    def __init__(self, lab: Lab, *arguments: str) -> None:
        self.lab, self.unit = lab, f"fault-{next(_numbers)}"
        properties = ("--property=EnvironmentFile=/etc/aqueduct/backup/environment", f"--unit={self.unit}")
        aqueduct = ("/opt/aqueduct/spark/bin/aqueduct", *arguments)
        self.process: subprocess.Popen[str] = lab.start(
            SITE, "systemd-run", "--quiet", "--wait", "--pipe", *properties, "--", *aqueduct, *CLUSTER
        )

    def kill(self) -> None:
        """kill -9 of the driver's Python; Spark's JVM is its child and goes by itself."""
        self.lab.kill(SITE, self.unit)

    def ended(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=300)
        return self.process.returncode, said


def executors(lab: Lab, worker: str) -> list[str]:
    """Return the process ids of a worker's executors."""
    found = lab.run(worker, "pgrep", "--full", "CoarseGrainedExecutorBackend", check=False)
    return found.stdout.split()


def kill_worker(lab: Lab, worker: str) -> None:
    """kill -9 of a worker and all that it has started; systemd starts it again."""
    wait_until(f"an executor at {worker}", lambda: executors(lab, worker), 60)
    lab.run(worker, "systemctl", "kill", "--signal=KILL", "--kill-whom=all", "spark_worker")


def kill_master(lab: Lab, _: str) -> None:
    lab.kill(MASTER, "spark_master")


FAULTS: dict[str, Callable[[Lab, str], None]] = {"worker": kill_worker, "master": kill_master}


def strike(estate: Estate, began: Callable[[], object], chance: random.Random, faults: Sequence[str]) -> None:
    """Kill one after another, from the first thing that was written on."""
    wait_until("something written", began, 120)
    for fault in faults:
        time.sleep(chance.uniform(0, 1.5))
        worker = chance.choice(WORKERS)
        FAULTS[fault](estate.lab, worker)
        print(f"kill -9 of a {fault}{f', {worker}' if fault == 'worker' else ''}")


def whole_again(estate: Estate) -> None:
    """Wait for the cluster, which systemd has started again."""
    done = estate.lab.play("spark", "--limit=site_lake")
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def topic(estate: Estate) -> str:
    estate.make(TOPIC, PARTITIONS)
    estate.write_numbers(TOPIC, RECORDS, PARTITIONS)
    return TOPIC


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_doubled(estate: Estate, topic: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    lab, name, target = estate.lab, f"cluster-{seed}", f"{TOPIC}-{seed}"
    store = f"s3://scratch/{name}"

    backup = Command(lab, "backup", "--store", store, "--topics", topic, "--rate-limit-bytes", "400000")
    strike(estate, lambda: estate.written(name), chance, chance.sample(list(FAULTS), 2))
    code, said = backup.ended()
    assert code == 0, said
    whole_again(estate)

    restore = ("restore", "--store", store, "--topics", f"{topic}:{target}")
    estate.quota("--alter", "--add-config", "producer_byte_rate=100000", user="kafka")
    try:
        killed = Command(lab, *restore)
        wait_until("something written", lambda: estate.end(target), 120)
        time.sleep(chance.uniform(0, 1.5))
        killed.kill()
        code, said = killed.ended()
        assert code != 0, f"it had ended: {said}"
        zombies = {worker: executors(lab, worker) for worker in WORKERS}  # nobody has told them yet
        print(f"executors without a driver: {sum(map(len, zombies.values()))}")
        again = Command(lab, *restore)

        def has_its_own() -> bool:
            return all({*executors(lab, worker)} - {*zombies[worker]} for worker in WORKERS)

        wait_until("executors of the second run", has_its_own, 120)
        before = estate.end(target)
        strike(estate, lambda: estate.end(target) > before, chance, ["worker"])
    finally:
        estate.quota("--alter", "--delete-config", "producer_byte_rate", user="kafka")
    code, said = again.ended()
    assert code == 0, said
    whole_again(estate)
    assert lab.read(SITE, target) == lab.read(SITE, topic)
    assert estate.aqueduct("verify", "--store", store)[0] == 0
