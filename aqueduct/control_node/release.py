"""Whether the collection and the Python package of this control node are of one release."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import aqueduct
from aqueduct import DISTRIBUTION
from aqueduct.control_node.names import code_digest
from aqueduct.errors import Refused

HERE = Path(aqueduct.__file__).resolve().parents[1]


def check_fit(collection: Path) -> None:
    """Refuse a collection whose modules differ from those that this process runs.

    The hosts would get modules of another release than that of the control node.
    """
    root = collection.resolve()
    if root == HERE or code_digest(root) == code_digest(HERE):
        return
    release = (root / "VERSION").read_text().strip()
    raise Refused(
        "release-mismatch",
        f"The collection aqueduct.estate {release} in {root} and the Python package {DISTRIBUTION} "
        f"{_installed()} in {HERE} have different releases. Install the same release of both: run "
        f"'{sys.executable} -m pip install {DISTRIBUTION}[controller]==VERSION' and "
        "'ansible-galaxy collection install --force aqueduct.estate:==VERSION'. "
        "Nothing was done.",
    )


def _installed() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a folder on PYTHONPATH
        return "(from a folder)"
