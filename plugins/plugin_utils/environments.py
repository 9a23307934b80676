"""The Python environments of hosts, in which modules run that use the package `aqueduct`.

The role `host` installs them, and the interpreter of a host's other tasks does not know them.
"""

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase

FOLDER = "/opt/aqueduct"
INTERPRETER = "ansible_python_interpreter"
# A variable with the interpreter to use instead: tests run modules where no environment is installed.
OVERRIDE = "_environment_python"


class EnvironmentAction(ActionBase):
    """Run the module with the name of the action in an environment of its host."""

    environment: ClassVar[str] = "base"

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = dict(task_vars or {})
        python = variables.get(OVERRIDE) or f"{FOLDER}/{self.environment}/bin/python"
        variables[INTERPRETER] = python
        if host := self._task.delegate_to:  # Ansible then takes the interpreter of that host
            delegated = dict(variables["ansible_delegated_vars"])
            variables["ansible_delegated_vars"] = delegated | {host: {**delegated[host], INTERPRETER: python}}
        result: dict[str, Any] = super().run(tmp, variables)
        return result | self._execute_module(module_args=self._task.args, task_vars=variables)
