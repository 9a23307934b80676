"""Executors, workers and drivers that are killed, hang or come late, and what an application makes of it."""

import json
import os
import signal
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from drivers import RECORDS, Process, aqueduct, done, ended, start, until
from kit import clients

from aqueduct import cli
from servers.spark import Cluster

SLOWLY = ("--rate-limit-bytes", "60000")  # 20 s, so that it isn't done before a fault on a busy machine
TRY = """
import sys
from aqueduct.work import session
from aqueduct.work.spark_usage import SparkFigures
from aqueduct.work.options import SparkOptions
from aqueduct.work.spark import application
both = {"spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
with application("try", SparkOptions(sys.argv[1], both), SparkFigures()) as found:
    print([executor.ended > 0 for executor in session.executors(found._context)])
"""


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


def test_executor_that_accepts_tasks_late_is_also_tried(cluster: Cluster, tmp_path: Path) -> None:
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
    os.kill(at_work(cluster, page)[0], signal.SIGKILL)
    done(process)
    verified(tmp_path, capsys)
    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(each["records"] for each in report["partitions"]) == 4 * RECORDS


def test_hung_worker_that_resumes_adds_no_objects(
    cluster: Cluster, backup: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its task was given to another one meanwhile: both write the same objects, and nothing else."""
    soon = ["--conf", "spark.network.timeout=8s", "--conf", "spark.network.timeoutInterval=1s"]
    soon += ["--conf", "spark.executor.heartbeatInterval=1s"]
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *SLOWLY, *soon))
    page = working(process)
    hung = at_work(cluster, page)[0]
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


def at_work(cluster: Cluster, page: str) -> list[int]:
    """Return the same once there are some."""
    found: list[int] = clients.wait_for("a task at work", lambda: busy(cluster, application(page)))
    return found


def test_a_cluster_that_loses_all_workers(cluster: Cluster, backup: list[str]) -> None:
    patient = ["--wait", "30s", *SLOWLY]
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *patient))
    executors = at_work(cluster, working(process))
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
    assert (
        f"aqueduct: [spark-executors-missing] {cluster.url} has had no executor for this application for "
        in run.last
    )


def test_the_driver_that_is_killed_runs_again(
    cluster: Cluster, backup: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *SLOWLY))
    working(process)
    process.kill()
    process.wait()
    done(start(cluster, aqueduct(*backup, "--master", cluster.url)))
    verified(tmp_path, capsys)
