"""A cluster whose workers have Spark and Python alone, and what an archive brings them."""

import json
from pathlib import Path

import drivers
import pytest
from drivers import ROOT, aqueduct, submit
from kit import clients

from servers.broker import Broker
from servers.spark import Cluster

RECORDS = 5_000


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    return clients.numbered(brokers[0], "bare", 2, RECORDS)


def values(broker: Broker, topic: str) -> list[list[tuple[object, ...]]]:
    return [
        [(each.key(), each.value(), each.timestamp()) for each in clients.read(broker, topic, partition)]
        for partition in range(2)
    ]


def test_an_archive_is_all_that_workers_lack(
    cluster: Cluster, brokers: list[Broker], topic: str, archive: Path, tmp_path: Path
) -> None:
    """Back up by spark-submit, restore by the command line."""
    store, report = f"file://{tmp_path}/store", tmp_path / "report.json"
    reached = ("--bootstrap-server", brokers[0].plaintext, "--store", store)
    named = f"{archive}#environment"
    verb = (*reached, "--topics", topic, "--report", str(report))
    options = ("--archives", named, "--name", "mine", "--conf", "spark.executor.memory=700m")
    command = submit(cluster, ROOT / "spark_apps/backup.py", *verb, options=options)
    drivers.done(drivers.start(cluster, command, PYSPARK_PYTHON=None))
    assert sum(json.loads(report.read_text())["tasks"].values()) > 0
    submitted = next(each for each in cluster.applications() if each["name"] == "mine")
    assert submitted["memoryperexecutor"] == 700
    conf = ("--conf", f"spark.archives={named}", "--master", cluster.url)
    command = aqueduct("restore", *reached, "--topics", f"{topic}:{topic}.again", *conf)
    drivers.done(drivers.start(cluster, command, PYSPARK_PYTHON=None))
    before, after = values(brokers[0], topic), values(brokers[0], f"{topic}.again")
    assert [len(each) for each in before] == [RECORDS] * 2
    assert before == after
