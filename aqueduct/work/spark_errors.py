"""Why Spark can't start, or its workers can't run our tasks: a sentence, by what Spark 4.3 says."""

import re

PACK = "`aqueduct environment --out env.tar.gz`"
GIVE = f"give them what {PACK} packs, by --conf spark.archives=env.tar.gz#environment"
OTHER_VERSION = f"Workers have another version of Aqueduct than this host: {GIVE}."
UNANSWERED = "{} does not answer: see that it runs, and that this host reaches its port."
NO_EXECUTOR = (
    "{} gave no executor within {:g} s: see that its workers have free cores and memory; --wait waits longer."
)
QUEUED = (
    "{} started no application in time: see that the ResourceManager of HADOOP_CONF_DIR runs, and that its "
    "queue has free memory and cores; --wait waits longer."
)
ENDED_EXECUTORS = 4  # with none that ran: no later one will
# Braces take what the pattern's groups found. The first pattern that is found is the reason.
SENTENCES = (
    (
        r"aqueduct: (The worker [^\n]{1,1000})\.\n",
        "{}. Install that Python there, or pack it (aqueduct environment) on a host like that one.",
    ),
    (
        r'Cannot run program "(\./[^"]+)"',
        f"Workers found no {{}} in an archive of spark.archives: {PACK} makes one that has it; the folder is "
        "what stands behind the # of the archive.",
    ),
    (
        r'Cannot run program "([^"]+)"',
        f"Workers have no {{}}: {GIVE}; or name their own Python, with Aqueduct, in PYSPARK_PYTHON.",
    ),
    (
        r"different version: ([\d.]+) than that in driver: ([\d.]+)",
        f"Workers run Python {{}}, this host {{}}, and they have to be the same: {GIVE}, or name such a "
        "Python of theirs in PYSPARK_PYTHON.",
    ),
    (r"No module named '?aqueduct\.", OTHER_VERSION),
    (r"ImportError: cannot import name '\w+' from 'aqueduct", OTHER_VERSION),
    (r"AttributeError: (?:Can't get attribute '\w+' on <)?module 'aqueduct", OTHER_VERSION),
    (
        r"No time zone found with key ([\w/+-]+)",
        "Workers don't know the time zone {}: install their distribution's package tzdata there.",
    ),
    (r"No module named '?(\w+)", f"Workers lack the Python package {{}}: {GIVE}."),
    (
        r"(?:gzip|tar): \S*/([^/\s]+\.t(?:ar\.)?gz): ([^\n]+)",
        f"The archive {{}} cannot be unpacked ({{}}): pack it again, by {PACK}.",
    ),
    (
        r"(?:gzip|tar): ([^\n]+)",
        f"An archive of spark.archives cannot be unpacked ({{}}): pack it again, by {PACK}.",
    ),
)


def reason(output: str) -> str | None:
    """Return why Spark can't run our tasks, if what it said is known."""
    for pattern, sentence in SENTENCES:
        if match := re.search(pattern, output):
            return sentence.format(*match.groups())
    return None


def late(output: str, master: str, seconds: float) -> str | None:
    """Return why no application began in time, by what Spark logged; None if it waits for more executors.

    Spark waits for all that were asked for (spark.scheduler.maxRegisteredResourcesWaitingTime).
    """
    if "Registered executor" in output:
        return None
    if "Connected to Spark cluster" in output:
        return NO_EXECUTOR.format(master, seconds)
    return (QUEUED if master == "yarn" else UNANSWERED).format(master)


def launched(output: str) -> int:
    """Return how many executors a standalone master has launched that have not ended; 0: it does not tell."""
    ended = re.findall(r"Executor updated: \S+ is now (?:EXITED|FAILED|LOST|KILLED)", output)
    return output.count("Granted executor ID ") - len(ended)


def start(output: str, master: str, driver: str) -> str | None:
    """Return why no executor will come, by what Spark logged, as a sentence; None if one may.

    `driver` is the address that the driver announced.
    """
    # It took the connection, and then not what it was told over it. Of several, one may be down meanwhile.
    answered = "Exception while bootstrapping client" in output or "Successfully created connection" in output
    alone = "," not in master and "Connected to Spark cluster" not in output
    if alone and answered and "Failed to connect to master" in output:
        return (
            f"{master} refuses this host: both need the same spark.authenticate.secret, in "
            "spark-defaults.conf of SPARK_CONF_DIR, and the same version of Spark."
        )
    if "All masters are unresponsive" in output:
        return UNANSWERED.format(master)
    if output.count("is now EXITED") >= ENDED_EXECUTORS and "Registered executor" not in output:
        return (
            f"{master} started executors which ended at once. They must reach this driver at {driver}: if "
            "they can't, set spark.driver.host; if they can, the workers' logs of them say why."
        )
    return None
