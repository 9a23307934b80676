"""A Spark application that distributes a plain function over small descriptions."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, Accumulator, SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession

from aqueduct.common import job_files
from aqueduct.common.job_files import JobFiles
from aqueduct.common.strict_json import Unreadable
from aqueduct.common.wording import count
from aqueduct.errors import AqueductError, Failed
from aqueduct.work import environment, options, progress, results, session, spark_errors, updates
from aqueduct.work.options import SparkOptions
from aqueduct.work.progress import TASKS, Progress, Size
from aqueduct.work.runner import D, R
from aqueduct.work.spark_usage import SparkFigures

T = TypeVar("T")
Tick = Callable[[int], None]
# Settings with the URL of the history server: ours for a standalone cluster, Spark's for YARN.
HISTORY = ("spark.aqueduct.historyServer.address", "spark.yarn.historyServer.address")
COMPARISON = "Compare what workers have"  # description of the job that compares versions


INVALID = (
    "Aqueduct did not use the result. An executor may be compromised. Check the hosts of the cluster. If one "
    "is compromised, replace the secret of the cluster."
)


def collected(returned: "RDD[bytes]") -> list[bytes]:
    """Return the bytes that tasks returned, without unpickling them as `RDD.collect` does."""
    return returned._reserialize(NoOpSerializer()).collect()


def _nothing() -> None:
    pass


class Application:
    """A Spark application that runs plain functions, with one task for each description."""

    def __init__(self, context: SparkContext, figures: SparkFigures, patience: float) -> None:
        """Store the arguments. `patience`: seconds to wait if the application has no executor."""
        self._context = context
        self._figures = figures
        self._patience = patience
        # Completed tasks and their work, for all jobs, because PySpark never frees an accumulator.
        self._ended, self._done = context.accumulator(0), context.accumulator(0)

    def __call__(
        self, function: Callable[[D], R], descriptions: Sequence[D], size: Size[D] | None = TASKS
    ) -> list[R]:
        """Return the results in order. The first error of a call is raised."""
        self._figures.executors = 0 if self._here else len(session.executors(self._context))
        watched = Progress(descriptions, size)
        with self._files() as files:
            attempt = partial(_attempt, function, environment.OWN_CODE, files, self._ended, self._done)

            def job() -> list[bytes]:
                sized = [(description, size.of(description) if size else 0) for description in descriptions]
                return collected(self._context.parallelize(sized, max(1, len(sized))).map(attempt))

            returned = self._watch(job, watched)
        return self.read(results.result_type(function), returned, len(descriptions))

    def read(self, hint: Any, returned: Sequence[bytes], tasks: int) -> list[Any]:
        """Return the results of tasks. Raise their first error; Failed if a result is not valid."""
        try:
            if len(returned) != tasks:
                raise Unreadable(f"{tasks} tasks returned {len(returned)} results")
            host_results = [results.loads(hint, payload or b"") for payload in returned]
        except Unreadable as error:
            raise self._invalid(str(error)) from None
        self._figures.tasks.update(host for host, _ in host_results)
        for _, result in host_results:
            if isinstance(result, AqueductError):
                raise result
        return [result for _, result in host_results]

    def _invalid(self, reason: str) -> Failed:
        return Failed(
            "spark-result-invalid",
            f"A task of {self._context.master} returned an invalid result: {reason}. {INVALID}",
        )

    def try_workers(self) -> None:
        """Run empty tasks until each executor has run one; Failed if workers cannot run Aqueduct's tasks.

        An executor registers some seconds before it accepts tasks. Until then, other executors get all tasks.
        The wait ends WAITING_TIME after the last executor registered.
        """
        if self._here:
            return
        seen_ids, since = set[str](), time.monotonic()
        limit_seconds = session.waiting_seconds(self._context)

        def job() -> set[bytes]:
            self._context.setJobDescription(COMPARISON)
            cores = self.cores
            # A lambda is pickled by value: workers with another version may be unable to import this module.
            tasks = self._context.parallelize(range(cores), cores).map(
                lambda _: environment.OWN_CODE.encode()
            )
            return {*collected(tasks)}

        while self._wait(job) == {environment.OWN_CODE.encode()}:
            executors, now = session.executors(self._context), time.monotonic()
            if (ids := {executor.id for executor in executors}) - seen_ids:
                seen_ids, since = seen_ids | ids, now
            idle = {executor.host for executor in executors if not executor.ended}
            if idle and now - since > limit_seconds:
                print(
                    f"Continuing, although executors on {', '.join(idle)} have not run a task yet",
                    file=sys.stderr,
                )
                return
            if not idle:
                return
            time.sleep(0.2)
        raise Failed("spark-environment-mismatch", spark_errors.OTHER_VERSION)

    def query(
        self,
        job: Callable[[SparkSession, JobFiles, Tick], T],
        settings: Mapping[str, str],
        descriptions: Sequence[D] = (),
        size: Size[D] | None = None,
    ) -> T:
        """Run a job that queries Spark, in a session with these settings, and return its result.

        Its tasks call the job's last argument with the work that they did, in the unit of `size`.
        """
        self._figures.executors = 0 if self._here else len(session.executors(self._context))
        watched = Progress(descriptions, size)
        with self._files() as files:

            def asked() -> T:
                own = SparkSession(self._context).newSession()
                for name, value in settings.items():
                    own.conf.set(name, value)
                return job(own, files, partial(_tick, self._ended, self._done))

            return self._watch(asked, watched)

    def _watch(self, job: Callable[[], T], watched: Progress[D]) -> T:
        """Run the job and show its progress. Failed if a progress update of a task is not valid."""
        ended, work_done = self._ended.value, self._done.value
        try:
            job_result = self._wait(
                job,
                lambda: watched.tell(self._ended.value - ended, self._done.value - work_done),
                watched.end,
            )
        finally:
            watched.end()
        if updates.take_invalid():
            raise self._invalid("its progress update is not a number")
        return job_result

    def _wait(
        self, job: Callable[[], T], tell: Callable[[], None] = _nothing, clear: Callable[[], None] = _nothing
    ) -> T:
        """Run the job in another thread. This thread shows progress, and Ctrl-C cannot interrupt a py4j call.

        Failed if the cluster has no executor for the application for `patience` seconds: Spark itself would
        wait for ever.
        """
        context = self._context
        with session.jvm(), ThreadPoolExecutor(1) as working:
            result = working.submit(job)
            worked = time.monotonic()
            try:
                while not wait([result], progress.SECONDS).done:
                    now = time.monotonic()
                    if self._here or session.executors(context):
                        worked = now
                        tell()
                    elif now - worked < self._patience:
                        clear()
                        progress.note(f"Waiting for resources of {context.master}")
                    else:
                        context.cancelAllJobs()
                        raise Failed(
                            "spark-executors-missing",
                            f"{context.master} has had no executor for this application for "
                            f"{now - worked:.0f} s. Check that its workers run, and run the command again to "
                            "resume its work.",
                        )
                return result.result()
            except KeyboardInterrupt:
                with suppress(Py4JError, OSError):  # Ctrl-C also ends the JVM of spark-submit
                    context.cancelAllJobs()
                raise
            except (Py4JJavaError, CapturedException) as error:
                message = f"{type(error).__name__}: {error}"
                if not isinstance(error, CapturedException):
                    message = str(error.java_exception.getMessage())
                if not self._here and (reason := spark_errors.reason(message)):
                    raise Failed("spark-environment-mismatch", reason) from None
                if "PythonException" in message or "[PYTHON_EXCEPTION]" in message:
                    raise  # a fault of Aqueduct: show the traceback
                if not session.alive(context):
                    message = f"{context.master} ended this application. Its log shows the reason."
                raise Failed("spark-job-failed", f"The Spark job failed: {message.splitlines()[0]}") from None

    def _files(self) -> AbstractContextManager[JobFiles]:
        """Collect the files that tasks need. Tasks on this host read them at their own paths."""
        return nullcontext(job_files.lent_alone()) if self._here else job_files.packed()

    @property
    def _here(self) -> int:
        return options.local_cores(str(self._context.master))

    @property
    def cores(self) -> int:
        """The number of tasks that run at once on the present executors."""
        if self._here:
            return self._here
        per_task = int(self._context.getConf().get("spark.task.cpus", "1"))
        return max(1, sum(executor.cores for executor in session.executors(self._context)) // per_task)

    @property
    def ended(self) -> bool:
        """Whether the application ended, in the cluster or in the JVM: a new one must be started."""
        return not session.alive(self._context)

    def __str__(self) -> str:
        """Describe where the work is done, for the line `Working ...`."""
        if self._here:
            return f"on Spark, {count(self._here, 'core')} of this host"
        executors = session.executors(self._context)
        hosts = count(len({executor.host for executor in executors}), "host")
        phrases = [f"on Spark at {self._context.master}, {count(len(executors), 'executor')} on {hosts}"]
        phrases += [self._context.uiWebUrl] if self._context.uiWebUrl else []
        conf = self._context.getConf()
        logged = conf.get("spark.eventLog.enabled", "false") == "true"
        past = next(filter(None, (conf.get(key) for key in HISTORY)), None) if logged else None
        return "; ".join(phrases + ([f"later at {past}"] if past else []))


@contextmanager
def application(name: str, asked: SparkOptions, figures: SparkFigures) -> Iterator[Application]:
    """Yield an application; Failed if Spark does not start, or has no executor."""
    with session.session(name, asked) as context:
        started = Application(context, figures, asked.executor_seconds)
        started.try_workers()
        figures.sessions += 1
        figures.within_reach += tuple(
            finding for finding in session.within_reach(context) if finding not in figures.within_reach
        )
        yield started


def _attempt(
    function: Callable[[D], R],
    code: str,
    files: JobFiles,
    ended: Accumulator[int],
    work_done: Accumulator[int],
    sized: tuple[D, int],
) -> bytes:
    """Run a task: return its host, and its result or error, as JSON.

    A raised error would reach the driver only as a traceback. `code` is the fingerprint of the driver's code:
    an executor that registered later, or whose host was upgraded, may have another one.
    """
    hint = results.result_type(function)
    try:
        if code != environment.OWN_CODE:
            raise Failed("spark-environment-mismatch", spark_errors.OTHER_VERSION)
        files.unpack()
        description, size = sized
        result = function(description)
        _tick(ended, work_done, size)
        return results.dumps(hint, result)
    except AqueductError as error:
        return results.dumps(hint, error)


def _tick(ended: Accumulator[int], work_done: Accumulator[int], size: int) -> None:
    """Count a completed task and its work."""
    ended.add(1)
    work_done.add(size)
