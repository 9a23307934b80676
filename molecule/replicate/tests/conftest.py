"""One run for all tests of this scenario: write, break things, read both ends."""

import os
import random

import pytest
from lab import Lab
from outage import Outcome, write_and_break

# One seed of each class of fault in CI; `script/scenario replicate --all` runs them all.
SEEDS = range(1, 6) if os.environ.get("AQUEDUCT_ALL_SEEDS") else range(1, 2)


@pytest.fixture(scope="session")
def outcome(lab: Lab) -> Outcome:
    """What both ends hold after all faults, each drawn from a seed that is printed."""
    return write_and_break(lab, [random.Random(seed) for seed in SEEDS])  # noqa: S311 (a seed that can be repeated)
