"""Write a text to a file of this machine. The module `copy` takes a second of processor time for that."""

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Arguments: `path` and `text`."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        Path(self._task.args["path"]).write_text(self._task.args["text"])
        return {"changed": True}
