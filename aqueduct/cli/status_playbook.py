"""A run of the playbook `aqueduct.estate.status` for the verb `status`."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aqueduct import DISTRIBUTION
from aqueduct.common import timestamps
from aqueduct.errors import Failed, Refused

PLAYBOOK = "aqueduct.estate.status"
REPORTS, FACTS = "reports", "status-facts.json"


def ask(inventories: Sequence[Path], site: str, reports: Path | None) -> Any:
    """Ask all hosts of an inventory; return the file of facts. Failed if the playbook wrote none.

    `reports`: the folder of the reports; None: beside the first inventory, as the role `status` has it.
    """
    folder = (reports or _folder(inventories[0]) / REPORTS).resolve()
    variables = {"status_reports_directory": str(folder), "status_site": site}
    argv = [_program(), PLAYBOOK, *(f"--inventory={inventory}" for inventory in inventories)]
    began = timestamps.now()
    process = subprocess.run(  # noqa: S603 (Ansible's command)
        [*argv, "--extra-vars", json.dumps(variables)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    facts = _facts(folder / FACTS)
    if not isinstance(facts, dict) or not isinstance(facts.get("now"), int) or facts["now"] < began:
        sys.stderr.write((process.stdout + process.stderr).decode(errors="replace"))
        raise Failed(
            "estate-not-asked",
            f"The playbook {PLAYBOOK} queried no host (exit code {process.returncode}). Its output is above.",
        )
    return facts


def _folder(inventory: Path) -> Path:
    return inventory if inventory.is_dir() else inventory.parent


def _program() -> str:
    """Return Ansible's command, first that of the own Python environment."""
    own = Path(sys.executable).parent / "ansible-playbook"
    program = str(own) if own.exists() else shutil.which("ansible-playbook")
    if program is None:
        raise Refused(
            "python-package-missing",
            f"This host has no ansible-playbook: install {DISTRIBUTION}[controller].",
        )
    return program


def _facts(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
