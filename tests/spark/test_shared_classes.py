"""The archive of Spark's classes: a JVM takes it, which would else only be slow."""

import subprocess
from pathlib import Path

from aqueduct.work import jvm, shared_classes

MAIN = "org.apache.spark.deploy.SparkSubmit"


def test_jvm_uses_class_archive_with_extended_classpath() -> None:
    options = [*jvm.LIGHT.split(), *jvm.sharing().split(), "-Xlog:class+load"]
    command = ["java", *options, "-cp", f"{jvm.jars()}:/etc", MAIN, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{MAIN} source: shared objects file (top)" in said


def test_missing_or_cut_class_archive_is_not_accepted(tmp_path: Path) -> None:
    assert shared_classes.taken(jvm.archive())
    cut = tmp_path / "classes.jsa"
    assert not shared_classes.taken(cut)
    cut.write_bytes(jvm.archive().read_bytes()[:-50_000_000])
    assert not shared_classes.taken(cut)
