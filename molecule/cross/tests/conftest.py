"""Flights cross once for all tests of this scenario."""

import os
from itertools import islice
from pathlib import Path

import pytest
from crossing import Crossing
from lab import Lab

from demo.flights import flights

FLIGHTS = 20_000


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]) / "inventory")


@pytest.fixture(scope="session")
def crossing(lab: Lab) -> Crossing:
    crossing = Crossing(lab)
    crossing.write(islice(flights("EWR"), FLIGHTS))
    crossing.wait_until_equal()
    return crossing
