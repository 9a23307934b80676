"""Replaces the estate's own certificate authority, step by step, on the control node."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from aqueduct.control_node import certificates, replacement
from aqueduct.errors import AqueductError


class ActionModule(ActionBase):
    """Arguments: the `step` to take, or `rolled_out`, once all hosts have it; and the `directory` of the role
    certificates."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "step": {"type": "str", "choices": [*replacement.STEPS]},
                "rolled_out": {"type": "bool", "default": False},
                "directory": {"type": "path", "required": True},
            },
            required_one_of=[["step", "rolled_out"]],
        )
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "Nothing is replaced in check mode."}
        folder = Path(given["directory"]) / "ca"
        try:
            if given["rolled_out"]:
                changed = replacement.note_rolled_out(folder)
            else:
                changed = replacement.take_step(given["step"], folder, certificates.utc_now())
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        return {"changed": changed}
