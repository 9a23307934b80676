"""What the tests of every scenario have."""

import os
from pathlib import Path

import pytest
from lab import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]) / "inventory")
