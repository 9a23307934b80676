"""The amount of work from which Spark ends sooner than one process, by verb and number of cores.

The constants were measured on two cores beside a broker; bench/README.md lists their sources, and
`bench/crossover` measures them again. Sizes are bytes of record batches as Kafka stores them, before Aqueduct
compresses them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

GB = 1_000_000_000
MEASURED_CORES = 2
START_SECONDS = 3.3  # from the start of a command to Spark's first task, beyond the start of one process
JOB_SECONDS = 0.1  # added by each job if Spark already runs
WORTH = 0.9  # Spark needs more CPU, so it must end in at most this share of the time


class Verb(StrEnum):
    """A verb, or a service, with its own measured speeds."""

    BACKUP = "backup"
    RESTORE = "restore"
    VERIFY = "verify"
    EXPORT = "export"
    RECONCILE = "reconcile"
    DEDUP = "dedup"
    LAND = "land"


@dataclass(frozen=True)
class Speed:
    """Seconds per GB on MEASURED_CORES, without the start."""

    process: float
    spark: float


SPEEDS: Mapping[Verb, Speed] = {
    Verb.BACKUP: Speed(3.2, 5.3),
    Verb.RESTORE: Speed(9.3, 8.8),
    Verb.VERIFY: Speed(0.7, 1.3),
    Verb.EXPORT: Speed(5.0, 4.0),
    Verb.RECONCILE: Speed(2.2, 2.0),  # per GB that is read, both ends together
    Verb.DEDUP: Speed(4.5, 4.0),
    Verb.LAND: Speed(21.5, 25.8),
}


@dataclass(frozen=True)
class Work:
    """An amount of work, by which one process or Spark is chosen."""

    verb: Verb
    size: int  # bytes
    tasks: int | None = None  # tasks that can run at once; None: one for each core


def crossover(verb: Verb, tasks: int, *, started: bool = False, speed: Speed | None = None) -> float:
    """Return the number of bytes from which Spark is used, with so many tasks at once; infinity: never.

    `started`: Spark already runs. `speed`: replaces the measured speed of the verb.
    """
    speed = speed or SPEEDS[verb]
    gained = speed.process * WORTH - speed.spark * MEASURED_CORES / tasks  # seconds per GB
    if gained <= 0:
        return math.inf
    return (JOB_SECONDS if started else START_SECONDS) / gained * GB
