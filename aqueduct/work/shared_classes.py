"""Spark's classes, read and verified once for all JVMs of a host that start later (JEP 350)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from aqueduct.errors import AqueductError, Failed
from aqueduct.work import jvm

# What drivers do: a job in Python, and SQL.
PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize(range(4), 2).map(lambda each: each + 1).sum() == 10
assert spark.range(9).selectExpr("id + 1 AS number").where("number > 3").count() == 6
"""


def make() -> None:
    """Write the archive; Failed with what Java said."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    if not (jvm.home() / "jars").is_dir():
        raise Failed(f"There is no Spark in {jvm.home()}.")
    with tempfile.TemporaryDirectory(dir=jvm.home()) as scratch:
        made, program = Path(scratch, "classes.jsa"), Path(scratch, "program.py")
        program.write_text(PROGRAM)
        environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("SPARK_", "PYSPARK_"))
            },
            "SPARK_HOME": str(jvm.home()),
            "SPARK_CONF_DIR": scratch,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [
            java,
            "-Xmx512m",
            *jvm.LIGHT.split(),
            f"-XX:ArchiveClassesAtExit={made}",
            "-cp",
            jvm.jars(),
        ]
        command += ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
        command += ["--conf", "spark.ui.enabled=false", str(program)]
        done = subprocess.run(  # noqa: S603
            command, cwd=scratch, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or not made.exists():
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failed(f"Spark's classes could not be archived: {' '.join(said[-3:])}")
        made.chmod(0o444)
        made.replace(jvm.archive())


if __name__ == "__main__":
    try:
        make()
    except (AqueductError, OSError) as error:  # of folders that this user can't write, or without Java
        sys.exit(f"aqueduct: {error}")
