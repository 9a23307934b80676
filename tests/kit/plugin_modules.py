"""Ansible modules, run and imported with the collection's module_utils, as Ansible does on a host."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.plugins.loader import init_plugin_loader

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS, MODULES = ROOT / "collections", ROOT / "plugins/modules"
RUN = """
import runpy, sys
_, collections, module = sys.argv
sys.path.append(collections)
sys.argv = [module]
runpy.run_path(module, run_name="__main__")
"""

# As Ansible's commands do at their start, so that this process finds the collection. Before any test runs:
# once Python itself has imported something of it, Ansible finds nothing of it any more.
init_plugin_loader([])


def load(name: str) -> ModuleType:
    """Import a module, to call its functions."""
    return _load(name, MODULES / f"{name}.py")


def load_filters(name: str) -> ModuleType:
    """Import a file of filters to call them."""
    return _load(name, ROOT / f"plugins/filter/{name}.py")


def _load(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a module as Ansible does, and return its result."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(COLLECTIONS), str(MODULES / f"{name}.py")],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
