"""The work that Spark does, and each task's part of a limit; Spark itself: tests/spark."""

import os
import re
import time
from threading import Barrier, Event

import pytest

from aqueduct.errors import Failed
from aqueduct.work import progress
from aqueduct.work.options import SparkOptions
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.runner import THREADS, Runner, here, threads
from aqueduct.work.workers import SPARK_OFFSETS, Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


def test_little_work_is_done_here() -> None:
    with Workers("test") as workers:
        assert workers.many(SPARK_OFFSETS) == 0
        assert workers.runner(SPARK_OFFSETS) is here
        assert workers.parallel(SPARK_OFFSETS) is threads
        assert workers.many(SPARK_OFFSETS + 1) == 4


@pytest.mark.parametrize(
    ("master", "offsets", "tasks"),
    [
        (None, 1, THREADS),
        (None, SPARK_OFFSETS, THREADS),
        (None, SPARK_OFFSETS + 1, 4),
        ("local[*]", 1, 4),
        ("local", 1, 1),
        ("local[2]", 1, 2),
        ("local[8]", 1, 8),
        ("local[3,2]", 1, 3),
        ("local[*,2]", 1, 4),
    ],
)
def test_tasks_share_a_limit(master: str | None, offsets: int, tasks: int) -> None:
    with Workers("test", SparkOptions(master)) as workers:
        assert workers.per_task(1000, offsets) == 1000 / tasks
        assert workers.per_task(None, offsets) is None


def test_threads_run_at_the_same_time_and_give_results_in_order() -> None:
    together = Barrier(THREADS)

    def square(number: int) -> int:
        together.wait(10)
        return number * number

    assert threads(square, range(THREADS * 3)) == [number * number for number in range(THREADS * 3)]


def test_what_was_not_begun_when_a_thread_fails_is_not_begun() -> None:
    begun, failed = set[int](), Event()

    def work(number: int) -> None:
        begun.add(number)
        if number == 0:
            failed.set()
            raise Failed("It broke.")
        failed.wait(10)
        time.sleep(0.005)

    with pytest.raises(Failed, match=r"^It broke\.$"):
        threads(work, range(1000))
    assert len(begun) < 1000


@pytest.mark.parametrize("run", [here, threads])
def test_it_is_told_how_far_they_are(
    run: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.01)
    never = Event()
    run(
        lambda number: never.wait(number / 10),
        range(1, 4),
        Size("MB", lambda number: number * MEGABYTE, MEGABYTE),
    )
    assert re.search(
        r"^[12] of 3 tasks done, [1-3] of 6 MB, about \d+ s left$", capsys.readouterr().err, re.MULTILINE
    )


def test_many_things_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0)
    assert list(progress.counted(range(1000), "znode")) == list(range(1000))
    assert re.search(r"^500 of 1,000 znodes done, about \d+ s left$", capsys.readouterr().err, re.MULTILINE)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (5_340, "89 min"), (7_800, "2 h 10 min")]
)
def test_a_time_is_told_in_a_unit_or_two(seconds: float, said: str) -> None:
    assert progress.duration(seconds) == said


def test_each_report_has_the_tasks_since_the_last_one() -> None:
    with Workers("test") as workers:
        workers.figures.tasks.update(["one", "one", "other"])
        assert workers.ran() == {"tasks": {"one": 2, "other": 1}}
        workers.figures.tasks.update(["one"])  # by an application that a service keeps
        assert workers.ran() == {"tasks": {"one": 1}}
