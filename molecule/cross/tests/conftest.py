"""Flights cross once for all tests of this scenario."""

from itertools import islice

import pytest
from crossing import Crossing
from lab import Lab

from demo.flights import flights

FLIGHTS = 20_000


@pytest.fixture(scope="session")
def crossing(lab: Lab) -> Crossing:
    crossing = Crossing(lab)
    crossing.write(islice(flights("EWR"), FLIGHTS))
    crossing.wait_until_equal()
    return crossing
