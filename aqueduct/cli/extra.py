"""Packages that only some hosts have."""

from collections.abc import Iterator
from contextlib import contextmanager

from aqueduct.errors import Refused


@contextmanager
def spark_packages() -> Iterator[None]:
    """For a verb's imports of what hosts without Spark lack: they run the others, and show all help."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Refused(f"This host has no Python package {error.name}: install aqueduct[spark].") from None
