"""Finds, on the controller, the exporters of all hosts that are monitored, and writes what Prometheus needs.

Each role says in `_<role>_exporters` and in `metrics` of `_<role>_status` (vars/main.yml) which ports of
localhost give metrics. No host is contacted, so `--limit` leaves no target out.
"""

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from aqueduct.estate.exporters import Exporter, MonitoredHost, declared_exporters, targets
from aqueduct.estate.model import site_name
from aqueduct.estate.role_variables import RoleVariables


class ActionModule(ActionBase):
    """Arguments: `roles`, the roles' folder; `hosts` that are monitored; `directory` to write to; `rules` and
    `dashboards`, folders whose files are copied there. Returns `exporters` by host.
    """

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "roles": {"type": "path", "required": True},
                "hosts": {"type": "list", "elements": "str", "required": True},
                "directory": {"type": "path", "required": True},
                "rules": {"type": "path", "required": True},
                "dashboards": {"type": "path", "required": True},
            }
        )
        shared = {name: (task_vars or {})[name] for name in ("hostvars", "groups")}
        role_variables = RoleVariables(Path(given["roles"]), self._load)
        hosts = [
            self._monitored(role_variables, host, {**shared["hostvars"].raw_get(host), **shared})
            for host in given["hosts"]
        ]
        folder = Path(given["directory"])
        files = {folder / "targets.json": json.dumps(targets(hosts), indent=2) + "\n"}
        for part in ("rules", "dashboards"):
            files |= {
                folder / part / file.name: file.read_text(encoding="utf-8")
                for file in sorted(Path(given[part]).iterdir())
                if file.is_file()
            }
        changed = [file for file, content in files.items() if not self._is_current(file, content)]
        if not self._task.check_mode:
            for file in changed:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(files[file], encoding="utf-8")
        exporters = {
            host.name: [{"name": exporter.name, "port": exporter.port} for exporter in host.exporters]
            for host in hosts
        }
        return {"changed": bool(changed), "exporters": exporters, "files": [str(file) for file in changed]}

    def _monitored(
        self, role_variables: RoleVariables, host: str, variables: dict[str, Any]
    ) -> MonitoredHost:
        declared = dict(role_variables.declarations("address", variables, self._evaluate))
        return MonitoredHost(
            name=host,
            site=site_name(variables["group_names"]),
            address=str(declared["_monitoring_address"]),
            exporters=tuple(self._exporters(role_variables, variables)),
        )

    def _exporters(self, role_variables: RoleVariables, variables: dict[str, Any]) -> list[Exporter]:
        found: dict[str, Exporter] = {}
        for subject, evaluate in (("exporters", self._evaluate), ("status", self._evaluate_metrics)):
            for declaration, ports in role_variables.declarations(subject, variables, evaluate):
                role = declaration.removeprefix("_").removesuffix(f"_{subject}")
                found |= {exporter.name: exporter for exporter in declared_exporters(role, ports)}
        return list(found.values())

    def _evaluate_metrics(self, status: dict[str, Any], variables: dict[str, Any]) -> Any:
        """Evaluate the part of what is asked for the status that concerns metrics."""
        return self._evaluate(status.get("metrics", {}), variables)

    @staticmethod
    def _is_current(file: Path, content: str) -> bool:
        return file.is_file() and file.read_text(encoding="utf-8") == content

    def _evaluate(self, text: Any, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(text)

    def _load(self, file: Path) -> dict[str, Any]:
        return self._loader.load_from_file(str(file), trusted_as_template=True) or {}
