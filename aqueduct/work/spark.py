"""A Spark application that distributes a plain function over small descriptions."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import cast

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext

from aqueduct import job_files
from aqueduct.errors import Failed
from aqueduct.job_files import JobFiles
from aqueduct.wording import count
from aqueduct.work import environment, options, reasons, session
from aqueduct.work.options import SparkOptions
from aqueduct.work.runner import D, R

PROGRESS_SECONDS = 10.0


class Application:
    """A Spark application that runs plain functions, a task for each description."""

    def __init__(self, context: SparkContext, hosts: Counter[str]) -> None:
        """Keep the context, and what counts the tasks that ended by host."""
        self._context = context
        self._hosts = hosts

    def __call__(self, function: Callable[[D], R], descriptions: Sequence[D]) -> list[R]:
        """Return the results, in order; Failed if a call ended with it."""
        with self._files() as files:

            def job() -> list[tuple[str, R | Failed]]:
                tasks = self._context.parallelize(descriptions, max(1, len(descriptions)))
                return tasks.map(partial(_attempt, function, files)).collect()

            results = _wait(self._context, job, len(descriptions))
        self._hosts.update(host for host, _ in results)
        for _, result in results:
            if isinstance(result, Failed):
                raise result
        return [cast(R, result) for _, result in results]

    def _files(self) -> AbstractContextManager[JobFiles | None]:
        """Collect what tasks need; of a master on this host they find it where it is."""
        return nullcontext() if self._here else job_files.packed()

    @property
    def _here(self) -> int:
        return options.local_cores(str(self._context.master))

    @property
    def cores(self) -> int:
        """The number of tasks that run at once on the executors that are there now."""
        if self._here:
            return self._here
        per_task = int(self._context.getConf().get("spark.task.cpus", "1"))
        return max(1, sum(each.cores for each in session.executors(self._context)) // per_task)

    @property
    def ended(self) -> bool:
        """Whether the cluster or the JVM has lost it: another one must be started."""
        return not session.alive(self._context)

    def __str__(self) -> str:
        """Say where the work is done."""
        if self._here:
            return f"on Spark, {count(self._here, 'core')} of this host"
        found = session.executors(self._context)
        hosts = count(len({executor.host for executor in found}), "host")
        said = f"on Spark at {self._context.master}, {count(len(found), 'executor')} on {hosts}"
        return f"{said}; {self._context.uiWebUrl}" if self._context.uiWebUrl else said


@contextmanager
def application(name: str, asked: SparkOptions, hosts: Counter[str]) -> Iterator[Application]:
    """Yield an application that counts tasks by host; Failed if Spark does not start, or has no executor."""
    with session.session(name, asked) as context:
        started = Application(context, hosts)
        if not options.local_cores(str(context.master)):
            _try_workers(context, started.cores)
        yield started


def _try_workers(context: SparkContext, cores: int) -> None:
    """Run an idle task on each core, before any that writes; Failed if workers can't run ours."""
    # A lambda, because another version of this module may not be one that workers can import.
    tasks = context.parallelize(range(cores), cores).map(lambda _: environment.fingerprint())
    if {*_wait(context, tasks.collect, cores)} != {environment.fingerprint()}:
        raise Failed(reasons.OTHER_VERSION)


def _attempt(function: Callable[[D], R], files: JobFiles | None, description: D) -> tuple[str, R | Failed]:
    """Return the host and the result, or an error with a sentence.

    Raised, it would come back as the text of a traceback.
    """
    host = os.uname().nodename
    try:
        if files:
            files.unpack()
        return host, function(description)
    except Failed as error:
        return host, error


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
            said = str(error.java_exception.getMessage())
            if not options.local_cores(str(context.master)) and (reason := reasons.reason(said)):
                raise Failed(reason) from None
            if "PythonException" in said or "[PYTHON_EXCEPTION]" in said:
                raise  # a mistake of ours: the traceback is what helps
            if not session.alive(context):
                said = f"{context.master} has lost this application; its log says why."
            raise Failed(f"Spark gave up: {said.splitlines()[0]}") from None
        except (Py4JError, OSError):
            raise Failed("Spark's JVM on this host has died; run the command again: it goes on.") from None
