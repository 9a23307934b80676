"""Checks the whole inventory on the control node, with `aqueduct.estate.check`."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ansible import constants
from ansible._internal._datatag._tags import Origin, VaultedValue
from ansible._internal._templating._jinja_common import UndecryptableVaultError
from ansible.errors import AnsibleError
from ansible.module_utils._internal._datatag import AnsibleTagHelper
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.vault import AnsibleVaultError, EncryptedString, is_encrypted_file
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from aqueduct.common.wording import place
from aqueduct.control_node import certificates
from aqueduct.control_node.artifacts import BROKERS_ONLY
from aqueduct.estate.check import Repository, check
from aqueduct.estate.check.inventory import SHORT, Encrypted, Inventory, Unknown
from aqueduct.estate.check.settings import Definitions
from aqueduct.estate.check.variables import Roles, typed
from aqueduct.estate.provided_certificates import unsuitable


class ActionModule(ActionBase):
    """Arguments: `roles`, the roles' folder; `artifacts`, with digests and settings of Kafka's versions."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, arguments = self.validate_argument_spec(
            {"roles": {"type": "path", "required": True}, "artifacts": {"type": "path", "required": True}}
        )
        variables = task_vars or {}
        repository = read_repository(Path(arguments["roles"]), Path(arguments["artifacts"]))
        inventory = with_command_line(
            read_inventory(variables["groups"], variables["hostvars"], repository.roles),
            frozenset(load_extra_vars(self._loader)),
            repository.roles,
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
                "msg": f"[inventory-check-failed] The inventory has {count}, and no host was contacted. "
                "See `errors`.",
                "errors": "".join(f"{error}\n" for error in errors),
            }
        return result


def read_repository(roles: Path, artifacts: Path) -> Repository:
    options = {}
    for specs in sorted(roles.glob("*/meta/argument_specs.yml")):
        entry_points = yaml_load(specs.read_text())["argument_specs"].values()
        options[specs.parts[-3]] = {
            name: spec
            for entry_point in entry_points
            for name, spec in entry_point.get("options", {}).items()
        }
    digests = sorted(artifacts.glob("kafka-*.sha256"))
    return Repository(
        roles=Roles(options),
        defaults=yaml_load((roles / "kafka/defaults/main.yml").read_text()),
        supported_versions=[path.stem.removeprefix("kafka-") for path in digests],
        is_file=lambda path: Path(path).is_file(),
        provided_fault=lambda file, ca, principal: certificates.provided_fault(
            Path(file), Path(ca), principal, certificates.utc_now()
        ),
        broker_versions=BROKERS_ONLY,
        unsuitable=lambda file, service: unsuitable(file, Path(file).read_text(), service),
        definitions={
            definitions.version: definitions
            for path in artifacts.glob("kafka-*.configs.json")
            if (definitions := Definitions.parse(path.read_text()))
        },
    )


def read_inventory(groups: Mapping[str, list[str]], hostvars: Any, roles: Roles) -> Inventory:
    hosts, declarations = {}, {}
    secrets: set[str] = set()
    for host in groups["all"]:
        variables = hostvars.raw_get(host)
        declarations[host] = _origin(variables["inventory_hostname"]) or str(variables.get("inventory_file"))
        decrypted = {name: _decrypted(value, secrets) for name, value in variables.items()}
        hosts[host] = {
            name: _rendered(hostvars, host, name, value, secrets)
            for name, value in decrypted.items()
            if name.startswith(roles.prefixes)
        }
    folders = sorted({str(hostvars.raw_get(host).get("inventory_dir")) for host in groups["all"]})
    return Inventory(
        groups=groups,
        hosts=hosts,
        declarations=declarations,
        origin=_origin,
        group_files={
            path.stem if path.is_file() else path.name: place(str(path))
            for folder in folders
            for path in sorted(Path(folder, "group_vars").glob("[!.]*"))
        },
        ignored_files={
            place(str(path)): place(str(used))
            for folder in folders
            for kind in ("group_vars", "host_vars")
            for path, used in _ignored_files(Path(folder, kind))
        },
        secrets=frozenset(secrets),
    )


