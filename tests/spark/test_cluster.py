"""Applications on a real cluster, started as Spark's users do: by spark-submit, and by `aqueduct`."""

import json
import os
import signal
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import clients
import drivers
import pytest
from confluent_kafka.admin import AclOperation
from drivers import Process, Run, aqueduct, done, ended, start, submit, until

from aqueduct import cli
from servers.broker import Broker
from servers.process import free_ports
from servers.spark import SECRET, Cluster

ABSENT = f"spark://127.0.0.1:{free_ports(1)[0]}"
RECORDS = 20_000  # of a partition: a task's least
SLOWLY = ("--rate-limit-bytes", "60000")  # 20 s, so that it isn't done before a fault on a busy machine
IN_TURN = """
import json, sys
from importlib import import_module
for verb, arguments in json.loads(sys.argv[1]):
    if code := import_module(f"spark_apps.{verb}").main(arguments):
        sys.exit(code)
"""
TRY = """
import sys
from aqueduct.work import session
from aqueduct.work.figures import SparkFigures
from aqueduct.work.options import SparkOptions
from aqueduct.work.spark import application
both = {"spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
with application("try", SparkOptions(sys.argv[1], both), SparkFigures()) as found:
    print([executor.ended > 0 for executor in session.executors(found._context)])
"""


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    return clients.numbered(brokers[0], "spark", 4, RECORDS)


@pytest.fixture
def backup(brokers: list[Broker], topic: str, tmp_path: Path) -> list[str]:
    """Return a backup's arguments."""
    reached = ["--bootstrap-servers", brokers[0].plaintext, "--topics", topic]
    return ["backup", *reached, "--store", f"file://{tmp_path}/store", "--report", f"{tmp_path}/report.json"]


def working(process: Process) -> str:
    """Wait until tasks of the command itself have begun, and return its page's address."""
    line = until(process, "Working on Spark")
    time.sleep(1.5)
    return line.rpartition("; ")[2].strip().removesuffix(".")


def asked(page: str, what: str = "") -> Any:
    address = page.removeprefix("http://")
    with urllib.request.urlopen(f"http://{address}/api/v1/applications{what}") as answer:
        return json.load(answer)


def application(page: str) -> str:
    """Return the id of the application whose page it is."""
    (found,) = asked(page)
    return str(found["id"])


def lost(page: str) -> bool:
    """Return whether an application has given up an executor, by its own page."""
    return not all(each["isActive"] for each in asked(page, f"/{application(page)}/allexecutors"))


def verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `aqueduct verify` says, in this process."""
    code = cli.main(["verify", "--store", f"file://{tmp_path}/store"])
    page = capsys.readouterr().out
    assert code == 0, page
    return page


def assert_equal(broker: Broker, one: str, other: str) -> None:
    for partition in range(4):
        before, after = (clients.records(broker, name, partition) for name in (one, other))
        assert len(before) == RECORDS
        assert before == after


def test_every_verb_of_a_store_is_submitted(
    cluster: Cluster, brokers: list[Broker], topic: str, backup: list[str], tmp_path: Path
) -> None:
    """Run them one after another in one driver, the last with keys that no other host has."""
    store, again = ("--store", f"file://{tmp_path}/store"), f"{topic}.again"
    reached = ("--bootstrap-servers", brokers[0].plaintext)
    for name in (topic, again):
        clients.allow(brokers[0], "reader", name, AclOperation.READ, AclOperation.DESCRIBE)
    config = str(brokers[0].authority.client_config("reader"))
    ends = ("--source", brokers[0].tls, "--target", brokers[0].tls, "--client-config", config)
    verbs = {
        "backup": backup[1:],
        "verify": store,
        "restore": (*reached, *store, "--topics", f"{topic}:{again}"),
        "reconcile": (*ends, "--topics", f"{topic}:{again}"),
    }
    program = tmp_path / "in_turn.py"
    program.write_text(IN_TURN)
    page = done(start(cluster, submit(cluster, program, json.dumps([*verbs.items()]))))
    assert f"Working on Spark at {cluster.url}, 2 executors on 1 host" in page
    assert sum(json.loads((tmp_path / "report.json").read_text())["tasks"].values()) == 4
    assert "80,000 records" in page
    assert "equal" in page
    assert_equal(brokers[0], topic, again)
    names = [each["name"] for each in cluster.applications()]
    assert {f"aqueduct {verb}" for verb in verbs} <= set(names)
    assert [*(tmp_path / "store/.writing").iterdir()] == []  # probes
    left = [path for path in (cluster.directory / "work").rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if b"PRIVATE KEY" in path.read_bytes()]


def test_what_the_user_sets_is_so(cluster: Cluster, backup: list[str], tmp_path: Path) -> None:
    """Set by --conf and by spark-defaults.conf, as the master saw it."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        (cluster.directory / "conf/spark-defaults.conf").read_text()
        + f"spark.executor.memory 500m\nspark.app.name of-the-file\nspark.master {cluster.url}\n"
    )
    done(start(cluster, aqueduct(*backup), SPARK_CONF_DIR=str(conf)))
    by_file = cluster.applications()[-1]
    assert (by_file["name"], by_file["memoryperexecutor"]) == ("of-the-file", 500)

    own = ["--master", cluster.url, "--conf", "spark.executor.memory=600m"]
    own += ["--conf", "spark.ui.enabled=false"]
    page = done(start(cluster, aqueduct(*backup, *own), SPARK_CONF_DIR=str(conf)))
    assert "executors on 1 host.\n" in page  # and no address of a page
    assert cluster.applications()[-1]["memoryperexecutor"] == 600


def test_an_executor_that_takes_tasks_late_is_tried_too(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "try.py"
    program.write_text(TRY)
    process = start(cluster, [sys.executable, str(program), cluster.url])
    late = clients.wait_for("an executor", lambda: registered(cluster, "1"), 150)
    os.kill(late, signal.SIGSTOP)
    try:
        time.sleep(4)
    finally:
        os.kill(late, signal.SIGCONT)
    assert done(process).startswith("[True, True]\n")


def registered(cluster: Cluster, executor: str) -> int | None:
    """Return the process of an executor that runs, once its driver knows it."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            here = (folder / "cwd").readlink()
            if here.is_relative_to(cluster.directory / "work") and here.name == executor:
                said = (here / "stderr").read_text()
                return int(folder.name) if "Successfully registered with driver" in said else None
    return None


def test_a_killed_executor_costs_its_tasks_only(
    cluster: Cluster, backup: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *SLOWLY))
    page = working(process)
    os.kill(busy(cluster, application(page))[0], signal.SIGKILL)
    done(process)
    verified(tmp_path, capsys)
    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(each["records"] for each in report["partitions"]) == 4 * RECORDS


def test_a_worker_that_hangs_comes_back_as_a_zombie(
    cluster: Cluster, backup: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its task was given to another one meanwhile: both write the same objects, and nothing else."""
    soon = ["--conf", "spark.network.timeout=8s", "--conf", "spark.network.timeoutInterval=1s"]
    soon += ["--conf", "spark.executor.heartbeatInterval=1s"]
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *SLOWLY, *soon))
    page = working(process)
    hung = busy(cluster, application(page))[0]
    frozen = [hung, *children(hung)]
    try:
        for each in frozen:
            os.kill(each, signal.SIGSTOP)
        clients.wait_for("the end of Spark's patience", lambda: lost(page), 150)
    finally:
        for each in frozen:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)
    done(process)
    assert "80,000 records" in verified(tmp_path, capsys)
    assert len(objects(tmp_path)) == 8  # a segment and its index for each of four tasks


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "store/topics").rglob("*") if path.is_file()]


