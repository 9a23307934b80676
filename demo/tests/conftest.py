"""The demo, brought up from a machine without its lab, once for all tests."""

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def said() -> Iterator[str]:
    """Run the demo, and yield all that it said.

    What the demo says is shown as it comes (pytest --capture=no).
    """
    subprocess.run(["script/lab-down"], check=True)
    said = ""
    try:
        with subprocess.Popen(
            ["script/demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as demo:
            assert demo.stdout is not None
            for line in demo.stdout:
                sys.stdout.write(line)
                said += line
        assert demo.returncode == 0
        yield said
    finally:
        subprocess.run(["script/lab-down"], check=True)
