"""What a driver of Spark loads before its JVM does anything."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
{before}
from py4j.protocol import INPUT_CONVERTER
assert len(INPUT_CONVERTER) > 3
assert not any(each.can_convert("an argument") for each in INPUT_CONVERTER)
print("pyspark.testing" in sys.modules)
"""


@pytest.mark.parametrize(
    ("before", "loaded"), [("import pyspark", "True"), ("from aqueduct.work import session", "False")]
)
def test_no_argument_for_java_loads_pysparks_tests(before: str, loaded: str) -> None:
    """PySpark alone does, and loads pandas with them, where it is."""
    argv = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(before=before)]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert run.stdout == f"{loaded}\n"
