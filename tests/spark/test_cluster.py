"""Applications on a real cluster, started as Spark's users do: by spark-submit, and by `aqueduct`."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import clients
import pytest
from confluent_kafka.admin import AclOperation

from servers import spark
from servers.broker import Broker
from servers.process import free_ports
from servers.spark import HOME, SECRET, Cluster

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 20_000  # of a partition: a task's least


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark.running(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    return clients.numbered(brokers[0], "spark", 4, RECORDS)


@pytest.fixture
def backup(brokers: list[Broker], topic: str, tmp_path: Path) -> list[str]:
    """Return a backup's arguments."""
    reached = ["--bootstrap-servers", brokers[0].plaintext, "--topics", topic]
    return ["backup", *reached, "--store", f"file://{tmp_path}/store", "--report", f"{tmp_path}/report.json"]


def start(cluster: Cluster, command: list[str], **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=cluster.directory,
        env={**os.environ, **cluster.environment, "PYSPARK_PYTHON": sys.executable, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def aqueduct(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "aqueduct.cli", *arguments]


def said(process: "subprocess.Popen[str]") -> tuple[int, str]:
    out, err = process.communicate(timeout=180)
    return process.returncode, out + err


def working(process: "subprocess.Popen[str]") -> None:
    """Return when tasks of the command itself have begun."""
    assert process.stderr
    before = []
    while not (line := process.stderr.readline()).startswith("Working on Spark"):
        before.append(line)
        assert line, "".join(before)
    time.sleep(1.5)


def submit(cluster: Cluster, app: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """Run an application by spark-submit, and return what it said."""
    command = [str(HOME / "bin/spark-submit"), "--master", cluster.url, *options]
    code, page = said(start(cluster, [*command, str(ROOT / f"spark_apps/{app}.py"), *arguments]))
    assert code == 0, page
    return page


def applications(cluster: Cluster) -> list[dict[str, Any]]:
    """Return what the master says of the applications that it has seen."""
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.web}/json/") as answer:
        found = json.load(answer)
    return [*found["activeapps"], *found["completedapps"]]


def assert_equal(broker: Broker, one: str, other: str) -> None:
    for partition in range(4):
        before, after = (clients.records(broker, name, partition) for name in (one, other))
        assert len(before) == RECORDS
        assert before == after


def test_every_verb_of_a_store_is_submitted(
    cluster: Cluster, brokers: list[Broker], topic: str, backup: list[str], tmp_path: Path
) -> None:
    verb, *arguments = backup
    page = submit(cluster, verb, *arguments)
    assert f"Working on Spark at {cluster.url}, 2 executors on 1 host" in page
    assert sum(json.loads((tmp_path / "report.json").read_text())["tasks"].values()) == 4
    store = ("--store", f"file://{tmp_path}/store")
    assert "80,000 records" in submit(cluster, "verify", *store)
    again = f"{topic}.again"
    reached = ("--bootstrap-servers", brokers[0].plaintext)
    submit(cluster, "restore", *reached, *store, "--topics", f"{topic}:{again}")
    assert_equal(brokers[0], topic, again)
    ends = ("--source", brokers[0].plaintext, "--target", brokers[0].plaintext)
    assert "equal" in submit(cluster, "reconcile", *ends, "--topics", f"{topic}:{again}")
    names = [each["name"] for each in applications(cluster)]
    assert {f"aqueduct {verb}" for verb in ("backup", "verify", "restore", "reconcile")} <= set(names)
    probes = [path.name for path in (tmp_path / "store/.writing").iterdir()]
    assert probes == []


def test_what_the_user_sets_is_so(cluster: Cluster, backup: list[str], tmp_path: Path) -> None:
    """Set by spark-submit, by --conf and by spark-defaults.conf, as the master saw it."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        (cluster.directory / "conf/spark-defaults.conf").read_text()
        + f"spark.executor.memory 500m\nspark.app.name of-the-file\nspark.master {cluster.url}\n"
    )
    code, page = said(start(cluster, aqueduct(*backup), SPARK_CONF_DIR=str(conf)))
    assert code == 0, page
    by_file = applications(cluster)[-1]
    assert (by_file["name"], by_file["memoryperexecutor"]) == ("of-the-file", 500)

    own = [
        "--master",
        cluster.url,
        "--conf",
        "spark.executor.memory=600m",
        "--conf",
        "spark.ui.enabled=false",
    ]
    code, page = said(start(cluster, aqueduct(*backup, *own), SPARK_CONF_DIR=str(conf)))
    assert code == 0, page
    assert "executors on 1 host.\n" in page  # and no address of a page
    assert applications(cluster)[-1]["memoryperexecutor"] == 600

    verb, *arguments = backup
    page = submit(
        cluster, verb, *arguments, options=("--name", "mine", "--conf", "spark.executor.memory=700m")
    )
    submitted = applications(cluster)[-1]
    assert (submitted["name"], submitted["memoryperexecutor"]) == ("mine", 700)


def test_keys_are_brought_to_tasks(cluster: Cluster, brokers: list[Broker], topic: str) -> None:
    clients.allow(brokers[0], "reader", topic, AclOperation.READ, AclOperation.DESCRIBE)
    config = str(brokers[0].authority.client_config("reader"))
    ends = ["--source", brokers[0].tls, "--target", brokers[0].tls, "--client-config", config]
    code, page = said(
        start(cluster, aqueduct("reconcile", *ends, "--topics", topic, "--master", cluster.url))
    )
    assert code == 0, page
    left = [path for path in (cluster.directory / "work").rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if b"PRIVATE KEY" in path.read_bytes()]


def test_a_killed_executor_costs_its_tasks_only(
    cluster: Cluster, brokers: list[Broker], topic: str, backup: list[str], tmp_path: Path
) -> None:
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, "--rate-limit-bytes", "200000"))
    working(process)
    os.kill(busy(cluster)[0], signal.SIGKILL)
    code, page = said(process)
    assert code == 0, page
    code, page = said(start(cluster, aqueduct("verify", "--store", f"file://{tmp_path}/store")))
    assert code == 0, page
    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(each["records"] for each in report["partitions"]) == 4 * RECORDS


def test_a_worker_that_hangs_comes_back_as_a_zombie(
    cluster: Cluster, backup: list[str], tmp_path: Path
) -> None:
    """Its task was given to another one meanwhile: both write the same objects, and nothing else."""
    soon = ["--conf", "spark.network.timeout=12s", "--conf", "spark.network.timeoutInterval=2s"]
    soon += ["--conf", "spark.executor.heartbeatInterval=2s"]
    process = start(
        cluster, aqueduct(*backup, "--master", cluster.url, "--rate-limit-bytes", "200000", *soon)
    )
    working(process)
    hung = busy(cluster)[0]
    frozen = [hung, *children(hung)]
    for each in frozen:
        os.kill(each, signal.SIGSTOP)
    clients.wait_for("the store without it", lambda: len(objects(tmp_path)) >= 2, 180)
    time.sleep(15)  # for longer than Spark waits for its word
    for each in frozen:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)
    code, page = said(process)
    assert code == 0, page
    code, page = said(start(cluster, aqueduct("verify", "--store", f"file://{tmp_path}/store")))
    assert (code, "80,000 records" in page) == (0, True), page
    assert len(objects(tmp_path)) == 8  # a segment and its index for each of four tasks


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "store/topics").rglob("*") if path.is_file()]


def children(process: int) -> list[int]:
    """Return all descendants of a process."""
    lists = [(task / "children").read_text().split() for task in Path(f"/proc/{process}/task").iterdir()]
    return [
        each for child in {int(each) for some in lists for each in some} for each in (child, *children(child))
    ]


def busy(cluster: Cluster) -> list[int]:
    """Return the executors whose Python runs tasks, by the ids of their JVMs."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            of_cluster = (folder / "cwd").readlink().is_relative_to(cluster.directory / "work")
            if of_cluster and b"aqueduct.work.daemon" in (folder / "cmdline").read_bytes():
                found.add(int((folder / "stat").read_text().split()[3]))
    return sorted(found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param(
            {"secret": "another"},
            "refuses this host: both need the same spark.authenticate.secret",
            id="wrong secret",
        ),
        pytest.param(
            {"secret": None},
            "refuses this host: both need the same spark.authenticate.secret",
            id="no secret",
        ),
        pytest.param({"driver": "203.0.113.7"}, "They must reach this driver at 203.0.113.7:", id="driver"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    cluster: Cluster, backup: list[str], tmp_path: Path, change: dict[str, str | None], sentence: str
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    defaults = (cluster.directory / "conf/spark-defaults.conf").read_text()
    if "secret" in change:
        defaults = defaults.replace(SECRET, change["secret"]) if change["secret"] else ""
    if "driver" in change:
        defaults += f"spark.driver.host {change['driver']}\nspark.driver.bindAddress 127.0.0.1\n"
    (conf / "spark-defaults.conf").write_text(defaults)
    process = start(cluster, aqueduct(*backup, "--master", cluster.url), SPARK_CONF_DIR=str(conf))
    code, page = said(process)
    assert code == 1
    last = page.splitlines()[-1]
    assert last.startswith(f"aqueduct: {cluster.url} ")
    assert sentence in last
    assert "Traceback" not in page


def test_a_master_that_does_not_answer(cluster: Cluster, backup: list[str]) -> None:
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    code, page = said(start(cluster, aqueduct(*backup, "--master", url, "--wait", "5s")))
    assert code == 1
    assert page.splitlines()[-1] == (
        f"aqueduct: {url} does not answer: see that it runs, and that this host reaches its port."
    )


def test_a_cluster_without_free_cores(cluster: Cluster, backup: list[str]) -> None:
    huge = ["--conf", "spark.executor.memory=90g", "--wait", "12s"]
    code, page = said(start(cluster, aqueduct(*backup, "--master", cluster.url, *huge)))
    assert code == 1
    assert f"Waiting for resources of {cluster.url}, for 10 s" in page
    assert f"aqueduct: {cluster.url} gave no executor within 12 s: see that its workers" in page


def test_speculation_and_two_masters_are_refused(cluster: Cluster, backup: list[str]) -> None:
    twice = ["--master", cluster.url, "--conf", "spark.speculation=true"]
    code, page = said(start(cluster, aqueduct(*backup, *twice)))
    assert code == 2
    assert "spark.speculation=true can't be used" in page.splitlines()[-1]


def test_a_cluster_that_loses_all_workers(cluster: Cluster, backup: list[str]) -> None:
    patient = ["--wait", "15s", "--rate-limit-bytes", "50000"]
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *patient))
    working(process)
    executors = busy(cluster)
    for worker in cluster.workers:
        worker.kill()
    for executor in executors:
        os.kill(executor, signal.SIGKILL)
    try:
        code, page = said(process)
    finally:
        for worker in cluster.workers:
            worker.start()
    assert code == 1
    assert f"Waiting for resources of {cluster.url}\n" in page
    assert f"aqueduct: {cluster.url} has had no executor for this application for " in page.splitlines()[-1]


def test_the_driver_that_is_killed_runs_again(
    cluster: Cluster, brokers: list[Broker], topic: str, backup: list[str], tmp_path: Path
) -> None:
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, "--rate-limit-bytes", "200000"))
    working(process)
    process.kill()
    process.wait()
    code, page = said(start(cluster, aqueduct(*backup, "--master", cluster.url)))
    assert code == 0, page
    code, page = said(start(cluster, aqueduct("verify", "--store", f"file://{tmp_path}/store")))
    assert code == 0, page
