"""What Spark did for a process."""

from collections import Counter
from dataclasses import dataclass, field

from aqueduct.errors import LeftOut


@dataclass(kw_only=True)
class SparkFigures:
    """The figures of one process, for its reports and for Prometheus."""

    sessions: int = 0  # that were started
    executors: int = 0  # at the last job
    tasks: Counter[str] = field(default_factory=Counter)  # that ended, by host
    within_reach: LeftOut = ()  # keys of this process that Spark's JVM could read
    _reported: Counter[str] = field(default_factory=Counter)

    def new_tasks(self) -> dict[str, int]:
        """Return the number of tasks by host since the last call."""
        new = self.tasks - self._reported
        self._reported = self.tasks.copy()
        return dict(new)