def children(process: int) -> list[int]:
    """Return all descendants of a process."""
    lists = [(task / "children").read_text().split() for task in Path(f"/proc/{process}/task").iterdir()]
    return [
        each for child in {int(each) for some in lists for each in some} for each in (child, *children(child))
    ]


def busy(cluster: Cluster, application: str) -> list[int]:
    """Return an application's executors whose Python runs tasks, by the ids of their JVMs.

    Those of the application before may not have ended yet.
    """
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            its_own = (folder / "cwd").readlink().is_relative_to(cluster.directory / "work" / application)
            if its_own and b"aqueduct.work.daemon" in (folder / "cmdline").read_bytes():
                found.add(int((folder / "stat").read_text().split()[3]))
    return sorted(found)


@pytest.fixture(scope="module")
def wrong(
    cluster: Cluster, brokers: list[Broker], topic: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    """Return how backups ended that can't begin, by what is wrong."""
    defaults = (cluster.directory / "conf/spark-defaults.conf").read_text()
    changes = {
        "another secret": defaults.replace(SECRET, "another"),
        "no secret": "",
        "driver": f"{defaults}spark.driver.host 203.0.113.7\nspark.driver.bindAddress 127.0.0.1\n",
    }
    options = {
        "master": ("--wait", "5s"),
        "driver": ("--wait", "150s"),
        "cores": ("--conf", "spark.executor.memory=90g", "--wait", "30s"),
    }
    commands = {}
    for name in (*changes, *options):
        folder = tmp_path_factory.mktemp("wrong")
        (folder / "spark-defaults.conf").write_text(changes.get(name, defaults))
        reached = ("--bootstrap-servers", brokers[0].plaintext, "--topics", topic)
        url = ABSENT if name == "master" else cluster.url
        store = ("--store", f"file://{folder}/store", "--master", url)
        command = aqueduct("backup", *reached, *store, *options.get(name, ()))
        commands[name] = command, {"SPARK_CONF_DIR": str(folder)}
    return drivers.ended_all(cluster, commands)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("another secret", "refuses this host: both need the same spark.authenticate.secret"),
        ("no secret", "refuses this host: both need the same spark.authenticate.secret"),
        ("driver", "started executors which ended at once. They must reach this driver at 203.0.113.7:"),
        ("cores", "gave no executor within 30 s: see that its workers have free cores"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    cluster: Cluster, wrong: dict[str, Run], what: str, sentence: str
) -> None:
    assert wrong[what].code == 1
    assert wrong[what].last.startswith(f"aqueduct: {cluster.url} {sentence}"), wrong[what].page
    assert "Traceback" not in wrong[what].page


def test_a_master_that_does_not_answer(wrong: dict[str, Run]) -> None:
    assert wrong["master"].code == 1
    assert wrong["master"].last == (
        f"aqueduct: {ABSENT} does not answer: see that it runs, and that this host reaches its port."
    )


def test_waiting_for_resources_is_told(cluster: Cluster, wrong: dict[str, Run]) -> None:
    assert f"Waiting for resources of {cluster.url}, for 10 s" in wrong["cores"].page


def test_a_cluster_that_loses_all_workers(cluster: Cluster, backup: list[str]) -> None:
    patient = ["--wait", "30s", *SLOWLY]
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *patient))
    executors = busy(cluster, application(working(process)))
    try:
        for worker in cluster.workers:
            worker.kill()
        for executor in executors:
            with suppress(ProcessLookupError):  # it ends by itself, too
                os.kill(executor, signal.SIGKILL)
        run = ended(process)
    finally:
        for worker in cluster.workers:
            worker.start()
    assert run.code == 1
    assert f"Waiting for resources of {cluster.url}\n" in run.page
    assert f"aqueduct: {cluster.url} has had no executor for this application for " in run.last


def test_the_driver_that_is_killed_runs_again(
    cluster: Cluster, backup: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *SLOWLY))
    working(process)
    process.kill()
    process.wait()
    done(start(cluster, aqueduct(*backup, "--master", cluster.url)))
    verified(tmp_path, capsys)
