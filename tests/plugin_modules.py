"""Ansible modules, run and imported with plugins/module_utils, as Ansible brings both to a host."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[1]
UTILS, MODULES = ROOT / "plugins/module_utils", ROOT / "plugins/modules"
RUN = """
import runpy, sys
import ansible.module_utils
_, utils, module = sys.argv
ansible.module_utils.__path__.append(utils)
sys.argv = [module]
runpy.run_path(module, run_name="__main__")
"""


def load(name: str) -> ModuleType:
    """Import a module to call its parts."""
    if str(UTILS) not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(str(UTILS))
    spec = importlib.util.spec_from_file_location(name, MODULES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a module as Ansible does; return what it answers."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(UTILS), str(MODULES / f"{name}.py")],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
