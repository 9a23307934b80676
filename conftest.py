"""Tests marked `long` run with script/test --all alone; the name of a test that fails is printed at once."""

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("AQUEDUCT_ALL_SEEDS"):
        return
    long = [each for each in items if each.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [each for each in items if not each.get_closest_marker("long")]


class _FailuresAtOnce:
    """Prints the names that pytest keeps for its end, which is an hour away in a run of all tests."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\n{report.nodeid} failed ({report.when})", red=True)


@pytest.hookimpl(trylast=True)  # the reporter is there by then
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(_FailuresAtOnce(terminal), "aqueduct-failures-at-once")