def with_command_line(inventory: Inventory, names: frozenset[str], roles: Roles) -> Inventory:
    """Return the inventory with the types that the texts of the command line's variables have for roles."""
    specs = {name: spec for name, spec in roles.variables.items() if name in names}
    hosts = {
        host: variables | {name: typed(variables[name], specs[name]) for name in specs.keys() & variables}
        for host, variables in inventory.hosts.items()
    }
    return replace(inventory, hosts=hosts, extra_variables=names)


def _ignored_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield files of variables that Ansible ignores, each with the path of the same name that it reads."""
    extensions = constants.YAML_FILENAME_EXTENSIONS
    used: dict[str, Path] = {}
    for extension in ("", *extensions):  # in Ansible's order
        for path in sorted(folder.glob("[!.]*")):
            own = "" if path.is_dir() or path.suffix not in extensions else path.suffix
            if own == extension:
                name = path.name.removesuffix(extension)
                if name in used:
                    yield path, used[name]
                used.setdefault(name, path)


def _rendered(hostvars: Any, host: str, name: str, value: Any, secrets: set[str]) -> Any:
    if not _has_template(value):
        return value
    try:
        return _decrypted(hostvars[host][name], secrets)
    except AnsibleError as error:
        if vault := _vault_error(error):
            return Unknown(undecryptable=_why(vault))
        undefined = re.search(r"'(\w+)' is undefined", str(error))
        return Unknown(undefined[1] if undefined else "")


def _decrypted(value: Any, secrets: set[str]) -> Any:
    """Return a value with texts in place of encrypted strings, and add those texts to `secrets`.

    The value is Unknown if a part of it cannot be decrypted. A value without such parts is returned as it is.
    """
    match value:
        case EncryptedString():
            try:
                return _secret(str(value), value, secrets)
            except AnsibleVaultError as error:
                return Unknown(undecryptable=_why(error))
        case str():
            is_secret = VaultedValue.is_tagged_on(value) or _is_from_encrypted_file(value)
            return _secret(value, value, secrets) if is_secret or _holds(value, secrets) else value
        case int() | float() if not isinstance(value, bool) and _is_from_encrypted_file(value):
            secrets.update({str(value)} if len(str(value)) >= SHORT else ())
            return value
        case Mapping():
            parts = {key: _decrypted(part, secrets) for key, part in value.items()}
            return _replaced(value, parts.values(), value.values(), parts)
        case list():
            items = [_decrypted(part, secrets) for part in value]
            return _replaced(value, items, value, items)
    return value


def _replaced(value: Any, parts: Collection[Any], former: Collection[Any], made: Any) -> Any:
    if undecryptable := next(filter(_is_undecryptable, parts), None):
        return undecryptable
    changed = any(part is not old for part, old in zip(parts, former, strict=True))
    return AnsibleTagHelper.tag_copy(value, made) if changed else value


def _is_undecryptable(value: Any) -> bool:
    return isinstance(value, Unknown) and value.undecryptable != ""


def _secret(text: str, source: Any, secrets: set[str]) -> Encrypted:
    encrypted = Encrypted(text)
    encrypted.origin = _origin(source)
    secrets.add(str(encrypted))
    return encrypted


def _holds(text: str, secrets: set[str]) -> bool:
    """Tell whether a text, such as what a template makes, has a secret in it."""
    return any(len(secret) >= SHORT and secret in text for secret in secrets)


def _is_from_encrypted_file(value: Any) -> bool:
    tag = Origin.get_tag(value)
    return tag is not None and tag.path is not None and _is_encrypted_file(tag.path)


@cache
def _is_encrypted_file(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return bool(is_encrypted_file(file))
    except OSError:
        return False


def _vault_error(error: BaseException | None) -> BaseException | None:
    """Return the error of a vault that another error was raised for."""
    while error and not isinstance(error, AnsibleVaultError | UndecryptableVaultError):
        error = error.__cause__ or error.__context__
    return error


def _why(error: BaseException) -> str:
    return str(error).removeprefix("Attempt to use undecryptable variable: ").rstrip(".")


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
    if isinstance(value, Encrypted):
        return value.origin
    tag = Origin.get_tag(value)
    if tag is None:
        return None
    return place(tag.path, tag.line_num) if tag.path else str(tag.description)
