"""The old site, as the tests of this scenario break and ask it."""

import pytest
from lab import Lab
from old_site import OldSite


@pytest.fixture(scope="session")
def site(lab: Lab) -> OldSite:
    return OldSite(lab)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lead the site out last: what comes after that has no ZooKeeper."""
    items.sort(key=lambda item: item.path.stem == "test_leading_out")
