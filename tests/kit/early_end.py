"""End pytest when a unit test or lint has failed: the rest takes an hour, and its result is clear by then.

script/test names a file in AQUEDUCT_QUICK_FAILURE, and creates it if lint fails. A failed unit test creates
it, too. If the file exists, each process of pytest ends after its current test.
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
