"""Good, poisoned and good records go to both sinks once, for all tests of this scenario."""

import pytest
from lab import Lab
from lake import GOOD, POISON, Site, flight


@pytest.fixture(scope="session")
def site(lab: Lab) -> Site:
    return Site(lab)


@pytest.fixture(scope="session")
def poisoned(site: Site) -> Site:
    site.write("flights", [*map(flight, range(GOOD)), POISON, *map(flight, range(GOOD, 2 * GOOD))])
    site.write("notes", [b'"before"', POISON, b'"after"'])
    return site
