"""One site with its store and its drill host, for all tests of this scenario."""

import pytest
from kept import Kept
from lab import Lab


@pytest.fixture(scope="session")
def kept(lab: Lab) -> Kept:
    return Kept(lab)
