"""Checks of variables against the argument_specs of roles: names, types, keys and choices.

Ansible's own validation converts values only for the validation, and the role uses the original ones:
`topics: flights` would pass as a list with one element, and the role would iterate over its characters.
Therefore nothing is converted here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Encrypted, Finding, Inventory, Path, Unknown, did_you_mean, some
from aqueduct.estate.playbook_variables import TRUTHS

Spec = Mapping[str, Any]  # an option of argument_specs: type, elements, choices, options, required

# Variables that a release removed, with the remedy. An entry stays for two minor releases.
REMOVED: Mapping[str, str] = {}


@dataclass(frozen=True)
class Roles:
    """The variables of roles. Names begin with the role's name, without the underscore of internal roles."""

    options: Mapping[str, Mapping[str, Spec]]  # specs by role and variable

    @cached_property
    def variables(self) -> dict[str, Spec]:
        return {name: spec for options in self.options.values() for name, spec in options.items()}

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        return tuple(sorted({role.lstrip("_") + "_" for role in self.options}))

    @cached_property
    def services(self) -> list[str]:
        """The roles that are deployed to the group with their name."""
        return sorted(role for role in self.options if not role.startswith("_"))


def check_variables(
    inventory: Inventory, roles: Roles, removed: Mapping[str, str] = REMOVED
) -> Iterator[Finding]:
    for host, name, value in distinct(inventory):
        for path, fault in _faults_of(name, value, roles, removed):
            yield inventory.finding(host, name, fault, path)
    for role in roles.services:
        for name in (name for name, spec in roles.options[role].items() if spec.get("required")):
            missing = [host for host in inventory.groups.get(role, ()) if name not in inventory.hosts[host]]
            if missing:
                fault = Labelled(
                    "variable-required", f"it has no default, and is not set for {some(missing)}; set it."
                )
                yield Finding(where=inventory.declared(missing[0]), what=name, fault=fault)


def distinct(inventory: Inventory) -> Iterator[tuple[str, str, Any]]:
    """Yield each value once, with a host that has it. Hosts share the objects of a file of group_vars."""
    seen = set()
    for host, variables in inventory.hosts.items():
        for name, value in variables.items():
            if (name, id(value)) not in seen:
                seen.add((name, id(value)))
                yield host, name, value


def _faults_of(
    name: str, value: Any, roles: Roles, removed: Mapping[str, str]
) -> Iterator[tuple[Path, Labelled]]:
    if name in removed:
        yield (), Labelled("variable-removed", f"this variable was removed: {removed[name]}")
    elif isinstance(value, Unknown) and value.undecryptable:
        remedy = "pass the vault's password with --vault-password-file or --ask-vault-pass"
        yield (
            (),
            Labelled(
                "value-not-decryptable",
                f"Ansible cannot decrypt its value ({value.undecryptable}); {remedy}.",
            ),
        )
    elif name not in roles.variables:
        prefix = max((prefix for prefix in roles.prefixes if name.startswith(prefix)), key=len)
        remedy = f"names that begin with {prefix} are reserved for Aqueduct's roles, so rename it."
        yield (
            (),
            Labelled(
                "variable-unknown",
                f"no role has this variable; {did_you_mean(name, roles.variables, remedy)}",
            ),
        )
    elif isinstance(value, Unknown):
        if _must_be_set(value.undefined, roles):
            remedy = "set it; if it is a secret, set it in a vault."
            yield (
                (),
                Labelled("variable-undefined", f"it uses {value.undefined}, which is not set; {remedy}"),
            )
    else:
        yield from faults(value, roles.variables[name], name=name)


def _must_be_set(name: str, roles: Roles) -> bool:
    """Return whether the inventory must set a variable: it belongs neither to a role nor to Ansible."""
    others = ("ansible_", "playbook_", "role_", "_")
    return name != "" and name not in roles.variables and not name.startswith(others)


def typed(value: Any, spec: Spec) -> Any:
    """Return a value of the command line with the type that roles use.

    On the command line, `true` is a text, to which roles apply the filter `bool`.
    """
    if spec.get("type") == "bool" and isinstance(value, str):
        return TRUTHS.get(value.lower(), value)
    return value


