"""The use of Spark by one process: sessions, executors and tasks."""

from collections import Counter
from dataclasses import dataclass, field

from aqueduct.errors import LeftOut


@dataclass(kw_only=True)
class SparkFigures:
    """Counters of the use of Spark by one process, for reports and for Prometheus."""

    sessions: int = 0  # started
    executors: int = 0  # at the start of the last job
    tasks: Counter[str] = field(default_factory=Counter)  # completed, by host
    within_reach: LeftOut = ()  # keys of this process that Spark's JVM could read
    _reported: Counter[str] = field(default_factory=Counter)

    def new_tasks(self) -> dict[str, int]:
        """Return the number of completed tasks by host since the last call."""
        new = self.tasks - self._reported
        self._reported = self.tasks.copy()
        return dict(new)
