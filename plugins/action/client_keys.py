"""Creates the estate's own CA, and keys and certificates of clients, on the control node."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from aqueduct.control_node import certificates
from aqueduct.errors import AqueductError


class ActionModule(ActionBase):
    """Arguments: `clients` (principals), and variables of the role certificates without its name."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "clients": {"type": "list", "elements": "str", "required": True},
                "directory": {"type": "path", "required": True},
                "validity_days": {"type": "int", "required": True},
                "renewal_days": {"type": "int", "required": True},
            }
        )
        if self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "Nothing is created in check mode."}
        root, now = Path(given["directory"]), certificates.utc_now()
        folders = (root, root / "ca", root / "clients")
        try:
            for folder in folders:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            authority, changed = certificates.have_authority(root / "ca", now)
            for principal in given["clients"]:
                spec = certificates.Wanted(
                    principal=principal,
                    names=(),
                    usages=certificates.CLIENT,
                    validity_days=given["validity_days"],
                    renewal_days=given["renewal_days"],
                )
                made = certificates.have_client(root / "clients", spec, authority, root / "ca/ca.pem", now)
                changed = made or changed
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        return {"changed": changed}
