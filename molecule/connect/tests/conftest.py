"""Good, poisoned and good records go to both sinks once, for all tests of this scenario."""

import os
from pathlib import Path

import pytest
from lab import Lab
from lake import GOOD, POISON, Site, flight


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"]) / "inventory")


@pytest.fixture(scope="session")
def site(lab: Lab) -> Site:
    return Site(lab)


@pytest.fixture(scope="session")
def poisoned(site: Site) -> Site:
    site.write("flights", [*map(flight, range(GOOD)), POISON, *map(flight, range(GOOD, 2 * GOOD))])
    site.write("notes", [b'"before"', POISON, b'"after"'])
    return site
