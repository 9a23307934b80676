"""The choice of a runner for a function over small descriptions: this process, or Spark if it ends sooner."""

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
    from aqueduct.work.spark import Application  # slow to import, and not installed everywhere

R = TypeVar("R", bound=Runner)

TASKS_PER_CORE = 3  # so that all cores end at about the same time


class Workers:
    """Runs work in this process, or on Spark. Spark starts once, at the first work that needs it."""

    def __init__(self, name: str, options: SparkOptions | None = None) -> None:
        """Store the application's name and its options.

        With a master, Spark does all work. Without a master, Spark uses the cores of this host, and only for
        work that ends sooner than in this process. Without PySpark, this process does all work.
        """
        self._name = name
        self._options = options or SparkOptions()
        self._spark: Application | None = None
        self._stack = ExitStack()
        self._announced = ""
        self.figures = SparkFigures()

    def __enter__(self) -> Self:
        """Refused, before any work, if the options require Spark and PySpark is not installed."""
        if self._options.wanted:
            with packages("spark"):
                from aqueduct.work import session
        # In deploy mode cluster, a driver that never requested executors counts as failed. So start Spark
        # now.
        if submitted() and session.driver_contained():
            self._application()
        return self

    def __exit__(self, *_: object) -> None:
        job_files.forget()
        self._stack.close()

    @property
    def on_other_hosts(self) -> bool:
        """Whether tasks, with the keys that they use, can be sent to other hosts."""
        if submitted():
            return True
        return self._options.wanted and not local_cores(given(self._options).get("spark.master", LOCAL))

    def runner(self, work: Work) -> Runner:
        """Return the runner of this work."""
        return self._application() if self._by_spark(work) else self._announce("in this process", here)

    def parallel(self, work: Work | None) -> Runner:
        """Return the runner of tasks that mostly wait or run outside of Python. `work` None: little work.

        In this process, two of them run at once.
        """
        return self._application() if self._by_spark(work) else self._announce("in this process", threads)

    def many(self, work: Work | None) -> int:
        """Return the number of Spark tasks that run at once; 0 if this process does the work."""
        if not self._by_spark(work):
            return 0
        master = None if submitted() else given(self._options).get("spark.master", LOCAL)
        return (master and local_cores(master)) or self._application().cores

    def at_once(self, work: Work | None) -> int:
        """Return the number of tasks that `parallel` runs at once."""
        return self.many(work) or THREADS

    def depends_on_size(self, most: Work) -> bool:
        """Return whether the size of the work decides: Spark does the largest work, but may not do less."""
        return not self._options.wanted and self._by_spark(most)

    def spark(self) -> "Application":
        """Return the Spark application, for work that always needs Spark."""
        return self._application()

    def per_task(self, per_second: int | None, work: Work) -> float | None:
        """Return the share of each task of `parallel` in a rate limit of the run; None without a limit."""
        return per_second / self.at_once(work) if per_second else None

    def task_size(self, total: int, bounds: tuple[int, int], work: Work | None) -> int:
        """Return the largest share of a task of `parallel` in a total, within `bounds` (minimum, maximum)."""
        least, most = bounds
        return min(most, max(least, total // (TASKS_PER_CORE * self.at_once(work))))

    def ran(self) -> dict[str, dict[str, int]]:
        """Return the number of Spark tasks by host since the last report, as an entry of the report."""
        return {"tasks": self.figures.new_tasks()}

    def reported(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return a report with Spark's tasks, and with the keys that its JVM could read as skipped items."""
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
        return self._announce(str(self._spark), self._spark)

    def _announce(self, where: str, runner: R) -> R:
        """Print where the work is done, if this changed since the last call, and return the runner."""
        if where != self._announced:
            progress.note(f"Working {where}.")
            self._announced = where
        return runner