def is_sound(value: Any, spec: Spec) -> bool:
    """Return whether a value is known, and all its parts are valid."""
    return not isinstance(value, Unknown) and next(faults(value, spec), None) is None


def faults(value: Any, spec: Spec, path: Path = (), name: str = "") -> Iterator[tuple[Path, Labelled]]:
    """Yield the path and the fault of each part of a value that its spec does not allow."""
    kind = spec.get("type", "str")
    if value is None:
        yield path, Labelled("value-empty", "it is empty; give it a value or delete the line.")
    elif not fits(value, kind):
        yield path, Labelled("value-type-wrong", f"it must be {_KINDS[kind]}, not {shown(value, spec)}.")
    elif kind == "list":
        element = {**spec, "type": spec.get("elements", "raw")}
        for index, member in enumerate(value):
            yield from faults(member, element, (*path, index))
    elif kind == "dict" and "options" in spec:
        yield from _faults_of_keys(value, spec["options"], path)
    elif kind == "dict":
        yield from _faults_of_settings(value, path)
    elif "choices" in spec and value not in spec["choices"]:
        choices = [str(choice) for choice in spec["choices"]]
        remedy = did_you_mean(str(value), choices, "choose one of them.")
        yield path, Labelled("value-not-allowed", f"{value} is not one of {', '.join(choices)}; {remedy}")
    elif kind == "int" and (fault := _fault_of_number(name, int(value))):
        yield path, fault


def _faults_of_keys(
    value: Mapping[str, Any], options: Mapping[str, Spec], path: Path
) -> Iterator[tuple[Path, Labelled]]:
    for key, setting in value.items():
        if key in options:
            yield from faults(setting, options[key], (*path, key), name=key)
        else:
            remedy = did_you_mean(str(key), options, f"known keys are {', '.join(options)}.")
            yield (*path, key), Labelled("key-unknown", f"this key does not exist; {remedy}")
    for key, option in options.items():
        if option.get("required") and key not in value:
            yield path, Labelled("key-missing", f"the key {key} is missing; add it.")


def _faults_of_settings(value: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Labelled]]:
    """Check Kafka settings, which are texts. In `config` of a topic, null removes an override."""
    for key, setting in value.items():
        if isinstance(setting, Mapping | list):
            yield (
                (*path, key),
                Labelled(
                    "value-type-wrong", f"it must be a text in the form of Kafka, not {shown(setting)}."
                ),
            )
        elif setting is None and path[-1:] != ("config",):
            yield (*path, key), Labelled("value-empty", "it is empty; give it a value or delete the line.")


def _fault_of_number(name: str, value: int) -> Labelled | None:
    """Check a number by the unit at the end of its name."""
    if name.endswith("port") and not 1 <= value <= 65_535:
        return Labelled("number-out-of-range", f"{value} is not a port; use a number from 1 to 65535.")
    if name.endswith(("_days", "_mebibytes", "tasks", "threads")) and value < 1:
        return Labelled("number-out-of-range", f"it must be 1 or more, not {value}.")
    if name.endswith(("_seconds", "_bytes", "_id")) and value < 0:
        return Labelled("number-out-of-range", f"it must be 0 or more, not {value}.")
    return None


_KINDS = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "path": "a path",
    "str": "a text",
}


def fits(value: Any, kind: str) -> bool:
    """Return whether a value has a type of argument_specs. Numbers may be texts, as in `--extra-vars`."""
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "dict":
            return isinstance(value, Mapping)
        case "list":
            return isinstance(value, Sequence) and not isinstance(value, str)
        case "int" | "float" if isinstance(value, str):
            return value.removeprefix("-").replace(".", "", int(kind == "float")).isdecimal()
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "str" | "path":
            return isinstance(value, str | int | float) and not isinstance(value, bool)
    return True


def shown(value: Any, spec: Spec = MappingProxyType({})) -> str:
    """Format a value for a sentence. A value with `no_log` in its spec is not shown."""
    if spec.get("no_log"):
        return "its present value"
    match value:
        case Encrypted():
            return "an encrypted text"
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case str():
            return f'the text "{value if len(value) <= 40 else value[:37] + "..."}"'
        case Sequence():
            return "a list"
    return str(value)
