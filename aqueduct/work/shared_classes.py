"""An archive of Spark's classes, which all later JVMs of a host load without verification (JEP 350)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from aqueduct.errors import AqueductError, Failed
from aqueduct.work import jvm

# Loads the classes that drivers use: a job in Python, and SQL.
PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize(range(4), 2).map(lambda each: each + 1).sum() == 10
assert spark.range(9).selectExpr("id + 1 AS number").where("number > 3").count() == 6
"""


def taken(archive: Path) -> bool:
    """Return whether the archive exists and a JVM of this host can use it."""
    must = ["-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-XX:ErrorFile=/dev/null"]
    return archive.exists() and not _java(*must, "-cp", jvm.jars(), "-version").returncode


def make() -> None:
    """Create the archive; Failed with the output of Java, or if Spark is not installed."""
    if not (jvm.home() / "jars").is_dir():
        raise Failed(
            "spark-missing",
            f"{jvm.home()} contains no Spark. Install Spark, or set SPARK_HOME to its folder.",
        )
    with tempfile.TemporaryDirectory(dir=jvm.home()) as scratch:
        archive, program = Path(scratch, "classes.jsa"), Path(scratch, "program.py")
        program.write_text(PROGRAM)
        others = ("SPARK_", "PYSPARK_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        environment |= {
            "SPARK_HOME": str(jvm.home()),
            "SPARK_CONF_DIR": scratch,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        dump = ["-Xmx512m", f"-XX:ArchiveClassesAtExit={archive}", "-cp", jvm.jars()]
        submit = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
        submit += ["--conf", "spark.ui.enabled=false", str(program)]
        process = _java(*dump, *submit, cwd=scratch, env=environment)
        if process.returncode or not taken(archive):  # a truncated archive would crash each JVM
            output = (process.stderr.strip() or process.stdout.strip()).splitlines()
            raise Failed(
                "spark-classes-not-archived",
                f"Cannot create the archive of Spark's classes: {' '.join(output[-3:])}",
            )
        archive.chmod(0o444)
        archive.replace(jvm.archive())


def _java(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", *jvm.LIGHT.split(), *arguments]
    return subprocess.run(command, **options, capture_output=True, text=True, check=False)  # noqa: S603


if __name__ == "__main__":
    try:
        if not taken(jvm.archive()):
            make()
            print("made")
    except (AqueductError, OSError) as error:  # OSError: Java is missing, or a folder is not writable
        sys.exit(f"aqueduct: {error}")
