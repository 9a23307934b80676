"""Creates the key pairs of one-way links, on the control node."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from aqueduct.errors import AqueductError
from aqueduct.link import keygen

OTHERS = 0o077


class ActionModule(ActionBase):
    """Arguments: `directory`, and `pairs`, of each its `kind` (receiver or sender) and `name`."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "directory": {"type": "path", "required": True},
                "pairs": {
                    "type": "list",
                    "elements": "dict",
                    "required": True,
                    "options": {
                        "kind": {"type": "str", "choices": ["receiver", "sender"], "required": True},
                        "name": {"type": "str", "required": True},
                    },
                },
            }
        )
        folder, made = Path(given["directory"]), []
        if not self._task.check_mode:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        for pair in given["pairs"]:
            private = folder / f"{pair['name']}.key"
            if private.exists():
                if private.stat().st_mode & OTHERS:
                    raise AnsibleActionFail(
                        "[key-file-permissions] "
                        f"Other users than the owner can read {private}. Run: chmod 0600 {private}"
                    )
                continue
            made.append(pair["name"])
            if not self._task.check_mode:
                try:
                    keygen.make(pair["kind"], folder, pair["name"], x25519=False)
                except AqueductError as error:
                    raise AnsibleActionFail(error.labelled) from error
        return {"changed": bool(made), "made": made}
