"""Options of Spark's JVMs, and where the archive of its classes is.

A JVM takes the archive only if its class path begins with the jars of which that was made, and if it is the
same build of Java. Else it reads its classes from the jars, as ever, and says nothing.
"""

import os
import sysconfig
from pathlib import Path

# No JVM moves data, the driver's and the executors': compile little, collect garbage in one thread.
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def home() -> Path:
    """Return the folder of Spark that PySpark starts: that of SPARK_HOME, or its own."""
    return Path(os.environ.get("SPARK_HOME") or Path(sysconfig.get_path("purelib"), "pyspark"))


def archive() -> Path:
    return home() / "classes.jsa"


def jars() -> str:
    """Return the class path of which the archive is; Java itself lists the folder."""
    return f"{home()}/jars/*"


def sharing() -> str:
    """Return options with which a JVM takes the archive."""
    return f"-Xshare:auto -XX:SharedArchiveFile={archive()} -Xlog:cds*=off"
