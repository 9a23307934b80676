"""Options of a Spark application: what its user sets wins over what this program would choose."""

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from aqueduct.errors import Refused
from aqueduct.kafka.client_config import parse_properties
from aqueduct.work import jvm

LOCAL = "local[*]"
DAEMON = "aqueduct.work.daemon"
EXECUTOR_SECONDS = 60.0
ATTEMPTS = "spark.yarn.maxAppAttempts"
DEPLOY_MODE = "spark.submit.deployMode"
WAITING_TIME = "spark.scheduler.maxRegisteredResourcesWaitingTime"
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # of spark-submit's JVM, which it starts before its application
SECRETS = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # as spark.redaction.regex


@dataclass(frozen=True)
class SparkOptions:
    """Options for Spark from the command line."""

    master: str | None = None  # None: spark-submit's or spark-defaults.conf's; else this host's cores
    settings: Mapping[str, str] = field(default_factory=dict)
    executor_seconds: float = EXECUTOR_SECONDS  # to wait for the first executor of a cluster

    @property
    def wanted(self) -> bool:
        """Whether even little work is Spark's: the user named a master, or runs spark-submit."""
        return submitted() or "spark.master" in given(self)


def submitted() -> bool:
    """Return whether spark-submit started this process."""
    return SUBMITTED in os.environ


def setting(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE; ValueError with a sentence if it can't be a setting of Spark, or is a secret."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise ValueError(f"{text!r} is not a setting of Spark; write spark.KEY=VALUE")
    if SECRETS.search(key):
        raise ValueError(
            f"other users could read {key} in the list of processes; set it in spark-defaults.conf of "
            "SPARK_CONF_DIR"
        )
    return key, value


def defaults(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Read `spark-defaults.conf` of SPARK_CONF_DIR or SPARK_HOME; Refused if it can't be read."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    return _read(Path(folder, "spark-defaults.conf")) if folder else {}


@cache
def _read(path: Path) -> Mapping[str, str]:
    if not path.exists():
        return {}
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            "spark-settings-unreadable", f"Cannot read {path}: {error}. Check its owner, mode and encoding."
        ) from None


def given(options: SparkOptions) -> dict[str, str]:
    """Return what the user set, in this process and in `spark-defaults.conf`."""
    settings = {**({} if submitted() else defaults()), **options.settings}
    return settings | ({"spark.master": options.master} if options.master else {})


def launch(options: SparkOptions) -> dict[str, str]:
    """Return settings for the JVM's command line; the file's are not among them, for it may hold a secret."""
    chosen = given(options)
    own = {"spark.master": LOCAL, **_java("driver", chosen)}
    missing = {key: value for key, value in own.items() if key not in chosen}
    master = {"spark.master": options.master} if options.master else {}
    return {**missing, **options.settings, **master}


def missing(master: str, has: Mapping[str, str]) -> dict[str, str]:
    """Return this program's settings where the user has none.

    Refused if what is set can't be right: a second copy of a task that writes would fence the first.
    """
    if has.get("spark.speculation", "false").lower() == "true":
        raise Refused(
            "spark-setting-unsupported",
            "Aqueduct does not support spark.speculation=true: copies of a task that writes would fence each "
            "other. Remove this setting.",
        )
    # YARN took this number from spark-submit, before there was a driver that could set it.
    if master == "yarn" and has.get(DEPLOY_MODE) == "cluster" and has.get(ATTEMPTS) != "1":
        raise Refused(
            "spark-setting-unsupported",
            "YARN would run this application again after every exit code except 0, also after a complete run "
            f"with skipped items. Pass --conf {ATTEMPTS}=1 to spark-submit.",
        )
    own = {"spark.python.daemon.module": DAEMON}
    if local_cores(master):
        # Needs no name of this host, and is reached by nobody else.
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        own |= {"spark.ui.enabled": "false"}
    else:
        own |= _java("executor", has, shared=master.startswith("spark://"))  # whose hosts have the same Spark
        # By default, Spark begins with the first executor, which then gets the tasks of all others, too.
        own |= {"spark.scheduler.minRegisteredResourcesRatio": "1.0", WAITING_TIME: "60s"}
    return {key: value for key, value in own.items() if key not in has}


def _java(process: str, has: Mapping[str, str], *, shared: bool = True) -> dict[str, str]:
    """Return settings for a JVM of Spark's; with its archive of classes, if the user says nothing of them."""
    java, path = f"spark.{process}.extraJavaOptions", f"spark.{process}.extraClassPath"
    if not shared or path in has or java in has or not jvm.archive().exists():
        return {java: jvm.LIGHT}
    return {java: f"{jvm.LIGHT} {jvm.sharing()}", path: jvm.jars()}


def scratch(has: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return the folders in which Spark makes files that it reads again."""
    local = environment.get("SPARK_LOCAL_DIRS") or has.get("spark.local.dir", "/tmp")  # noqa: S108
    return {"/tmp", tempfile.gettempdir(), *local.split(",")}  # noqa: S108


def local_cores(master: str) -> int:
    """Return how many tasks a master runs at once in processes of this host; 0 if it is a cluster's."""
    match = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if not match:
        return 0
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1] or 1)


def python(has: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the Python of Spark's workers: the user's; an archive's; or this one, at the same path."""
    if named := has.get("spark.pyspark.python") or environment.get("PYSPARK_PYTHON"):
        return named
    archives = "" if local_cores(has.get("spark.master", LOCAL)) else has.get("spark.archives", "")
    for archive in filter(None, archives.split(",")):
        _, hash_, folder = archive.partition("#")
        if hash_:
            return f"./{folder}/bin/python"
    return sys.executable
