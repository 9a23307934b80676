"""Workers run a plain function over small descriptions: in this process, or by Spark if that ends sooner."""

from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aqueduct.common import job_files
from aqueduct.errors import ExitCode, left_out_entries
from aqueduct.work import progress
from aqueduct.work.crossover import Work, crossover
from aqueduct.work.options import LOCAL, SparkOptions, given, local_cores, submitted
from aqueduct.work.packages import packages
from aqueduct.work.runner import THREADS, Runner, here, threads
from aqueduct.work.spark_usage import SparkFigures

if TYPE_CHECKING:
    from aqueduct.work.spark import Application  # takes a while, and is not installed everywhere

R = TypeVar("R", bound=Runner)

TASKS_PER_CORE = 3  # so that cores end at about the same time


class Workers:
    """The workers: this process, or Spark where that ends sooner. Spark starts once, when it is needed."""

    def __init__(self, name: str, options: SparkOptions | None = None) -> None:
        """Keep Spark's name and options.

        With a master, Spark does all work. Without one, Spark's workers are this host's cores, and do only
        what they do sooner than this process; on a host without PySpark they do nothing.
        """
        self._name = name
        self._options = options or SparkOptions()
        self._spark: Application | None = None
        self._stack = ExitStack()
        self._told = ""
        self.figures = SparkFigures()

    def __enter__(self) -> Self:
        """Refused, before anything was done, if Spark is wanted and this host has no PySpark."""
        if self._options.wanted:
            with packages("spark"):
                from aqueduct.work import session
        # A cluster takes a driver of its own that never asked for executors for one that failed.
        if submitted() and session.driver_contained():
            self._application()
        return self

    def __exit__(self, *_: object) -> None:
        job_files.forget()
        self._stack.close()

    @property
    def on_other_hosts(self) -> bool:
        """Return whether tasks, and so the keys that they use, can be sent to other hosts."""
        if submitted():
            return True
        return self._options.wanted and not local_cores(given(self._options).get("spark.master", LOCAL))

    def runner(self, work: Work) -> Runner:
        """Return the runner of this work."""
        return self._application() if self._by_spark(work) else self._tell("in this process", here)

    def parallel(self, work: Work | None) -> Runner:
        """Return the runner of tasks that spend their time outside of Python; None: of little work.

        This process does two at once.
        """
        return self._application() if self._by_spark(work) else self._tell("in this process", threads)

    def many(self, work: Work | None) -> int:
        """Return how many tasks run at once; 0: none, but this process does the work."""
        if not self._by_spark(work):
            return 0
        master = None if submitted() else given(self._options).get("spark.master", LOCAL)
        return (master and local_cores(master)) or self._application().cores

    def at_once(self, work: Work | None) -> int:
        """Return how many tasks `parallel` runs at once."""
        return self.many(work) or THREADS

    def depends_on_size(self, most: Work) -> bool:
        """Return whether work of this size is Spark's, and less may not be."""
        return not self._options.wanted and self._by_spark(most)

    def spark(self) -> "Application":
        """Return Spark, which some work needs however little it is."""
        return self._application()

    def per_task(self, per_second: int | None, work: Work) -> float | None:
        """Return each task's part, in `parallel`, of a limit for the whole run."""
        return per_second / self.at_once(work) if per_second else None

    def task_size(self, total: int, bounds: tuple[int, int], work: Work | None) -> int:
        """Return how much of a total each task, in `parallel`, has at most; `bounds` of that: least, most."""
        least, most = bounds
        return min(most, max(least, total // (TASKS_PER_CORE * self.at_once(work))))

    def ran(self) -> dict[str, dict[str, int]]:
        """Return, for a report, the number of Spark's tasks by host, since the last one."""
        return {"tasks": self.figures.new_tasks()}

    def reported(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return a report with what Spark ran, and with the keys that its JVM could read."""
        findings = left_out_entries(self.figures.within_reach)
        more = {"left_out": [*content.get("left_out", ()), *findings]} if findings else {}
        return {**content, **more, **self.ran()}

    def exit_code(self, code: ExitCode) -> ExitCode:
        """Return the exit code of a run: INCOMPLETE instead of DONE if Spark's JVM could read a key."""
        return ExitCode.INCOMPLETE if code == ExitCode.DONE and self.figures.within_reach else code

    def _by_spark(self, work: Work | None) -> bool:
        if self._options.wanted:
            return True
        if work is None:
            return False
        cores = local_cores(LOCAL)
        tasks = cores if work.tasks is None else min(cores, work.tasks)
        least = crossover(work.verb, max(1, tasks), started=self._spark is not None)
        return work.size > least and find_spec("pyspark") is not None

    def _application(self) -> "Application":
        if self._spark is not None and self._spark.ended:
            self._stack.close()
            self._spark = None
        if self._spark is None:
            with packages("spark"):
                from aqueduct.work.spark import application

            self._spark = self._stack.enter_context(application(self._name, self._options, self.figures))
        return self._tell(str(self._spark), self._spark)

    def _tell(self, where: str, runner: R) -> R:
        """Say where the work is done, where that is new."""
        if where != self._told:
            progress.note(f"Working {where}.")
            self._told = where
        return runner
