"""One run for all tests of this scenario: write, land and break, then read both ends."""

import random

import pytest
from lab import Lab
from lake_readers import Lake
from landing_faults import ALL, Outcome, land_and_break

# One seed of each class of fault in CI, and 2,000 rejected records on end.
SEEDS = range(1, 5) if ALL else range(1, 2)
POISON = 10_000 if ALL else 2_000


@pytest.fixture(scope="session")
def lake(lab: Lab) -> Lake:
    return Lake(lab)


@pytest.fixture(scope="session")
def outcome(lab: Lab) -> Outcome:
    """What both ends hold after all faults, each drawn from a seed."""
    return land_and_break(lab, [random.Random(seed) for seed in SEEDS], POISON, everywhere=ALL)  # noqa: S311
