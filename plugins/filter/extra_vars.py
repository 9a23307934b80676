"""Filters that find what is wrong with a playbook's --extra-vars, and Ansible would take without a word."""

from collections.abc import Callable, Collection
from pathlib import Path

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

ROLES = Path(__file__).resolve().parents[2] / "roles"
TRUTHS = {"true", "false", "yes", "no"}


def unknown_extra_vars(known: Collection[str]) -> list[str]:
    """Those that are none of the known ones, of a role's variables, or of Ansible's."""
    of_roles = {
        name
        for defaults in ROLES.glob("*/defaults/main.yml")
        for name in yaml.safe_load(defaults.read_text()) or ()
    }
    return sorted(
        name
        for name in load_extra_vars(DataLoader())
        if name not in known and name not in of_roles and not name.startswith("ansible_")
    )


def unclear_extra_vars(truths: Collection[str]) -> list[str]:
    """Those of the named ones that are neither true nor false: Ansible would take `ture` for false."""
    return sorted(
        f"{name}={value}"
        for name, value in load_extra_vars(DataLoader()).items()
        if name in truths and str(value).lower() not in TRUTHS
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[[Collection[str]], list[str]]]:
        return {"unknown_extra_vars": unknown_extra_vars, "unclear_extra_vars": unclear_extra_vars}
