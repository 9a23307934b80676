"""Checks the whole inventory on the controller. What is wrong is found by `aqueduct.estate.check`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from ansible._internal._datatag._tags import Origin
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from aqueduct.controller import certificates
from aqueduct.estate.check import Repository, check
from aqueduct.estate.check.inventory import Inventory, Unknown, place
from aqueduct.estate.check.settings import Definitions
from aqueduct.estate.check.variables import Roles


class ActionModule(ActionBase):
    """Arguments: `roles`, the roles' folder; `artifacts`, with digests and settings of Kafka's versions."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, arguments = self.validate_argument_spec(
            {"roles": {"type": "path", "required": True}, "artifacts": {"type": "path", "required": True}}
        )
        variables = task_vars or {}
        repository = read_repository(Path(arguments["roles"]), Path(arguments["artifacts"]))
        inventory = replace(
            read_inventory(variables["groups"], variables["hostvars"], repository.roles),
            extra_variables=frozenset(load_extra_vars(self._loader)),
        )
        findings = check(inventory, repository)
        errors = [str(finding) for finding in findings if not finding.is_warning]
        result: dict[str, Any] = {
            "changed": False,
            "warnings": [str(finding) for finding in findings if finding.is_warning],
        }
        if errors:
            count = f"{len(errors)} error{'s' * (len(errors) != 1)}"
            result |= {
                "failed": True,
                "msg": f"The inventory has {count}, and no host was touched. They stand under `errors`.",
                "errors": "".join(f"{error}\n" for error in errors),
            }
        return result


def read_repository(roles: Path, artifacts: Path) -> Repository:
    options = {}
    for specs in sorted(roles.glob("*/meta/argument_specs.yml")):
        entry_points = yaml.safe_load(specs.read_text())["argument_specs"].values()
        options[specs.parts[-3]] = {
            name: spec
            for entry_point in entry_points
            for name, spec in entry_point.get("options", {}).items()
        }
    digests = sorted(artifacts.glob("kafka-*.sha256"))
    return Repository(
        roles=Roles(options),
        defaults=yaml.safe_load((roles / "kafka/defaults/main.yml").read_text()),
        supported_versions=[path.stem.removeprefix("kafka-") for path in digests],
        is_file=lambda path: Path(path).is_file(),
        provided_fault=lambda file, ca, principal: certificates.provided_fault(
            Path(file), Path(ca), principal, certificates.utc_now()
        ),
        definitions={
            known.version: known
            for path in artifacts.glob("kafka-*.configs.json")
            if (known := Definitions.parse(path.read_text()))
        },
    )


def read_inventory(groups: Mapping[str, list[str]], hostvars: Any, roles: Roles) -> Inventory:
    hosts, declarations = {}, {}
    for host in groups["all"]:
        variables = hostvars.raw_get(host)
        declarations[host] = _origin(variables["inventory_hostname"]) or str(variables.get("inventory_file"))
        hosts[host] = {
            name: _rendered(hostvars, host, name, value)
            for name, value in variables.items()
            if name.startswith(roles.prefixes)
        }
    folders = {str(hostvars.raw_get(host).get("inventory_dir")) for host in groups["all"]}
    return Inventory(
        groups=groups,
        hosts=hosts,
        declarations=declarations,
        origin=_origin,
        group_files={
            path.stem if path.is_file() else path.name: place(str(path))
            for folder in sorted(folders)
            for path in sorted(Path(folder, "group_vars").glob("[!.]*"))
        },
    )


def _rendered(hostvars: Any, host: str, name: str, value: Any) -> Any:
    if not _has_template(value):
        return value
    try:
        return hostvars[host][name]
    except AnsibleError as error:
        undefined = re.search(r"'(\w+)' is undefined", str(error))
        return Unknown(undefined[1] if undefined else "")


def _has_template(value: Any) -> bool:
    match value:
        case str():
            return "{{" in value or "{%" in value
        case dict():
            return any(map(_has_template, value.values()))
        case list():
            return any(map(_has_template, value))
    return False


def _origin(value: object) -> str | None:
    """Tell where Ansible read a value: it keeps file and line with every value but null and booleans."""
    tag = Origin.get_tag(value)
    if tag is None:
        return None
    return place(tag.path, tag.line_num) if tag.path else str(tag.description)
