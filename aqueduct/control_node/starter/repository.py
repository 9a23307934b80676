"""Creates a user's own repository in a folder."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

from aqueduct import DISTRIBUTION
from aqueduct.control_node.starter.inventory import inventory_files
from aqueduct.control_node.starter.requirements import ReleaseRequirements
from aqueduct.control_node.starter.sites import Sites
from aqueduct.errors import Failed, Refused

# Where each file of files/ goes. It has $name, the inventory's, $version, and what ReleaseRequirements has.
TOP = {
    "ansible.cfg": "ansible.cfg",
    "gitignore": ".gitignore",
    "check.yml": ".github/workflows/check.yml",
    "requirements.txt": "requirements.txt",
    "requirements.yml": "requirements.yml",
}
SHARED = (
    "backup.yml",
    "certificates.yml",
    "connection.yml",
    "kafka.yml",
)  # of machines; as in inventories/example
OF_LAB = "lab.yml"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to create."""

    name: str  # of the inventory
    sites: Sites
    is_lab: bool
    requirements: ReleaseRequirements


def planned_files(plan: Plan) -> Mapping[str, str]:
    """Return each file's content by its path in the repository."""
    inventory = f"inventories/{plan.name}"
    shared = {f"group_vars/{OF_LAB}": _text(OF_LAB)} if plan.is_lab else {}
    if not plan.is_lab:
        shared = {f"group_vars/all/{name}": _text(f"group_vars/all/{name}") for name in SHARED}
    given = {"name": plan.name, "version": version(DISTRIBUTION), **asdict(plan.requirements)}
    readme = "README-lab.md" if plan.is_lab else "README.md"
    return {
        **{path: Template(_text(name)).substitute(given) for name, path in TOP.items()},
        "README.md": Template(_text(readme)).substitute(given),
        **{
            f"{inventory}/{path}": text
            for path, text in {**shared, **inventory_files(plan.sites, is_lab=plan.is_lab)}.items()
        },
    }


def create(folder: Path, plan: Plan) -> list[str]:
    """Write the files, all or none, and return their paths; Refused if one of them exists."""
    content = planned_files(plan)
    try:
        if taken := sorted(path for path in content if os.path.lexists(folder / path)):
            raise Refused(
                "init-file-exists",
                f"{folder} already has {', '.join(taken)}. Choose another folder, or remove them. "
                "Nothing was written.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".aqueduct-init-") as scratch:
            for path, text in content.items():
                written = Path(scratch, path)
                written.parent.mkdir(parents=True, exist_ok=True)
                written.write_text(text, encoding="utf-8")
            _move(Path(scratch), folder, content)
    except OSError as error:
        raise Failed(
            "init-folder-unwritable",
            f"Cannot create the repository in {folder}: {error.strerror or error}. Choose another folder.",
        ) from None
    return sorted(content)


def _move(source: Path, target: Path, paths: Iterable[str]) -> None:
    """Give the files of one folder their names in another one; none of them, if one of the names is taken."""
    moved: list[Path] = []
    try:
        for path in paths:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(source / path, target / path)
            moved.append(target / path)
    except OSError:
        for each in moved:
            each.unlink()
        raise


def _text(name: str) -> str:
    return files("aqueduct.control_node.starter").joinpath("files", name).read_text(encoding="utf-8")
