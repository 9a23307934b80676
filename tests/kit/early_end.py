"""End pytest after a unit test or lint failed: the run then fails, and the other tests take an hour.

script/test sets AQUEDUCT_QUICK_FAILURE to the path of a file, and creates the file if lint fails. A failed
unit test creates it, too. If the file exists, each process of pytest ends after its current test.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

UNIT_TESTS = "tests/unit/"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if path := os.environ.get("AQUEDUCT_QUICK_FAILURE"):
        failure = Path(path)
        if report.failed and item.nodeid.startswith(UNIT_TESTS):
            failure.touch()
        if failure.exists():
            item.session.shouldstop = "lint or a unit test failed"
    return report
