"""The start of Spark, or the use of the Spark that spark-submit started, and the errors of both."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from py4j.protocol import (  # type: ignore[import-untyped]
    INPUT_CONVERTER,
    Py4JError,
    Py4JJavaError,
)
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException

from aqueduct.common import job_files
from aqueduct.errors import Failed, LeftOut, Refused, Skipped
from aqueduct.work import daemon, options, progress, sandbox, spark_errors, updates
from aqueduct.work.options import SparkOptions

SETTLED_SECONDS = 1.0
# Settings of glibc for workers. With one arena, threads reuse memory that other threads freed. Buffers of
# fetches and decompressed frames are kept: if they were returned to the system, the kernel would clear each
# page again, which needed as much CPU as the rest of a verify. Buffers of whole segments are returned.
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(16 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
}
SHARED = ("aqueduct.", "boto3.", "botocore.")  # prefixes of modules that workers import at their start

# py4j calls its converters for each argument. The numpy converters import pyspark.testing, unittest and
# pandas, which takes half a second, and Aqueduct passes no numpy values to Java.
INPUT_CONVERTER[:] = (
    converter for converter in INPUT_CONVERTER if not type(converter).__name__.startswith("Numpy")
)

JVM_SECONDS = 300.0  # limit for the start of the JVM
_hidden: set[str] = set()  # files that the JVM cannot read

_making = threading.Lock()  # for one context at a time, also while the thread of an abandoned one still runs


@contextmanager
def session(name: str, asked: SparkOptions) -> Iterator[SparkContext]:
    """Yield a Spark context with executors; Failed if Spark does not start, or has no executor in time."""
    with jvm():
        context = _start_context(name, asked)
    try:
        yield context
    finally:
        with suppress(Py4JError, OSError):  # the JVM may have ended
            context.stop()


def _start_context(name: str, asked: SparkOptions) -> SparkContext:
    _forget_dead_jvm()
    with tempfile.TemporaryFile("w+") as log:
        try:
            with _uninterrupted(), _stderr(log):
                _start_jvm(asked)
        except PySparkException as error:
            log.seek(0)
            lines = log.read().splitlines() or [str(error)]
            reason = next((line for line in lines if "xception" in line or "rror" in line), lines[-1])
            raise Failed("spark-start-failed", f"Cannot start Spark: {reason}") from None
        except OSError as error:
            if options.submitted():
                raise  # the JVM of spark-submit ended
            raise Failed("spark-start-failed", f"Cannot start Spark: {error}.") from None
    conf = _settings(name, asked)
    for finding in _within_reach(
        str(conf.get("spark.master"))
    ):  # before an executor could compromise the JVM
        print(f"aqueduct: {finding}", file=sys.stderr, flush=True)
    with _logged() as spark_log:
        context = _create_context(conf, asked, spark_log)
        try:
            if not options.local_cores(str(context.master)):
                _await_executor(context, asked, spark_log)
        except BaseException:
            context.stop()
            raise
    # The driver has imported the modules that its functions need.
    loaded = (name for name in sys.modules if name.startswith(SHARED) and not name.startswith("aqueduct.cli"))
    context.environment |= MALLOC | {daemon.MODULES: ",".join(loaded)}
    return context


class _Jvm(subprocess.Popen[bytes]):
    """The process of the JVM. If it ends with 0 before it answers, PySpark would wait for ever."""

    def poll(self) -> int | None:
        code = super().poll()
        return -signal.SIGKILL if code == 0 else code


def _start_jvm(asked: SparkOptions) -> None:
    """Start the JVM, unless it runs. With executors on other hosts, hide the keys of this process from it."""
    conf = SparkConf(loadDefaults=False).setAll([*options.launch(asked).items()])
    if options.submitted() or SparkContext._gateway:
        SparkContext._ensure_initialized(conf=conf)
        return
    has = options.given(asked)
    _hidden.clear()
    task_files: list[str] = []
    if not options.local_cores(has.get("spark.master", options.LOCAL)):
        scratch = options.scratch(has)
        task_files = [file for file in job_files.fix() if sandbox.hideable(file, scratch)]
        if sandbox.supported():
            _hidden.update(key for key in job_files.kept() if sandbox.hideable(key, scratch))
    late: list[threading.Timer] = []

    def start(*arguments: Any, **more: Any) -> _Jvm:
        begin = partial(_Jvm, *arguments, **more)
        started = sandbox.without(_hidden, begin, task_files) if _hidden else begin()
        late.append(threading.Timer(JVM_SECONDS, started.kill))
        late[0].daemon = True
        late[0].start()
        return started

    java_gateway.Popen = start  # type: ignore[assignment,attr-defined]
    try:
        SparkContext._ensure_initialized(conf=conf)
    finally:
        java_gateway.Popen = subprocess.Popen  # type: ignore[attr-defined]
        for timer in late:
            timer.cancel()


def within_reach(context: SparkContext) -> LeftOut:
    """Return the keys of this process that the JVM can read, and so an executor that compromised it."""
    return _within_reach(str(context.master))


def _within_reach(master: str) -> LeftOut:
    keys = job_files.kept() - _hidden
    if not keys or options.local_cores(master):
        return ()
    if options.submitted():
        reason = "spark-submit started the JVM. Run aqueduct without spark-submit, and pass --master."
    elif not sandbox.supported():
        reason = "the kernel has no Landlock, or does not let this process use it. Use Linux 5.13 or newer."
    else:
        reason = (
            "Spark needs the folder of the key, or the JVM started before. Move the key to a folder that "
            "contains only keys."
        )
    files = ", ".join(sorted(keys))
    subject = f"Spark's JVM, and so a compromised executor, can read {files}"
    return (Skipped(subject, reason.rstrip("."), "spark-key-within-reach"),)


@contextmanager
def jvm() -> Iterator[None]:
    """Guard calls to the JVM; Failed if the JVM has ended."""
    try:
        yield
    except (Py4JError, OSError):
        if _jvm_answers():
            raise
        raise Failed(
            "spark-job-failed",
            "Spark's JVM on this host ended unexpectedly. Run the command again to resume its work.",
        ) from None


def driver_contained() -> bool:
    """Return whether spark-submit started this process in a container of the cluster."""
    if not options.submitted():
        return False
    with jvm():
        SparkContext._ensure_initialized()  # with the JVM of spark-submit
        return bool(SparkConf().get(options.DEPLOY_MODE) == "cluster")


def alive(context: SparkContext) -> bool:
    """Return whether the application still runs, in the cluster and in the JVM."""
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


@dataclass(frozen=True, kw_only=True)
class Executor:
    """An executor of a cluster."""

    id: str
    host: str
    cores: int
    ended: int  # tasks that ended without an error


def executors(context: SparkContext) -> list[Executor]:
    """List the present executors, as Spark's web pages do; Failed if the JVM has ended."""
    with jvm():
        listed = context._jsc.sc().statusStore().executorList(True)
        every = (listed.apply(index) for index in range(listed.size()))
        return [
            Executor(
                id=executor.id(),
                host=executor.hostPort().rpartition(":")[0],
                cores=executor.totalCores(),
                ended=executor.completedTasks(),
            )
            for executor in every
            if executor.id() != "driver"
        ]


