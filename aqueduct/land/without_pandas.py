"""Keeps Arrow from importing pandas, where that is installed: a second of each process, for nothing.

Arrow looks for it at the first list that it makes an array of, and never again.
"""

import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """A finder of modules that has no pandas, and lets others find the rest."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("Arrow need not have pandas here", name=name)


def keep() -> None:
    """Let Arrow look for pandas now, and find none; others may import it later."""
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
