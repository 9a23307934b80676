"""Tells what the services of a host need there: each role says it in its `_<role>_needs` (vars/main.yml).

Nothing is asked of the host. What several services need is told once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from aqueduct.estate.role_variables import RoleVariables

KEY_PACKAGES = ["python3-cryptography"]  # the module host_keys makes keys and stores with it
CONFIGURATION = "/etc/"
TEXTS = {"type": "list", "elements": "str", "default": []}
NEEDS: dict[str, dict[str, Any]] = {
    "user": {"type": "str", "required": True},
    "home": {"type": "str", "required": True},
    # Who owns the keys, where users of the service can run programs: another user than the service's.
    "key_user": {"type": "str"},
    "groups": TEXTS,  # further ones of the user
    # The user's, unless they name an owner, or a group that shares all that is created there. Those of its
    # configuration are root's, and the user's group may read them: a service leads root nowhere by a link.
    "folders": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "owner": {"type": "str"},
            "shared_by": {"type": "str"},
            "mode": {"type": "str", "default": "0700"},
        },
    },
    "packages": TEXTS,  # of the distribution
    "kafka": TEXTS,  # versions
    "hadoop": TEXTS,  # versions
    "environments": TEXTS,  # locks
    "versitygw": TEXTS,  # versions
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "maven": {"type": "str"},
            "url": {"type": "str"},
            "sha256": {"type": "str"},
            "folder": {"type": "str", "required": True},
        },
    },
    "keys": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "no_log": False,
        "options": {
            "principal": {"type": "str", "required": True},
            "folder": {"type": "str", "required": True},
            "names": TEXTS,
            # Whether others connect to it, so that its certificate is a server's, too.
            "serves": {"type": "bool", "default": True},
            "java_password": {"type": "str", "no_log": True},
        },
    },
}


class ActionModule(ActionBase):
    """Argument: `roles`, the roles' folder. Returns `needs`."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec({"roles": {"type": "path", "required": True}})
        variables, roles = task_vars or {}, Path(given["roles"])
        role_variables = RoleVariables(roles, self._load)
        needs: dict[str, list[Any]] = {
            name: []
            for name in ("users", "folders", "packages", "kafka", "hadoop", "environments", "versitygw")
        } | {"files": [], "keys": []}
        for declaration, role_needs in role_variables.declarations("needs", variables, self._evaluate):
            checked = ArgumentSpecValidator(NEEDS).validate(role_needs)
            if checked.error_messages:
                raise AnsibleActionFail(
                    f"[role-declaration-invalid] {declaration}: {'; '.join(checked.error_messages)}"
                )
            self._add(needs, checked.validated_parameters)
        # Passwords of Java's stores are among them: callbacks show nothing of it, the next tasks have all.
        return {
            "changed": False,
            "needs": {name: _once(listed) for name, listed in needs.items()},
            "_ansible_no_log": True,
        }

    def _evaluate(self, text: Any, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(text)

    def _load(self, file: Path) -> dict[str, Any]:
        return self._loader.load_from_file(str(file), trusted_as_template=True) or {}

    @staticmethod
    def _add(needs: dict[str, list[Any]], service: dict[str, Any]) -> None:
        owner = service["user"]
        needs["users"].append({"name": owner, "home": service["home"], "groups": service["groups"]})
        needs["folders"] += [_owned(folder, owner) for folder in service["folders"]]
        if service["key_user"]:
            needs["users"].append({"name": service["key_user"], "home": "/nonexistent", "groups": []})
        needs["keys"] += [{**key, "owner": service["key_user"] or owner} for key in service["keys"]]
        needs["packages"] += KEY_PACKAGES if service["keys"] else []
        for name in ("packages", "kafka", "hadoop", "environments", "versitygw", "files"):
            needs[name] += service[name]


def _owned(folder: dict[str, Any], user: str) -> dict[str, Any]:
    """Say whose a folder is that names no owner."""
    if folder["owner"]:
        return folder
    if folder["path"].startswith(CONFIGURATION):
        return {**folder, "owner": "root", "group": user, "mode": "0750"}
    return {**folder, "owner": user}


def _once(needs: Sequence[Any]) -> list[Any]:
    return [need for index, need in enumerate(needs) if need not in needs[:index]]
