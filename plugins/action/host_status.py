"""Asks a host for the state of its services: each role says in `_<role>_status` (vars/main.yml) what to ask.

Nothing is judged here: `aqueduct.control_node.status` does.
"""

import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from aqueduct.control_node.status.certificate_paths import CERTIFICATES
from aqueduct.estate.role_variables import RoleVariables

MODULE = "aqueduct.estate.host_facts"
TEXTS = {"type": "list", "elements": "str", "default": []}
NAMED = {"type": "dict", "default": {}}
STATUS: dict[str, dict[str, Any]] = {
    "units": TEXTS,  # of services that are to be active
    "runs": TEXTS,  # units that a timer starts
    "folders": TEXTS,  # of data
    "metrics": NAMED,  # ports of localhost, by name
    "files": NAMED,  # of metrics, by name
    "commands": NAMED,  # that print JSON, by name
}


class ActionModule(ActionBase):
    """Arguments: `roles`, the roles' folder; `seconds`, the time limit of each question. Returns `facts`."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {"roles": {"type": "path", "required": True}, "seconds": {"type": "int", "required": True}}
        )
        variables, roles = task_vars or {}, Path(given["roles"])
        try:
            asked = self._questions(roles, variables)
        except AnsibleError as error:
            return {"changed": False, "facts": {"error": f"its variables cannot be evaluated: {error}"}}
        services, runs = asked.pop("units"), asked.pop("runs")
        asked["units"] = [*services, *runs]
        began = time.time()
        result: dict[str, Any] = self._execute_module(
            module_name=MODULE,
            module_args={**asked, "certificates": [*CERTIFICATES], "seconds": given["seconds"]},
            task_vars=variables,
        )
        ended = time.time()
        facts = result.get("facts")
        if result.get("failed") or not isinstance(facts, dict):
            return {"changed": False, "facts": {"error": _reason(result)}}
        own = {
            "asked": began,
            "answered": ended,
            "services": services,
            "runs": runs,
            "exporters": [*asked["metrics"]],
        }
        return {"changed": False, "facts": {**facts, **own}}

    def _questions(self, roles: Path, variables: dict[str, Any]) -> dict[str, Any]:
        role_variables = RoleVariables(roles, self._load)
        asked: dict[str, Any] = {name: [] if spec is TEXTS else {} for name, spec in STATUS.items()}
        for declaration, role_status in role_variables.declarations("status", variables, self._evaluate):
            checked = ArgumentSpecValidator(STATUS).validate(role_status)
            if checked.error_messages:
                raise AnsibleActionFail(
                    f"[role-declaration-invalid] {declaration}: {'; '.join(checked.error_messages)}"
                )
            for name, value in checked.validated_parameters.items():
                if isinstance(value, dict):
                    asked[name].update(value)
                else:
                    asked[name] += [question for question in value if question not in asked[name]]
        return asked

    def _evaluate(self, text: Any, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(text)

    def _load(self, file: Path) -> dict[str, Any]:
        return self._loader.load_from_file(str(file), trusted_as_template=True) or {}


def _reason(result: dict[str, Any]) -> str:
    """Return why a host gave no facts: the last line of its errors, or Ansible's message."""
    errors = str(result.get("module_stderr") or "").strip()
    return errors.split("\n")[-1].strip() if errors else str(result.get("msg") or "no facts were returned")
