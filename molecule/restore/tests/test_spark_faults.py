"""If executors, workers, the master or drivers fail, no record is lost or duplicated."""

import random
import time

import pytest
from estate import MASTER, SITE, WORKERS, Estate
from lab import Lab, wait_until
from spark_cluster import SOON, Command, SparkCluster

# Scenario land kills executors and the driver.
pytestmark = [pytest.mark.usefixtures("outcome"), pytest.mark.long]

TOPIC, PARTITIONS, RECORDS = "shared-out", 4, 6_000


def command(lab: Lab, *arguments: str) -> Command:
    """Start one of our commands in the site's host, as the site's backups run."""
    kafka = ("--command-config", "/etc/aqueduct/kafka/tls/client.properties")
    brokers = ("--bootstrap-server", f"{SITE}:9092")
    service = ("EnvironmentFile=/etc/aqueduct/backup/environment",)
    return Command(
        lab, SITE, service, *arguments, *kafka, *brokers, "--master", f"spark://{MASTER}:7077", *SOON
    )


@pytest.fixture(scope="module")
def topic(estate: Estate) -> str:
    estate.make(TOPIC, PARTITIONS)
    estate.write_numbers(TOPIC, RECORDS, PARTITIONS)
    return TOPIC


@pytest.mark.parametrize("seed", range(1, 6))
def test_nothing_is_lost_and_nothing_doubled(estate: Estate, topic: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    lab, name, target = estate.lab, f"cluster-{seed}", f"{TOPIC}-{seed}"
    store = f"s3://scratch/{name}"

    cluster = SparkCluster(lab, "lake", MASTER, WORKERS)

    backup = command(lab, "backup", "--store", store, "--topics", topic, "--rate-limit-bytes", "300000")
    wait_until("something written", lambda: estate.written(name))
    cluster.strike(chance, *chance.sample(["executor", "worker", "master"], 3))
    code, said = backup.ended()
    assert code == 0, said
    cluster.whole_again()

    restore = ("restore", "--store", store, "--topics", f"{topic}:{target}")
    code, said = broken(estate, cluster, chance, restore, target).ended()
    assert code == 0, said
    cluster.whole_again()
    assert lab.read(SITE, target) == lab.read(SITE, topic)
    assert estate.aqueduct("verify", "--store", store)[0] == 0


def broken(
    estate: Estate, cluster: SparkCluster, chance: random.Random, restore: tuple[str, ...], target: str
) -> Command:
    """Kill a restore's driver; return its second run, amid which a worker hung and another was killed."""
    estate.quota("--alter", "--add-config", "producer_byte_rate=100000", user="kafka-pro1")
    try:
        killed = command(estate.lab, *restore)
        wait_until("something written", lambda: estate.end(target))
        time.sleep(chance.uniform(0, 1.5))
        killed.kill()
        code, said = killed.ended()
        assert code != 0, said
        again = command(estate.lab, *restore)
        cluster.wait_until_it_works(again)
        before = estate.end(target)
        wait_until("something written", lambda: estate.end(target) > before)
        # Its one task: another worker is at work, too, when it has been given that.
        cluster.make_a_zombie(chance, lambda: len(cluster.at_work()) == len(WORKERS))
        cluster.strike(chance, chance.choice(["executor", "worker"]))
    finally:
        estate.quota("--alter", "--delete-config", "producer_byte_rate", user="kafka-pro1")
    return again
