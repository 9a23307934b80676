"""What plugins say if Ansible's Python has not the package that they call."""

import sys
from pathlib import Path

from ansible.errors import AnsibleError

COLLECTION = Path(__file__).resolve().parents[2]


class PackageMissing(AnsibleError):
    """Ansible's Python cannot import `aqueduct`."""

    def __init__(self, error: ImportError) -> None:
        version = (COLLECTION / "VERSION").read_text().strip()
        super().__init__(
            f"[python-package-missing] Ansible's Python, {sys.executable}, cannot import Aqueduct: {error}. "
            f"Run '{sys.executable} -m pip install aqueduct-estate[controller]=={version}'. Nothing was done."
        )
