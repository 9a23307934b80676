"""pytest ends early when a unit test or lint has failed, and only then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = "from kit.early_end import pytest_runtest_makereport as pytest_runtest_makereport\n"
PASSES = "def test_one(): pass\ndef test_two(): pass\n"
FAILS = PASSES.replace("pass", "assert False", 1)
INTERRUPTED = pytest.ExitCode.INTERRUPTED
TESTS_FAILED = pytest.ExitCode.TESTS_FAILED


def run_tests(folder: Path, tests: dict[str, str], failure: Path | None, *options: str) -> tuple[int, str]:
    """Run real pytest over `tests`; return its exit code and its last line."""
    for name, text in {**tests, "conftest.py": CONFTEST, "pytest.ini": "[pytest]\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "AQUEDUCT_QUICK"))
    }
    environment["PYTHONPATH"] = f"{ROOT}/tests"
    if failure:
        environment["AQUEDUCT_QUICK_FAILURE"] = str(failure)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *tests],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return run.returncode, run.stdout.splitlines()[-1]


@pytest.mark.parametrize("options", [(), ("--numprocesses=1", "--dist=loadfile", "--no-loadscope-reorder")])
def test_failed_unit_test_ends_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    failure = tmp_path / "failure"
    tests = {"tests/unit/test_a.py": FAILS, "tests/store/test_b.py": PASSES}
    code, last = run_tests(tmp_path, tests, failure, *options)
    assert (code, failure.exists()) == (INTERRUPTED, True)
    assert "1 failed" in last
    assert "passed" not in last


def test_failure_of_lint_ends_the_run(tmp_path: Path) -> None:
    failure = tmp_path / "failure"
    failure.touch()
    code, last = run_tests(tmp_path, {"tests/store/test_b.py": PASSES}, failure)
    assert code == INTERRUPTED
    assert "1 passed" in last


@pytest.mark.parametrize(("folder", "is_watched"), [("store", True), ("unit", False)])
def test_other_failures_end_nothing(tmp_path: Path, folder: str, is_watched: bool) -> None:
    failure = tmp_path / "failure" if is_watched else None
    code, last = run_tests(tmp_path, {f"tests/{folder}/test_a.py": FAILS}, failure)
    assert code == TESTS_FAILED
    assert "1 failed, 1 passed" in last
    assert not (tmp_path / "failure").exists()


def test_tests_of_this_repository_have_it() -> None:
    assert CONFTEST in (ROOT / "tests/conftest.py").read_text()
