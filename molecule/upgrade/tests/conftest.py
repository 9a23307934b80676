"""One upgrade and one way back for all tests of this scenario."""

import pytest
from lab import Lab
from releases import installed
from upgrade import Outcome, upgrade_and_go_back


@pytest.fixture(scope="session")
def outcome(lab: Lab) -> Outcome:
    older, newer = installed()
    return upgrade_and_go_back(lab, older, newer)
