"""Filters that read a playbook's --extra-vars: what Ansible would take without a word; and options.

A playbook declares its own once, as `{name: kind}`: `value` and `flag` become options of a command,
`--some-name=...` and `--some-name`; `own` is for the playbook alone.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from aqueduct.estate.playbook_variables import TRUTHS, unknown

ROLES = Path(__file__).resolve().parents[2] / "roles"


def misspelt_extra_vars(declared: Collection[str]) -> list[str]:
    """List the variables that are called as a role's and are none; others may be an inventory's own."""
    roles = tuple(f"{path.name}_" for path in ROLES.iterdir())
    names = unknown(load_extra_vars(DataLoader()), {*declared, *_options_of_roles()}, variables_of_roles())
    return [name for name in names if name.startswith(roles)]


def variables_of_roles() -> set[str]:
    return {
        name
        for defaults in ROLES.glob("*/defaults/main.yml")
        for name in yaml_load(defaults.read_text()) or ()
    }


def _options_of_roles() -> set[str]:
    return {
        name
        for specs in ROLES.glob("*/meta/argument_specs.yml")
        for entry_point in yaml_load(specs.read_text())["argument_specs"].values()
        for name in entry_point.get("options", {})
    }


def extra_vars_options(declared: Mapping[str, str]) -> list[str]:
    """Return the options of a command that were given, in the order of the declaration."""
    given = load_extra_vars(DataLoader())
    options = []
    for name, kind in declared.items():
        option = f"--{name.replace('_', '-')}"
        if name not in given or kind == "own":
            continue
        if kind == "value":
            options.append(f"{option}={given[name]}")
        elif TRUTHS[str(given[name]).lower()]:
            options.append(option)
    return options


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {
            "misspelt_extra_vars": misspelt_extra_vars,
            "extra_vars_options": extra_vars_options,
        }
