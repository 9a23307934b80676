"""The variables that a playbook accepts on its command line (`--extra-vars`)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct.errors import Refused

NOTHING_DONE = "Nothing was done."
TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The variables of a playbook.

    kinds: by variable; `value` and `flag` become options of a command, `own` is only for the playbook.
    required: variables that must be passed.
    choices: the permitted values, by variable.
    confirms: the variable whose value `confirm` must repeat.
    usage: the remedy in errors; if empty, the list of the variables.
    """

    playbook: str
    kinds: Mapping[str, str]
    required: Collection[str] = ()
    choices: Mapping[str, Collection[str]]
    confirms: str = ""
    usage: str = ""

    def remedy(self) -> str:
        return self.usage or f"Variables of this playbook: {', '.join(self.kinds)}."


def unknown(given: Collection[str], declared: Collection[str], of_roles: Collection[str]) -> list[str]:
    """Return the variables that belong neither to the playbook, nor to a role, nor to Ansible."""
    return sorted(
        name
        for name in given
        if name not in declared and name not in of_roles and not name.startswith("ansible_")
    )


def check(declaration: Declaration, given: Mapping[str, Any], of_roles: Collection[str]) -> None:
    """Raise `Refused` for variables that Ansible would accept silently."""
    playbook, remedy = declaration.playbook, declaration.remedy()
    if names := unknown(given, declaration.kinds, of_roles):
        raise Refused(
            "playbook-variable-unknown",
            f"{playbook} has no variable {', '.join(names)}. {NOTHING_DONE} {remedy}",
        )
    if missing := [name for name in declaration.required if name not in given]:
        raise Refused(
            "playbook-variable-missing", f"{playbook} requires {', '.join(missing)}. {NOTHING_DONE} {remedy}"
        )
    flags = [name for name, kind in declaration.kinds.items() if kind == "flag" and name in given]
    if unclear := sorted(f"{name}={given[name]}" for name in flags if str(given[name]).lower() not in TRUTHS):
        raise Refused(
            "playbook-variable-invalid", f"{', '.join(unclear)}: must be true or false. {NOTHING_DONE}"
        )
    for name, choices in declaration.choices.items():
        if given.get(name) and str(given[name]) not in choices:
            raise Refused(
                "playbook-variable-invalid",
                f"{name}={given[name]}: must be {' or '.join(choices)}. {NOTHING_DONE} {remedy}",
            )
    confirms = declaration.confirms
    if confirms and "confirm" in given and given["confirm"] != given.get(confirms):
        raise Refused(
            "playbook-variable-invalid",
            f"confirm={given['confirm']}: must be the value of {confirms}. {NOTHING_DONE} {remedy}",
        )
