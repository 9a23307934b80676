"""A separate process without PySpark, because this process may have imported it."""

import subprocess
import sys

HIDDEN = "import sys; sys.modules['pyspark'] = None\n"
MAIN = "from aqueduct.cli import main; sys.exit(main(sys.argv[1:]))\n"


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python program as on a host without PySpark."""
    command = [sys.executable, "-c", HIDDEN + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
