"""Sentences about failures of Spark: its start, and tasks on workers, from the output of Spark 4.3."""

import re

PACK = "`aqueduct environment --out env.tar.gz`"
GIVE = f"Pack their environment with {PACK}, and pass --conf spark.archives=env.tar.gz#environment"
OTHER_VERSION = f"Workers have another version of Aqueduct than this host. {GIVE}."
UNANSWERED = "{} does not answer. Check that it runs, and that this host can connect to its port."
NO_EXECUTOR = (
    "{} started no executor within {:g} s. Check that its workers have free cores and memory, or pass a "
    "longer --wait."
)
QUEUED = (
    "{} did not start the application in time. Check that the ResourceManager of HADOOP_CONF_DIR runs, and "
    "that its queue has free memory and cores, or pass a longer --wait."
)
ENDED_EXECUTORS = 4  # after so many without one that ran, no later executor will run
# The first pattern that matches is the reason. Braces are replaced by the groups of the pattern.
SENTENCES = (
    (
        r"aqueduct: (The worker [^\n]{1,1000})\.\n",
        "{}. Install this Python version on the worker, or pack the environment (aqueduct environment) on a "
        "host with the Python version and machine type of the worker.",
    ),
    (
        r'Cannot run program "(\./[^"]+)"',
        f"Workers found no {{}} in the archives of spark.archives. Create the archive with {PACK}. Its "
        "folder on workers is the name after # in spark.archives.",
    ),
    (
        r'Cannot run program "([^"]+)"',
        f"Workers have no {{}}. {GIVE}, or set PYSPARK_PYTHON to a Python of the workers that has Aqueduct.",
    ),
    (
        r"different version: ([\d.]+) than that in driver: ([\d.]+)",
        f"Workers run Python {{}}, but this host runs Python {{}}, and both must be the same. {GIVE}, or set "
        "PYSPARK_PYTHON to a Python of the workers with the version of this host.",
    ),
    (r"No module named '?aqueduct\.", OTHER_VERSION),
    (r"ImportError: cannot import name '\w+' from 'aqueduct", OTHER_VERSION),
    (r"AttributeError: (?:Can't get attribute '\w+' on <)?module 'aqueduct", OTHER_VERSION),
    (
        r"No time zone found with key ([\w/+-]+)",
        "Workers do not know the time zone {}. Install the distribution's package tzdata on them.",
    ),
    (r"No module named '?(\w+)", f"Workers lack the Python package {{}}. {GIVE}."),
    (
        r"(?:gzip|tar): \S*/([^/\s]+\.t(?:ar\.)?gz): ([^\n]+)",
        f"Workers cannot unpack the archive {{}}: {{}}. Create it again with {PACK}.",
    ),
    (
        r"(?:gzip|tar): ([^\n]+)",
        f"Workers cannot unpack an archive of spark.archives: {{}}. Create it again with {PACK}.",
    ),
)


def reason(output: str) -> str | None:
    """Return the sentence about a failed task from Spark's output; None if the output is not known."""
    for pattern, sentence in SENTENCES:
        if match := re.search(pattern, output):
            return sentence.format(*match.groups())
    return None


def late(output: str, master: str, seconds: float) -> str | None:
    """Return the reason from Spark's log why the application did not start within so many seconds.

    None if Spark has executors and waits for more (spark.scheduler.maxRegisteredResourcesWaitingTime).
    """
    if "Registered executor" in output:
        return None
    if "Connected to Spark cluster" in output:
        return NO_EXECUTOR.format(master, seconds)
    return (QUEUED if master == "yarn" else UNANSWERED).format(master)


def launched(output: str) -> int:
    """Return the number of launched executors that still run, from the log; 0 if the master reports none."""
    ended = re.findall(r"Executor updated: \S+ is now (?:EXITED|FAILED|LOST|KILLED)", output)
    return output.count("Granted executor ID ") - len(ended)


def start(output: str, master: str, driver: str) -> str | None:
    """Return the reason from Spark's log why no executor will register; None if one may still register.

    `driver`: the address that the driver announced.
    """
    # A master that accepts the connection and then fails rejects the authentication. With several masters,
    # one of them may only be down.
    answered = "Exception while bootstrapping client" in output or "Successfully created connection" in output
    alone = "," not in master and "Connected to Spark cluster" not in output
    if alone and answered and "Failed to connect to master" in output:
        return (
            f"{master} rejects this host. Use the same spark.authenticate.secret (in spark-defaults.conf of "
            "SPARK_CONF_DIR) and the same version of Spark on both."
        )
    if "All masters are unresponsive" in output:
        return UNANSWERED.format(master)
    if output.count("is now EXITED") >= ENDED_EXECUTORS and "Registered executor" not in output:
        return (
            f"{master} started executors, but they ended immediately. Check that they can reach this driver "
            f"at {driver}. If they cannot, set spark.driver.host. Otherwise, read their logs on the workers."
        )
    return None