def waiting_seconds(context: SparkContext) -> float:
    """Return the longest time in seconds that Spark waits for the requested executors."""
    java: Any = context._jvm
    limit = context.getConf().get(options.WAITING_TIME)
    return float(java.org.apache.spark.network.util.JavaUtils.timeStringAsSec(limit))


def _create_context(conf: SparkConf, asked: SparkOptions, spark_log: Callable[[], str]) -> SparkContext:
    """Create the context in its own thread, because an unreachable master blocks it for a minute."""
    updates.guard()
    made: list[SparkContext | BaseException] = []
    given_up = threading.Event()

    def make() -> None:
        with _making:
            if given_up.is_set():
                return
            try:
                context = SparkContext(conf=conf)
                context.stop() if given_up.is_set() else made.append(context)
            except BaseException as error:
                made.append(error)

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    master = str(conf.get("spark.master"))
    seconds = math.inf if options.local_cores(master) else asked.executor_seconds
    began = reported_at = time.monotonic()
    while maker.is_alive():
        maker.join(0.1)
        now = time.monotonic()
        reason = spark_errors.start(spark_log(), master, "its address")
        if reason is None and now - began > seconds:
            reason = spark_errors.late(spark_log(), master, seconds)
        if reason:
            given_up.set()
            raise Failed("spark-executors-missing", reason)
        if now - reported_at > progress.SECONDS:
            missing = "more executors of " if "Registered executor" in spark_log() else ""
            progress.note(f"Waiting for {missing}{master}, for {now - began:.0f} s")
            reported_at = now
    (context,) = made
    if isinstance(context, Py4JJavaError):
        causes = [*_causes(context)]
        reason = spark_errors.reason("\n".join(causes)) or f"Cannot start Spark: {causes[-1].splitlines()[0]}"
        raise Failed("spark-start-failed", reason) from None
    if isinstance(context, Py4JError | PySparkException | ValueError):
        raise Failed("spark-start-failed", f"Cannot start Spark: {context}") from None
    if isinstance(context, BaseException):
        raise context
    return context


