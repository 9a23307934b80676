"""Options of Spark's JVMs, and the path of the archive of Spark's classes.

A JVM uses the archive only if its class path begins with the jars from which the archive was created, and if
it is the same build of Java. Otherwise it silently loads the classes from the jars.
"""

import os
import sysconfig
from pathlib import Path

# Neither the driver's JVM nor those of executors move data: compile little, collect garbage in one thread.
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def home() -> Path:
    """Return the folder of the Spark that PySpark starts: SPARK_HOME, or the folder of PySpark."""
    return Path(os.environ.get("SPARK_HOME") or Path(sysconfig.get_path("purelib"), "pyspark"))


def archive() -> Path:
    return home() / "classes.jsa"


def jars() -> str:
    """Return the class path of the archive. Java expands the asterisk."""
    return f"{home()}/jars/*"


def sharing() -> str:
    """Return the options with which a JVM uses the archive."""
    return f"-Xshare:auto -XX:SharedArchiveFile={archive()} -Xlog:cds*=off"
