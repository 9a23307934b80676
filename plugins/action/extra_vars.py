"""Checks a playbook's command line and the release of the package before the playbook does anything."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.aqueduct.estate.plugins.filter.extra_vars import variables_of_roles
from ansible_collections.aqueduct.estate.plugins.plugin_utils.package import COLLECTION, PackageMissing

try:
    from aqueduct.control_node import release
    from aqueduct.errors import Refused
    from aqueduct.estate.playbook_variables import Declaration, check
except ImportError as error:
    raise PackageMissing(error) from None


class ActionModule(ActionBase):
    """Arguments: `variables` with their kinds, and the other fields of `Declaration`."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "variables": {"type": "dict", "required": True},
                "required": {"type": "list", "elements": "str", "default": []},
                "choices": {"type": "dict", "default": {}},
                "confirms": {"type": "str", "default": ""},
                "usage": {"type": "str", "default": ""},
            }
        )
        playbook, *_ = self._task.get_path().rsplit(":", 1)
        declaration = Declaration(
            playbook=f"playbooks/{Path(playbook).name}",
            kinds=given["variables"],
            required=given["required"],
            choices=given["choices"],
            confirms=given["confirms"],
            usage=given["usage"].strip(),
        )
        try:
            release.check_fit(COLLECTION)
            check(declaration, load_extra_vars(DataLoader()), variables_of_roles())
        except Refused as error:
            raise AnsibleActionFail(error.labelled) from error
        return {"changed": False}
