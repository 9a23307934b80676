"""Spark's classes, read and verified once for all JVMs of a host that start later (JEP 350)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from aqueduct.errors import AqueductError, Failed
from aqueduct.work import jvm

# What drivers do: a job in Python, and SQL.
PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize(range(4), 2).map(lambda each: each + 1).sum() == 10
assert spark.range(9).selectExpr("id + 1 AS number").where("number > 3").count() == 6
"""


def taken(archive: Path) -> bool:
    """Return whether a JVM of this host takes an archive that is there."""
    must = ["-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-XX:ErrorFile=/dev/null"]
    return archive.exists() and not _java(*must, "-cp", jvm.jars(), "-version").returncode


def make() -> None:
    """Write the archive; Failed with what Java said."""
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
        if process.returncode or not taken(archive):  # one that was cut off would end each JVM
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
    except (AqueductError, OSError) as error:  # of folders that this user can't write, or without Java
        sys.exit(f"aqueduct: {error}")
