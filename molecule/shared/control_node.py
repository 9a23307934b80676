"""A control node of an installed release: its environment, and what its playbooks changed."""

import os
import re

# An installed release does not inherit what molecule, pytest and the checkout's environment set.
OWN_VARIABLES = ("ANSIBLE_", "MOLECULE_", "PYTEST_", "PYTHON", "VIRTUAL_ENV")


def environment(path: str) -> dict[str, str]:
    """Return the environment of a control node's programs; `path`: their folders, as in PATH."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    return inherited | {"PATH": path, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}


def changes(output: str) -> dict[str, int]:
    """Return how many tasks changed something, by host, from a playbook's recap."""
    recap = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+) ", output, re.MULTILINE)
    return {host: int(number) for host, number in recap}
