"""A filter that finds a misspelt variable of a playbook, which Ansible would ignore without a word."""

from collections.abc import Callable, Collection
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

ROLES = Path(__file__).resolve().parents[2] / "roles"


def unknown_extra_vars(known: Collection[str]) -> list[str]:
    """Those of --extra-vars that are none of the known ones, of a role's variables, or of Ansible's."""
    prefixes = tuple(f"{owner}_" for owner in ("ansible", *(role.name for role in ROLES.iterdir())))
    return sorted(
        name for name in load_extra_vars(DataLoader()) if name not in known and not name.startswith(prefixes)
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[[Collection[str]], list[str]]]:
        return {"unknown_extra_vars": unknown_extra_vars}
