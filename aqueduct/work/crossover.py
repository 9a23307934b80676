"""The size of work from which Spark ends sooner than one process, by verb and number of cores.

The figures are measured on two cores beside a broker (bench/README.md says where each is from), and
`bench/crossover` measures them again. Sizes are bytes of batches as Kafka stores them, before Aqueduct
compresses them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

GB = 1_000_000_000
MEASURED_CORES = 2
START_SECONDS = 3.3  # from a command's start to Spark's first task, beyond the start of one process
JOB_SECONDS = 0.1  # that a job adds where Spark runs already
WORTH = 0.9  # Spark needs more CPU, so it must end in this part of the time


class Verb(StrEnum):
    """A kind of work with speeds of its own."""

    BACKUP = "backup"
    RESTORE = "restore"
    VERIFY = "verify"
    EXPORT = "export"
    RECONCILE = "reconcile"
    DEDUP = "dedup"
    LAND = "land"


@dataclass(frozen=True)
class Speed:
    """Seconds for a GB beyond start-up, on MEASURED_CORES."""

    process: float
    spark: float


SPEEDS: Mapping[Verb, Speed] = {
    Verb.BACKUP: Speed(3.2, 5.3),
    Verb.RESTORE: Speed(9.3, 8.8),
    Verb.VERIFY: Speed(0.7, 1.3),
    Verb.EXPORT: Speed(5.0, 4.0),
    Verb.RECONCILE: Speed(2.2, 2.0),  # of what is read, at both ends
    Verb.DEDUP: Speed(4.5, 4.0),
    Verb.LAND: Speed(21.5, 25.8),
}


@dataclass(frozen=True)
class Work:
    """Work that one process does, or Spark."""

    verb: Verb
    size: int  # bytes
    tasks: int | None = None  # that can run at once; None: as many as there are cores


def crossover(verb: Verb, tasks: int, *, started: bool = False, speed: Speed | None = None) -> float:
    """Return the bytes from which Spark is worth it, with so many tasks at once; infinite: never.

    `started`: Spark runs already. `speed`: instead of the verb's.
    """
    speed = speed or SPEEDS[verb]
    gained = speed.process * WORTH - speed.spark * MEASURED_CORES / tasks  # seconds a GB
    if gained <= 0:
        return math.inf
    return (JOB_SECONDS if started else START_SECONDS) / gained * GB
