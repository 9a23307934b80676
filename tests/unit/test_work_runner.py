"""The work that Spark does, and each task's part of a limit; Spark itself: tests/spark."""

import math
import os
import re
import time
from dataclasses import replace
from threading import Barrier, Event

import pytest

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka.client_config import End
from aqueduct.work import progress, sampling
from aqueduct.work.crossover import GB, Verb, Work, crossover
from aqueduct.work.options import SparkOptions
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.runner import THREADS, Runner, here, threads
from aqueduct.work.workers import Workers


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


LEAST = int(crossover(Verb.EXPORT, 4))
LITTLE, MUCH = Work(Verb.EXPORT, LEAST), Work(Verb.EXPORT, LEAST + 1)


def test_spark_does_what_it_ends_sooner() -> None:
    with Workers("test") as workers:
        assert workers.many(LITTLE) == workers.many(None) == 0
        assert workers.runner(LITTLE) is here
        assert workers.parallel(LITTLE) is workers.parallel(None) is threads
        assert workers.many(MUCH) == 4
        assert workers.many(replace(MUCH, tasks=4)) == 4
        assert workers.many(replace(MUCH, tasks=3)) == 0  # a core would have nothing to do


def test_size_is_asked_for_only_where_it_decides() -> None:
    with Workers("test") as workers:
        assert workers.depends_on_size(MUCH)
        assert not workers.depends_on_size(LITTLE)
    with Workers("test", SparkOptions("local[2]")) as workers:
        assert not workers.depends_on_size(MUCH)
        assert workers.many(Work(Verb.EXPORT, 0)) == workers.many(None) == 2


def test_ranges_that_cannot_be_enough_are_not_sampled() -> None:
    nowhere = End("source", "127.0.0.1:1")
    with Workers("test") as workers:
        few = [Range("t", 0, 0, LEAST // sampling.LARGEST_RECORD)]
        assert sampling.reading(Verb.EXPORT, nowhere, few, workers) == Work(Verb.EXPORT, 0)


@pytest.mark.parametrize("verb", Verb)
def test_crossover_falls_with_cores(verb: Verb) -> None:
    sizes = [crossover(verb, cores) for cores in (1, 2, 4, 8, 16, 32)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == math.inf  # with one core Spark gains nothing
    assert sizes[-1] < 10 * GB
    assert crossover(verb, 32, started=True) < sizes[-1]


@pytest.mark.parametrize(
    ("master", "work", "tasks"),
    [
        (None, LITTLE, THREADS),
        (None, MUCH, 4),
        ("local[*]", LITTLE, 4),
        ("local", LITTLE, 1),
        ("local[2]", LITTLE, 2),
        ("local[8]", LITTLE, 8),
        ("local[3,2]", LITTLE, 3),
        ("local[*,2]", LITTLE, 4),
    ],
)
def test_tasks_share_a_limit(master: str | None, work: Work, tasks: int) -> None:
    with Workers("test", SparkOptions(master)) as workers:
        assert workers.per_task(1000, work) == 1000 / tasks
        assert workers.per_task(None, work) is None


@pytest.mark.parametrize(("total", "size"), [(0, 10), (600, 100), (10_000, 500)])
def test_task_size_lets_all_cores_end_together(total: int, size: int) -> None:
    with Workers("test", SparkOptions("local[2]")) as workers:
        assert workers.task_size(total, (10, 500), MUCH) == size


def test_threads_run_concurrently_and_return_ordered_results() -> None:
    together = Barrier(THREADS)

    def square(number: int) -> int:
        together.wait(10)
        return number * number

    assert threads(square, range(THREADS * 3)) == [number * number for number in range(THREADS * 3)]


def test_failed_thread_prevents_start_of_remaining_work() -> None:
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
        r"^[12] of 3 tasks done, [1-3] of 6 MB, [\d,.]+ per \w+, about \d+ s left$",
        capsys.readouterr().err,
        re.MULTILINE,
    )


def test_many_things_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0)
    assert list(progress.counted(range(1000), "znode")) == list(range(1000))
    line = r"^500 of 1,000 znodes done, [\d,.]+ per \w+, about \d+ s left$"
    assert re.search(line, capsys.readouterr().err, re.MULTILINE)


def test_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 8.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    job = progress.Progress([10 * MEGABYTE] * 4, Size("MB", lambda size: size, MEGABYTE))
    job.tell(1, 10 * MEGABYTE)
    assert capsys.readouterr().err == ("1 of 4 tasks done, 10 of 40 MB, 1.2 per second, about 24 s left\n")


def test_the_first_line_comes_after_five_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    counter = progress.Counter("offset")
    for seconds in range(13):
        clock[0] = float(seconds)
        counter(seconds * 1000, 20_000)
    counter.end()
    assert capsys.readouterr().err.splitlines() == [
        "6,000 of 20,000 offsets done, 1,000 per second, about 14 s left",
        "12,000 of 20,000 offsets done, 1,000 per second, about 8 s left",
    ]


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0.02, "1.2 per minute"),
        (1.25, "1.2 per second"),
        (9.94, "9.9 per second"),
        (9.96, "10 per second"),
        (1234.5, "1,234 per second"),
    ],
)
def test_rates(per_second: float, text: str) -> None:
    assert progress.rate(per_second) == text


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (5_340, "89 min"), (7_800, "2 h 10 min")]
)
def test_duration_has_one_or_two_units(seconds: float, said: str) -> None:
    assert progress.duration(seconds) == said


def test_each_report_counts_tasks_since_previous_report() -> None:
    with Workers("test") as workers:
        workers.figures.tasks.update(["one", "one", "other"])
        assert workers.ran() == {"tasks": {"one": 2, "other": 1}}
        workers.figures.tasks.update(["one"])  # by an application that a service keeps
        assert workers.ran() == {"tasks": {"one": 1}}
