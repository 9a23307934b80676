"""The old site, as the tests of this scenario break and ask it."""

import pytest
from lab import Lab
from old_site import OldSite


@pytest.fixture(scope="session")
def site(lab: Lab) -> OldSite:
    return OldSite(lab)
