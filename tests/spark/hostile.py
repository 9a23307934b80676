"""A driver whose executors are hostile: `python hostile.py KEY FOLDER`. It prints the results as JSON.

Each attack makes the driver copy its key to the folder. It succeeds against PySpark itself: the control.
"""

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import accumulators
from pyspark.serializers import BatchedSerializer, CPickleSerializer, NoOpSerializer

from aqueduct.errors import AqueductError
from aqueduct.work import results
from aqueduct.work.options import SparkOptions
from aqueduct.work.spark import Application, application
from aqueduct.work.spark_usage import SparkFigures

KEY, FOLDER = sys.argv[1:]
TAKEN = Path(FOLDER, "taken")


class Theft:
    """Whoever unpickles it copies the key."""

    def __reduce__(self) -> tuple[Any, ...]:
        return shutil.copyfile, (KEY, str(TAKEN))


THEFT = pickle.dumps([Theft()])


def returning(data: bytes) -> Callable[[int], None]:
    """Return a task that returns bytes instead of its result."""
    return instead(lambda _: data)


def updating(result: bytes) -> bytes:
    """Add what PySpark would unpickle to all accumulators."""
    for accumulator in accumulators._accumulatorRegistry.values():
        accumulator._value = Theft()
    return result


def instead(change: Callable[[bytes], bytes]) -> Callable[[int], None]:
    """Return a task whose process changes the bytes of its result."""

    def task(_: int) -> None:
        honest = results.dumps

        def dumps(hint: Any, result: Any) -> bytes:
            results.dumps = honest  # its process has other tasks later
            return change(honest(hint, result))

        results.dumps = dumps

    return task


def square(number: int) -> int:
    return number * number


def outcome(attack: Callable[[], Any]) -> dict[str, Any]:
    """Return how an attack ended: the error's identifier and exit code, and whether the key was taken."""
    TAKEN.unlink(missing_ok=True)
    ended: dict[str, Any] = {"id": "", "code": 0}
    try:
        attack()
    except AqueductError as error:
        ended = {"id": error.id, "code": error.exit_code}
    return {**ended, "taken": TAKEN.exists()}


def unpickled(spark: Application) -> None:
    """Collect the same bytes as PySpark does."""
    data = THEFT
    tasks = spark._context.parallelize([0], 1).map(lambda _: data)._reserialize(NoOpSerializer())
    tasks._jrdd  # noqa: B018  from here on its tasks write bytes
    tasks._jrdd_deserializer = BatchedSerializer(CPickleSerializer())
    tasks.collect()


def main() -> None:
    found = {}
    with application("hostile", SparkOptions("local[1]"), SparkFigures()) as spark:
        found["a result"] = outcome(lambda: spark(returning(THEFT), [0]))
        forged = json.dumps({"host": "h", "result": {"a": 1}}).encode()
        found["a result of another type"] = outcome(lambda: spark(returning(forged), [0]))
        found["an error of no kind"] = outcome(
            lambda: spark(returning(b'{"host":"h","error":[0,"done","nothing is wrong"]}'), [0])
        )
        found["an update"] = outcome(lambda: spark(instead(updating), [0]))
        found["honest"] = {"results": spark(square, range(5))}
        # The controls, last: PySpark's server of accumulators does not survive them.
        found["a result, to PySpark"] = outcome(lambda: unpickled(spark))
        accumulators.pickleSer = CPickleSerializer()
        found["an update, to PySpark"] = outcome(lambda: spark(instead(updating), [0]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
