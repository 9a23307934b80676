"""Tests marked `long` run with script/test --all alone: each takes long for what it adds to the others."""

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("AQUEDUCT_ALL_SEEDS"):
        return
    long = [each for each in items if each.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [each for each in items if not each.get_closest_marker("long")]
