"""Sentences out of what Spark 4.3.0 said, as it was seen, on a cluster whose workers could not run a task."""

import pytest

from aqueduct.work.reasons import reason

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent "
    "failure: Lost task 0.3 "
    "in stage 0.0 (TID 3) (127.0.0.1 executor 0): "
)
GIVE = (
    "give them what `aqueduct environment --out env.tar.gz` packs, by --conf "
    "spark.archives=env.tar.gz#environment"
)
STACK = "\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n\nDriver stacktrace:"
PATH = (
    "\nPYTHONPATH was:\n  /opt/pyspark/python/lib/pyspark.zip\norg.apache.spark.SparkException: EOFException "
    "occurred while reading the port number from aqueduct.work.daemon's stdout."
)
ERROR = f"{ABORTED}org.apache.spark.SparkException: \nError from python worker:\n  "
RAISED = (
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "/opt/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4174, in invoke_udf\n'
)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        pytest.param(
            f'{ABORTED}java.io.IOException: Cannot run program "/nowhere/bin/python": error=2, No such '
            f"file or directory{STACK}",
            f"Workers have no /nowhere/bin/python: {GIVE}; or name their own Python, with Aqueduct, in "
            "PYSPARK_PYTHON.",
            id="no such Python",
        ),
        pytest.param(
            f'{ABORTED}java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such '
            f"file or directory{STACK}",
            "Workers found no ./environment/bin/python in an archive of spark.archives: `aqueduct "
            "environment --out env.tar.gz` makes one that has it; the folder is what stands behind the # of "
            "the archive.",
            id="an archive of something else",
        ),
        pytest.param(
            f"{ERROR}/usr/bin/python3: Error while finding module specification for 'aqueduct.work.daemon' "
            f"(ModuleNotFoundError: No module named 'aqueduct'){PATH}",
            f"Workers lack the Python package aqueduct: {GIVE}.",
            id="no Aqueduct",
        ),
        pytest.param(
            f"{ERROR}aqueduct: The worker vm has no python3.12: its environment was packed for Python 3.12, "
            f"x86_64.{PATH}",
            "The worker vm has no python3.12: its environment was packed for Python 3.12, x86_64. "
            "Install that "
            "Python there, or pack it (aqueduct environment) on a host like that one.",
            id="another Python than the archive's",
        ),
        pytest.param(
            f"{RAISED}pyspark.errors.exceptions.base.PySparkRuntimeError: "
            "[PYTHON_VERSION_MISMATCH] Python in worker "
            "has different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor "
            "versions.\nPlease check environment variables PYSPARK_PYTHON and "
            "PYSPARK_DRIVER_PYTHON are correctly "
            "set.\n SQLSTATE: 38000",
            f"Workers run Python 3.12, this host 3.11, and they have to be the same: {GIVE}, or name such a "
            "Python of theirs in PYSPARK_PYTHON.",
            id="another Python than the driver's",
        ),
        pytest.param(
            f"{RAISED}ImportError: cannot import name 'count' from 'aqueduct.wording' "
            "(/spark/work/app-20261122132939-0004/0/environment/lib/aqueduct/wording.py)\n SQLSTATE: 38000",
            f"Workers have another version of Aqueduct than this host: {GIVE}.",
            id="an old archive, without a name",
        ),
        pytest.param(
            f"{RAISED}AttributeError: Can't get attribute 'Probe' on <module 'aqueduct.job_files' from "
            "'/spark/work/app-20261122131119-0000/0/environment/lib/aqueduct/job_files.py'>\n "
            "SQLSTATE: 38000",
            f"Workers have another version of Aqueduct than this host: {GIVE}.",
            id="an old archive",
        ),
        pytest.param(
            "\ngzip: /tmp/spark-bb3de288/damaged.tar.gz: unexpected end of file\ntar: Unexpected "
            "EOF in archive\n"
            "tar: Unexpected EOF in archive\ntar: Error is not recoverable: exiting now\n",
            "The archive damaged.tar.gz can't be unpacked (unexpected end of file): pack it "
            "again, by `aqueduct "
            "environment --out env.tar.gz`.",
            id="an archive that was cut",
        ),
        pytest.param(
            f"{RAISED}ZeroDivisionError: division by zero\n SQLSTATE: 38000", None, id="a mistake of ours"
        ),
    ],
)
def test_what_spark_says_of_workers(said: str, sentence: str | None) -> None:
    assert reason(said) == sentence
