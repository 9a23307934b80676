"""Executors that send pickles as results and accumulator updates, to steal the driver's key."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aqueduct.errors import ExitCode

BOUND_SECONDS = 1000  # of Spark, which can wait for ever
REFUSED = {"id": "spark-result-invalid", "code": ExitCode.FAILED, "taken": False}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return how attacks ended, all in one session."""
    folder = tmp_path_factory.mktemp("hostile")
    key = folder / "signing.pem"
    key.write_text("the key")
    program = Path(__file__).with_name("hostile.py")
    command = [sys.executable, str(program), str(key), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("attack", ["a result, to PySpark", "an update, to PySpark"])
def test_pyspark_itself_runs_what_executors_send(outcomes: dict[str, Any], attack: str) -> None:
    assert outcomes[attack]["taken"]


@pytest.mark.parametrize(
    "attack", ["a result", "a result of another type", "an error of no kind", "an update"]
)
def test_what_executors_send_is_refused_and_not_run(outcomes: dict[str, Any], attack: str) -> None:
    assert outcomes[attack] == REFUSED


def test_the_session_serves_honest_tasks_afterwards(outcomes: dict[str, Any]) -> None:
    assert outcomes["honest"]["results"] == [0, 1, 4, 9, 16]
