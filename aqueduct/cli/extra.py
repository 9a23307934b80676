"""Packages that only some hosts have."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from aqueduct.errors import Refused


def spark_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of what hosts without Spark lack: they run the others, and show all help."""
    return _packages("spark")


def diode_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of packages that only the ends of a link have."""
    return _packages("diode")


def connect_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of packages that hosts of Kafka Connect have."""
    return _packages("connect")


@contextmanager
def _packages(extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise Refused(
            "python-package-missing",
            f"This host has no Python package {error.name}: install aqueduct[{extra}].",
        ) from None
