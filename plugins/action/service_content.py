"""Reads a file that a service may have written; with `dest`, copies it to the control node.

Ansible's own `fetch` reads as root, and follows a link that the service created instead of the file.
"""

import base64
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from aqueduct.errors import with_identifier

MODULE = "aqueduct.estate.service_content"


class ActionModule(ActionBase):
    """Arguments: those of the module of this name."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "src": {"type": "str", "required": True},
                "dest": {"type": "str"},
                "must_exist": {"type": "bool", "default": False},
            }
        )
        dest = given.pop("dest")
        if dest and self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "Nothing is copied in check mode."}
        result: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args=given, task_vars=task_vars or {}
        )
        if result.get("failed"):
            problem = str(result.get("msg") or result.get("module_stderr"))
            raise AnsibleActionFail(with_identifier("host-module-failed", problem))
        result.pop("invocation", None)
        if dest and "content" in result:
            written = Path(self._loader.path_dwim(dest))
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(base64.b64decode(result.pop("content")))
            result["dest"] = str(written)
        return result
