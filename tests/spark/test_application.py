"""The fate of a task's result and of its failure."""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from aqueduct.errors import Failed
from aqueduct.work.options import SparkOptions
from aqueduct.work.runner import Runner
from aqueduct.work.spark import application


@pytest.fixture(scope="module")
def run() -> Iterator[Runner]:
    with application("test", SparkOptions("local[2]"), Counter()) as runner:
        yield runner


def test_results_are_in_order(run: Runner) -> None:
    def square(number: int) -> tuple[int, int]:
        return number * number, os.getpid()

    results = run(square, range(20))
    assert [result for result, _ in results] == [number * number for number in range(20)]
    assert os.getpid() not in {process for _, process in results}
    assert run(square, []) == []


def test_workers_are_forked_with_what_tasks_need(run: Runner) -> None:
    def daemon(_: int) -> str:
        return Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")

    assert all("-m aqueduct.work.daemon pyspark.worker" in each for each in run(daemon, range(4)))

    def loaded(_: int) -> bool:
        return "aqueduct.errors" in sys.modules and gc.get_freeze_count() > 10_000

    assert run(loaded, range(4)) == [True] * 4


def test_a_tasks_sentence_arrives_whole(run: Runner) -> None:
    def fail(number: int) -> int:
        if number == 2:
            raise Failed(f"Number {number} broke.")
        return number

    with pytest.raises(Failed, match=r"^Number 2 broke\.$"):
        run(fail, range(4))


def test_a_worker_that_dies_is_a_sentence(run: Runner) -> None:
    def die(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Failed, match=r"^Spark gave up: Job aborted .* Python worker exited unexpectedly"):
        run(die, [0])


def test_a_mistake_of_ours_keeps_its_traceback(run: Runner) -> None:
    with pytest.raises(Py4JJavaError, match="ZeroDivisionError"):
        run(lambda number: 1 // number, [0])


def test_spark_that_does_not_start() -> None:
    """Start Spark in a process of its own, because its JVM stays once it has started."""
    program = (
        "from aqueduct.errors import Failed; from aqueduct.work.options import SparkOptions\n"
        "from aqueduct.work.spark import application\n"
        "try: application('test', SparkOptions('bogus'), {}).__enter__()\n"
        "except Failed as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Spark does not start: ")
    assert "Master must either be yarn or start with" in run.stdout
    assert run.stderr == ""