def _causes(error: Py4JJavaError) -> Iterator[str]:
    """Yield the message of an error, then the messages of its causes."""
    cause = error.java_exception
    while cause is not None:
        yield str(cause.getMessage() or cause.toString())
        cause = cause.getCause()


def _await_executor(context: SparkContext, asked: SparkOptions, spark_log: Callable[[], str]) -> None:
    """Wait for the first executor, then up to Spark's limit for the other launched executors."""
    master, seconds = context.master, asked.executor_seconds
    conf = context.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    began = reported_at = time.monotonic()
    while not (registered := executors(context)):
        now = time.monotonic()
        if reason := spark_errors.start(spark_log(), str(master), driver):
            raise Failed("spark-executors-missing", reason)
        if context._jsc.sc().isStopped():
            raise Failed(
                "spark-executors-missing", f"{master} ended this application. Its log shows the reason."
            )
        if now - began > seconds:
            raise Failed("spark-executors-missing", spark_errors.NO_EXECUTOR.format(master, seconds))
        if now - reported_at > progress.SECONDS:
            progress.note(f"Waiting for resources of {master}, for {now - began:.0f} s")
            reported_at = now
        time.sleep(0.1)
    # The number of executors decides the division of the work, so wait for all that the master has launched.
    # If the master does not report a number, wait until no executor has registered for SETTLED_SECONDS.
    first = changed = reported_at = time.monotonic()
    limit_seconds = waiting_seconds(context)
    while (now := time.monotonic()) - first < limit_seconds:
        launched = spark_errors.launched(spark_log())
        if len(registered) >= launched and (launched or now - changed > SETTLED_SECONDS):
            return
        if now - reported_at > progress.SECONDS:
            progress.note(
                f"Waiting for executors of {master}: {len(registered)} of {launched} are registered"
            )
            reported_at = now
        time.sleep(0.1)
        if (more := executors(context)) != registered:
            registered, changed = more, now


def _forget_dead_jvm() -> None:
    """Make PySpark start a new JVM if the JVM of an earlier session has ended."""
    if SparkContext._jvm and not _jvm_answers():
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _jvm_answers() -> bool:
    gateway_jvm = SparkContext._jvm
    try:
        return gateway_jvm is not None and bool(gateway_jvm.java.lang.System.nanoTime())
    except (Py4JError, OSError):
        return False


def _settings(name: str, asked: SparkOptions) -> SparkConf:
    """Return all settings: of spark-submit or spark-defaults.conf, of the command line, and of Aqueduct."""
    conf = SparkConf()
    conf.setAll([*asked.settings.items()])
    if asked.master and conf.get("spark.master") not in (options.LOCAL, asked.master):
        raise Refused(
            "spark-setting-unsupported",
            f"spark-submit has --master {conf.get('spark.master')}, but the application has "
            f"--master {asked.master}. Pass only one of them.",
        )
    if asked.master:
        conf.setMaster(asked.master)
    # spark-submit uses the file name as the name of an application without a name.
    if conf.get("spark.app.name", "pyspark-shell") in ("pyspark-shell", Path(sys.argv[0]).name):
        conf.setAppName(name)
    has = dict(conf.getAll())
    conf.setAll([*options.missing(has["spark.master"], has).items()])
    os.environ["PYSPARK_PYTHON"] = options.python(has)
    return conf


@contextmanager
def _logged() -> Iterator[Callable[[], str]]:
    """Yield a function that returns Spark's log since this call. Other appenders of the user stay."""
    jvm: Any = SparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    writer = jvm.java.io.StringWriter()
    layout = (
        log4j.core.layout.PatternLayout.newBuilder().withPattern("%m%n%throwable{short.message}%n").build()
    )
    appender = log4j.core.appender.WriterAppender.createAppender(
        layout, None, writer, "aqueduct", False, True
    )
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    try:
        yield writer.toString
    finally:
        root.removeAppender(appender)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C: a JVM whose parent ends during its start would run for ever (Spark 4.0.0)."""
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
    """Redirect the stderr of processes that start within this context to the file."""
    ours = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
