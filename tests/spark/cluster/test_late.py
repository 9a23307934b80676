"""Executors that come late, or never: a command waits for those that were asked for, up to Spark's limit."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from drivers import aqueduct, done, ended, start, until
from kit import clients

from aqueduct.work.spark import COMPARISON
from servers.spark import Cluster

BOTH = ("--conf", "spark.cores.max=2")


@pytest.fixture
def event_log(tmp_path: Path) -> list[str]:
    """Return the options by which an application logs its tasks into a folder of the test."""
    (tmp_path / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return [option for key, value in settings.items() for option in ("--conf", f"{key}={value}")]


def tasks(tmp_path: Path) -> Counter[str]:
    """Return the number of the command's own tasks by executor, from the log of its application."""
    (log,) = (tmp_path / "events").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    jobs = [each for each in events if each["Event"] == "SparkListenerJobStart"]
    own = {
        stage
        for job in jobs
        if job["Properties"].get("spark.job.description") != COMPARISON
        for stage in job["Stage IDs"]
    }
    ends = [each for each in events if each["Event"] == "SparkListenerTaskEnd"]
    return Counter(each["Task Info"]["Executor ID"] for each in ends if each["Stage ID"] in own)


@contextmanager
def away(cluster: Cluster) -> Iterator[None]:
    """Have one worker less, until the end at the latest."""
    worker = cluster.workers[1]
    worker.kill()
    clients.wait_for("the master to lose the worker", lambda: alive(cluster) == 1)
    try:
        yield
    finally:
        if alive(cluster) == 1:
            worker.start()
            clients.wait_for("the worker", lambda: alive(cluster) == 2)


def alive(cluster: Cluster) -> int:
    return sum(each["state"] == "ALIVE" for each in cluster.state()["workers"])


def executor(cluster: Cluster, number: str, before: set[Path]) -> int | None:
    """Return the process of an executor of an application that is not among those before."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            here = (folder / "cwd").readlink()
            its_own = here.is_relative_to(cluster.directory / "work") and here.parent not in before
            if its_own and here.name == number and (folder / "exe").readlink().name == "java":
                return int(folder.name)
    return None


def test_worker_that_starts_late_gets_tasks(
    cluster: Cluster, backup: list[str], event_log: list[str], tmp_path: Path
) -> None:
    with away(cluster):
        process = start(cluster, aqueduct(*backup, "--master", cluster.url, *BOTH, *event_log))
        until(process, f"Waiting for more executors of {cluster.url}")
        cluster.workers[1].start()
        assert f"Working on Spark at {cluster.url}, 2 executors" in done(process)
    assert tasks(tmp_path).keys() == {"0", "1"}


def test_executor_that_starts_late_gets_tasks(
    cluster: Cluster, backup: list[str], event_log: list[str], tmp_path: Path
) -> None:
    """The master has launched it, and its JVM takes longer than the other one's."""
    before = {*(cluster.directory / "work").glob("app-*")}
    process = start(cluster, aqueduct(*backup, "--master", cluster.url, *event_log))
    late = clients.wait_for("an executor", lambda: executor(cluster, "1", before), 150)
    os.kill(late, signal.SIGSTOP)
    try:
        for _ in range(2):
            until(process, f"Waiting for executors of {cluster.url}: 1 of 2")
    finally:
        os.kill(late, signal.SIGCONT)
    assert f"Working on Spark at {cluster.url}, 2 executors" in done(process)
    assert tasks(tmp_path).keys() == {"0", "1"}


def test_executor_that_never_comes_is_done_without(
    cluster: Cluster, backup: list[str], event_log: list[str], tmp_path: Path
) -> None:
    with away(cluster):
        run = ended(start(cluster, aqueduct(*backup, "--master", cluster.url, *BOTH, *event_log)))
    assert run.code == 0, run.page
    assert f"Waiting for more executors of {cluster.url}" in run.page
    assert f"Working on Spark at {cluster.url}, 1 executor " in run.page
    assert tasks(tmp_path).keys() == {"0"}
