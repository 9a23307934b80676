"""Checks that the collection and the Python package of the control node are of one release."""

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.aqueduct.estate.plugins.plugin_utils.package import COLLECTION, PackageMissing

try:
    from aqueduct.control_node import release
    from aqueduct.errors import AqueductError
except ImportError as error:
    raise PackageMissing(error) from None


class ActionModule(ActionBase):
    """It has no arguments."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self.validate_argument_spec({})
        try:
            release.check_fit(COLLECTION)
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        return {"changed": False}
