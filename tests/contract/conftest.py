"""Fixtures of contract tests."""

import pytest
from ansible.plugins.loader import init_plugin_loader


@pytest.fixture(scope="session", autouse=True)
def _collections() -> None:
    """Let Ansible in this process find the collection, as its commands do at their start."""
    init_plugin_loader([])
