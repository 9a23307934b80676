"""Options of a Spark application. Settings of the user take precedence over those of Aqueduct."""

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
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # environment variable that spark-submit sets for its application
SECRETS = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # like spark.redaction.regex


@dataclass(frozen=True)
class SparkOptions:
    """Options for Spark from the command line."""

    master: str | None = None  # None: of spark-submit or spark-defaults.conf; without these, local[*]
    settings: Mapping[str, str] = field(default_factory=dict)
    executor_seconds: float = EXECUTOR_SECONDS  # the longest wait for the first executor of a cluster

    @property
    def wanted(self) -> bool:
        """Whether Spark does all work: the user set a master, or runs spark-submit."""
        return submitted() or "spark.master" in given(self)


def submitted() -> bool:
    """Return whether spark-submit started this process."""
    return SUBMITTED in os.environ


def setting(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE; ValueError with a sentence if it is not a setting of Spark, or if it is a secret."""
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
    """Return the settings of `spark-defaults.conf` in SPARK_CONF_DIR, or in `conf` of SPARK_HOME.

    Empty if the file does not exist; Refused if it cannot be read.
    """
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
    """Return the settings of the user: options, and `spark-defaults.conf` (which spark-submit has read)."""
    settings = {**({} if submitted() else defaults()), **options.settings}
    return settings | ({"spark.master": options.master} if options.master else {})


def launch(options: SparkOptions) -> dict[str, str]:
    """Return the settings on the JVM's command line, without the file's, which may contain a secret."""
    chosen = given(options)
    own = {"spark.master": LOCAL, **_java("driver", chosen)}
    missing = {key: value for key, value in own.items() if key not in chosen}
    master = {"spark.master": options.master} if options.master else {}
    return {**missing, **options.settings, **master}


def missing(master: str, has: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Aqueduct that the user did not set. `has`: the present settings.

    Refused if a setting could run a task or the application twice: two copies of a task that writes would
    fence each other.
    """
    if has.get("spark.speculation", "false").lower() == "true":
        raise Refused(
            "spark-setting-unsupported",
            "Aqueduct does not support spark.speculation=true: copies of a task that writes would fence each "
            "other. Remove this setting.",
        )
    # YARN gets this number from spark-submit, before the driver runs and could set it.
    if master == "yarn" and has.get(DEPLOY_MODE) == "cluster" and has.get(ATTEMPTS) != "1":
        raise Refused(
            "spark-setting-unsupported",
            "YARN would run this application again after every exit code except 0, also after a complete run "
            f"with skipped items. Pass --conf {ATTEMPTS}=1 to spark-submit.",
        )
    own = {"spark.python.daemon.module": DAEMON}
    if local_cores(master):
        # Only this host can connect to the driver, and the driver needs no host name.
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        own |= {"spark.ui.enabled": "false"}
    else:
        # Hosts of a standalone cluster have the same Spark, and so the same archive of classes.
        own |= _java("executor", has, shared=master.startswith("spark://"))
        # By default, Spark begins with the first executor, which would then get all tasks.
        own |= {"spark.scheduler.minRegisteredResourcesRatio": "1.0", WAITING_TIME: "60s"}
    return {key: value for key, value in own.items() if key not in has}


def _java(process: str, has: Mapping[str, str], *, shared: bool = True) -> dict[str, str]:
    """Return the Java settings of the driver or of executors (`process`).

    They use the archive of classes if it exists, unless the user set Java options or a class path.
    """
    java, path = f"spark.{process}.extraJavaOptions", f"spark.{process}.extraClassPath"
    if not shared or path in has or java in has or not jvm.archive().exists():
        return {java: jvm.LIGHT}
    return {java: f"{jvm.LIGHT} {jvm.sharing()}", path: jvm.jars()}


def scratch(has: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return the folders in which Spark creates temporary files."""
    local = environment.get("SPARK_LOCAL_DIRS") or has.get("spark.local.dir", "/tmp")  # noqa: S108
    return {"/tmp", tempfile.gettempdir(), *local.split(",")}  # noqa: S108


def local_cores(master: str) -> int:
    """Return the number of tasks that a `local` master runs at once; 0 for the master of a cluster."""
    match = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if not match:
        return 0
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1] or 1)


def python(has: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the Python of Spark's workers: set by the user, in an archive, or the path of this Python."""
    if named := has.get("spark.pyspark.python") or environment.get("PYSPARK_PYTHON"):
        return named
    archives = "" if local_cores(has.get("spark.master", LOCAL)) else has.get("spark.archives", "")
    for archive in filter(None, archives.split(",")):
        _, hash_, folder = archive.partition("#")
        if hash_:
            return f"./{folder}/bin/python"
    return sys.executable
