"""Optional Python packages, which only some hosts have."""

from collections.abc import Iterator
from contextlib import contextmanager

from aqueduct import DISTRIBUTION
from aqueduct.errors import Refused


@contextmanager
def packages(extra: str) -> Iterator[None]:
    """Guard imports of packages that an extra of Aqueduct installs; Refused if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Refused(
            "python-package-missing",
            f"The Python package {error.name} is not installed on this host. Install "
            f"{DISTRIBUTION}[{extra}].",
        ) from None
