"""A site is filled, backed up, lost, made again and restored, once for all tests of this scenario."""

import pytest
from estate import Estate
from lab import Lab
from loss import Outcome, lose_and_restore


@pytest.fixture(scope="session")
def estate(lab: Lab) -> Estate:
    return Estate(lab)


@pytest.fixture(scope="session")
def outcome(estate: Estate) -> Outcome:
    return lose_and_restore(estate)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is lost and restored first: the faults then have the restored site to themselves."""
    items.sort(key=lambda item: item.path.name != "test_restore.py")
