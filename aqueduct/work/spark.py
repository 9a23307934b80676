"""A Spark application that distributes a plain function over small descriptions."""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import IO, cast

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from aqueduct.errors import Failed
from aqueduct.wording import count
from aqueduct.work import daemon
from aqueduct.work.runner import D, R, Runner

PROGRESS_SECONDS = 10.0
# Of glibc in the workers: what a thread gives back goes to the next one, and what is large to the system.
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
SHARED = ("aqueduct.", "boto3.", "botocore.")  # modules: what tasks need


@contextmanager
def application(name: str, master: str) -> Iterator[Runner]:
    """Yield a Runner with a task for each description. `master` is Spark's, such as local[*]."""
    context = _start(name, master)

    def run(function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        def job() -> list[R | Failed]:
            tasks = context.parallelize(descriptions, max(1, len(descriptions)))
            return tasks.map(partial(_attempt, function)).collect()

        results = _wait(context, job, len(descriptions))
        for result in results:
            if isinstance(result, Failed):
                raise result
        return cast(list[R], results)

    try:
        yield run
    finally:
        context.stop()


def _attempt(function: Callable[[D], R], description: D) -> R | Failed:
    """Return the result, or an error with a sentence.

    Raised, it would come back as the text of a traceback.
    """
    try:
        return function(description)
    except Failed as error:
        return error


def _wait(context: SparkContext, job: Callable[[], R], tasks: int) -> R:
    """Run the job in another thread: this one tells progress, and Ctrl-C can't hurt py4j here."""
    with ThreadPoolExecutor(1) as working:
        result = working.submit(job)
        try:
            while not wait([result], PROGRESS_SECONDS).done:
                tracker = context.statusTracker()
                stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
                done = sum(stage.numCompletedTasks for stage in stages)
                print(f"{done} of {count(tasks, 'task')} done", file=sys.stderr)
            return result.result()
        except KeyboardInterrupt:
            context.cancelAllJobs()
            raise
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage())
            if "PythonException" in reason:
                raise  # a mistake of ours: the traceback is what helps
            if context._jsc.sc().isStopped():
                reason = f"the master {context.master} does not answer any more, or never did."
            raise Failed(f"Spark gave up: {reason.splitlines()[0]}") from None


def _start(name: str, master: str) -> SparkContext:
    """Start Spark.

    The JVM's stderr, its log and its workers', goes nowhere but into our sentence if it does not start.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.python.daemon.module": daemon.__name__,
        # The JVM lives for seconds and moves no data: compile little, collect garbage in one thread.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    }
    if master.startswith("local"):
        # Needs no name of this host, and is reached by nobody else.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf = SparkConf().setAppName(name).setMaster(master).setAll(list(settings.items()))
    with tempfile.TemporaryFile("w+") as log:
        try:
            with _uninterrupted(), _stderr(log):
                context = SparkContext(conf=conf)
        except (Py4JError, PySparkException) as error:
            log.seek(0)
            lines = log.read().splitlines() or [str(error)]
            reason = next((line for line in lines if "xception" in line or "rror" in line), lines[-1])
            raise Failed(f"Spark does not start: {reason}") from None
    # Who distributes a function has loaded what it needs.
    loaded = (name for name in sys.modules if name.startswith(SHARED) and not name.startswith("aqueduct.cli"))
    context.environment |= MALLOC | {daemon.MODULES: ",".join(loaded)}
    return context


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C: a JVM that loses its parent while it starts would stay for ever (Spark 4.0.0)."""
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted.is_set():
            raise KeyboardInterrupt


@contextmanager
def _stderr(log: IO[str]) -> Iterator[None]:
    """Make processes that are started meanwhile write their stderr to the file."""
    ours = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
