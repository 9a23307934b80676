"""Packages that only some hosts have."""

from contextlib import AbstractContextManager

from aqueduct.work.packages import packages


def spark_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of what hosts without Spark lack: they run the others, and show all help."""
    return packages("spark")


def diode_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of packages that only the ends of a link have."""
    return packages("diode")


def connect_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of packages that hosts of Kafka Connect have."""
    return packages("connect")


def mirror_packages() -> AbstractContextManager[None]:
    """Guard a verb's imports of packages that hosts of the mirror engine `batches` have."""
    return packages("mirror")
