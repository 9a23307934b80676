"""The fate of a task's result and of its failure."""

import gc
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import clients
from kit.identifiers import raises
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from aqueduct.errors import Failed
from aqueduct.work import jvm, progress
from aqueduct.work.options import SparkOptions
from aqueduct.work.progress import MEGABYTE, Size
from aqueduct.work.runner import Runner
from aqueduct.work.spark import application
from aqueduct.work.spark_usage import SparkFigures
from servers.process import free_ports
from servers.spark import HOME


@pytest.fixture(scope="module")
def run() -> Iterator[Runner]:
    with application("test", SparkOptions("local[2]"), SparkFigures()) as runner:
        yield runner


def test_results_are_in_order(run: Runner) -> None:
    def square(number: int) -> tuple[int, int]:
        return number * number, os.getpid()

    results = run(square, range(20))
    assert [result for result, _ in results] == [number * number for number in range(20)]
    assert os.getpid() not in {process for _, process in results}
    assert run(square, []) == []


def test_it_is_told_how_far_they_are(
    run: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.2)

    def work(seconds: int) -> None:
        time.sleep(seconds)

    size = Size("MB", lambda seconds: MEGABYTE * (seconds + 1), MEGABYTE)
    run(work, [0, 0], size)  # what an earlier job did is not in a later one's
    run(work, [0, 6, 0], size)
    told = capsys.readouterr().err
    line = r"^2 of 3 tasks done, 2 of 9 MB, [\d,.]+ per \w+, about \d+ s left$"
    assert re.search(line, told, re.MULTILINE), told


def test_workers_are_forked_with_what_tasks_need(run: Runner) -> None:
    def daemon(_: int) -> str:
        return Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")

    assert all("-m aqueduct.work.daemon pyspark.worker" in each for each in run(daemon, range(4)))

    def loaded(_: int) -> bool:
        return "aqueduct.errors" in sys.modules and gc.get_freeze_count() > 10_000

    assert run(loaded, range(4)) == [True] * 4


def test_tasks_reuse_the_memory_of_buffers(run: Runner) -> None:
    """The kernel clears each page that a process gets: a fault. Buffers of 4 MiB have 1,024 pages each."""

    def faults(_: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(100):
            bytearray((4 << 20) + 1000)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert max(run(faults, range(4))) < 10 * 1024


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

    with raises(Failed, "spark-job-failed", "Job aborted", "Python worker exited unexpectedly"):
        run(die, [0])


def test_a_mistake_of_ours_keeps_its_traceback(run: Runner) -> None:
    def inverse(number: int) -> int:
        return 1 // number

    # Once there was a session of SQL in this process, PySpark makes the second of the first.
    with pytest.raises((Py4JJavaError, CapturedException), match="ZeroDivisionError"):
        run(inverse, [0])


def test_lost_jvm_of_spark_submit_is_reported(tmp_path: Path) -> None:
    """Ask for a JVM that is gone, as a process that outlived spark-submit."""
    (port,) = free_ports(1)
    gone = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": "any"}
    command = [sys.executable, "-m", "aqueduct.cli", "verify", "--store", f"file://{tmp_path}"]
    run = subprocess.run(command, env={**os.environ, **gone}, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == (
        "aqueduct: [spark-job-failed] Spark's JVM on this host ended unexpectedly. Run the command again to "
        "resume its work.\n"
    )


def test_jvm_death_between_spark_jobs_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "import os\n"
        "from aqueduct.errors import Failed\n"
        "from aqueduct.work.workers import Workers\n"
        "def size(number: int) -> int: return abs(number)\n"
        "with Workers('test') as workers:\n"
        "    assert workers.parallel(None)(size, [-1]) == [1]\n"
        "    os.kill(os.getppid(), 9)\n"
        "    try: workers.parallel(None)(size, [-1])\n"
        f"    except Failed as error: open('{tmp_path}/said', 'w').write(str(error))\n"
    )
    command = [str(HOME / "bin/spark-submit"), "--master", "local[1]", "--driver-java-options", jvm.LIGHT]
    said = tmp_path / "said"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([*command, str(program)], env=environment, capture_output=True)
    clients.wait_for("the end of the driver", lambda: said.exists() and said.read_text())
    assert said.read_text().startswith("Spark's JVM on this host ended unexpectedly")


def test_spark_that_does_not_start() -> None:
    """Start Spark in a process of its own, because its JVM stays once it has started."""
    program = (
        "from aqueduct.errors import Failed; from aqueduct.work.options import SparkOptions\n"
        "from aqueduct.work.spark import application\n"
        "try: application('test', SparkOptions('bogus'), {}).__enter__()\n"
        "except Failed as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Cannot start Spark: ")
    assert "Master must either be yarn or start with" in run.stdout
    assert run.stderr == ""
