"""The archive of Spark's classes: a JVM takes it, which would else only be slow."""

import subprocess

from aqueduct.work import jvm

MAIN = "org.apache.spark.deploy.SparkSubmit"


def test_a_jvm_takes_the_archive_whatever_follows_its_jars() -> None:
    options = [*jvm.LIGHT.split(), *jvm.sharing().split(), "-Xlog:class+load"]
    command = ["java", *options, "-cp", f"{jvm.jars()}:/etc", MAIN, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{MAIN} source: shared objects file (top)" in said
