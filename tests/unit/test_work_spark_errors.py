"""Sentences out of what Spark 4.3.0 said, as it was seen, on a cluster whose workers could not run a task."""

import pytest

from aqueduct.work.spark_errors import late, launched, reason, start

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent "
    "failure: Lost task 0.3 "
    "in stage 0.0 (TID 3) (127.0.0.1 executor 0): "
)
GIVE = (
    "Pack their environment with `aqueduct environment --out env.tar.gz`, and pass --conf "
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
            f"Workers have no /nowhere/bin/python. {GIVE}, or set PYSPARK_PYTHON to a Python of the workers "
            "that has Aqueduct.",
            id="no such Python",
        ),
        pytest.param(
            f'{ABORTED}java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such '
            f"file or directory{STACK}",
            "Workers found no ./environment/bin/python in the archives of spark.archives. Create the archive "
            "with `aqueduct environment --out env.tar.gz`. Its folder on workers is the name after # in "
            "spark.archives.",
            id="an archive of something else",
        ),
        pytest.param(
            f"{ERROR}/usr/bin/python3: Error while finding module specification for 'aqueduct.work.daemon' "
            f"(ModuleNotFoundError: No module named 'aqueduct'){PATH}",
            f"Workers lack the Python package aqueduct. {GIVE}.",
            id="no Aqueduct",
        ),
        pytest.param(
            f"{ABORTED}{RAISED}ModuleNotFoundError: No module named 'tzdata'\n\nDuring handling of the above "
            "exception, another exception occurred:\nzoneinfo._common.ZoneInfoNotFoundError: 'No time zone "
            "found with key America/New_York'\n",
            "Workers do not know the time zone America/New_York. Install the distribution's package tzdata "
            "on them.",
            id="no time zones",
        ),
        pytest.param(
            f"{ERROR}aqueduct: The worker vm has no python3.12: its environment is for Python 3.12 on "
            f"x86_64.{PATH}",
            "The worker vm has no python3.12: its environment is for Python 3.12 on x86_64. Install this "
            "Python version on the worker, or pack the environment (aqueduct environment) on a host with the "
            "Python version and machine type of the worker.",
            id="another Python than the archive's",
        ),
        pytest.param(
            f"{RAISED}pyspark.errors.exceptions.base.PySparkRuntimeError: "
            "[PYTHON_VERSION_MISMATCH] Python in worker "
            "has different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor "
            "versions.\nPlease check environment variables PYSPARK_PYTHON and "
            "PYSPARK_DRIVER_PYTHON are correctly "
            "set.\n SQLSTATE: 38000",
            f"Workers run Python 3.12, but this host runs Python 3.11, and both must be the same. {GIVE}, or "
            "set PYSPARK_PYTHON to a Python of the workers with the version of this host.",
            id="another Python than the driver's",
        ),
        pytest.param(
            f"{RAISED}ImportError: cannot import name 'count' from 'aqueduct.common.wording' "
            "(/spark/work/app-20261122132939-0004/0/environment/lib/aqueduct/common/wording.py)\n SQLSTATE: "
            "38000",
            f"Workers have another version of Aqueduct than this host. {GIVE}.",
            id="an old archive, without a name",
        ),
        pytest.param(
            f"{RAISED}AttributeError: Can't get attribute 'Probe' on <module 'aqueduct.common.job_files' "
            "from '/spark/work/app-20261122131119-0000/0/environment/lib/aqueduct/common/job_files.py'>\n "
            "SQLSTATE: 38000",
            f"Workers have another version of Aqueduct than this host. {GIVE}.",
            id="an old archive",
        ),
        pytest.param(
            "\ngzip: /tmp/spark-bb3de288/damaged.tar.gz: unexpected end of file\ntar: Unexpected "
            "EOF in archive\n"
            "tar: Unexpected EOF in archive\ntar: Error is not recoverable: exiting now\n",
            "Workers cannot unpack the archive damaged.tar.gz: unexpected end of file. Create it again with "
            "`aqueduct environment --out env.tar.gz`.",
            id="an archive that was cut",
        ),
        pytest.param(
            f"{RAISED}ZeroDivisionError: division by zero\n SQLSTATE: 38000", None, id="a mistake of ours"
        ),
    ],
)
def test_what_spark_says_of_workers(said: str, sentence: str | None) -> None:
    assert reason(said) == sentence


REFUSED = (
    "Connecting to master spark://one:7077...\n\nSuccessfully created connection to /10.0.0.1:7077\n\n"
    "Failed to connect to master one:7077\nException thrown in awaitResult: \n"
)
CONNECTED = "Connected to Spark cluster with app ID app-20261122124432-0001\n"
ENDED = "Executor updated: app-20261122124432-0001/1 is now EXITED (Command exited with code 1)\n"


@pytest.mark.parametrize(
    ("said", "master", "sentence"),
    [
        pytest.param(REFUSED, "spark://one:7077", "spark.authenticate.secret", id="secret"),
        pytest.param(REFUSED, "spark://one:7077,two:7077", None, id="one of two masters is down"),
        pytest.param(REFUSED + CONNECTED, "spark://one:7077", None, id="taken at the second try"),
        pytest.param(
            "All masters are unresponsive! Giving up.", "spark://one:7077", "does not answer", id="no master"
        ),
        pytest.param(CONNECTED + ENDED * 3, "spark://one:7077", None, id="a few executors ended"),
        pytest.param(
            CONNECTED + ENDED * 4, "spark://one:7077", "reach this driver at me:1.", id="all of them ended"
        ),
        pytest.param(
            CONNECTED + ENDED * 4 + "Registered executor", "spark://one:7077", None, id="one of them ran"
        ),
    ],
)
def test_why_no_executor_comes(said: str, master: str, sentence: str | None) -> None:
    found = start(said, master, "me:1")
    assert found is None if sentence is None else sentence in str(found)


@pytest.mark.parametrize(
    ("said", "master", "sentence"),
    [
        pytest.param("", "spark://one:7077", "does not answer", id="no answer"),
        pytest.param("", "yarn", "ResourceManager of HADOOP_CONF_DIR", id="queued"),
        pytest.param(CONNECTED, "spark://one:7077", "started no executor within 5 s", id="no executor"),
        pytest.param(CONNECTED + "Registered executor", "spark://one:7077", None, id="one of two"),
        pytest.param("Registered executor", "yarn", None, id="one of two on YARN"),
    ],
)
def test_what_is_missing_when_the_wait_is_over(said: str, master: str, sentence: str | None) -> None:
    found = late(said, master, 5)
    assert found is None if sentence is None else sentence in str(found)


def test_launched_executors_count_until_they_end() -> None:
    """As Spark 4.3.0 logged them."""
    granted = "Granted executor ID app-1/{} on hostPort 127.0.0.1:44111 with 1 core(s), 1024.0 MiB RAM\n"
    said = "Connected to Spark cluster with app ID app-1\n"
    assert launched(said) == 0
    said += granted.format(0) + granted.format(1) + "Executor updated: app-1/1 is now RUNNING\n"
    assert launched(said) == 2
    said += "Executor updated: app-1/0 is now EXITED (Command exited with code 1)\n" + granted.format(2)
    assert launched(said) == 2
    assert launched(said + "Executor updated: app-1/2 is now LOST\n") == 1
