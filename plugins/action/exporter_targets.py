"""Finds the exporters of all monitored hosts, and writes the files for Prometheus, on the control node.

The file `estate.json` lists all declared objects and the addresses to query: `aqueduct status --estate`
reads it.

Each role declares the ports on localhost that serve metrics, in `_<role>_exporters` and in `metrics` of
`_<role>_status` (vars/main.yml). No host is contacted, so the files contain all targets, also with `--limit`.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from aqueduct.control_node.status.exporter_facts import NODE, EstateFile, ScrapedCluster, ScrapedHost
from aqueduct.control_node.status.model import StatusLimits
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.report import estate_document
from aqueduct.estate.exporters import Exporter, MonitoredHost, declared_exporters, targets
from aqueduct.estate.model import read_site, site_name, site_names
from aqueduct.estate.role_variables import RoleVariables

LISTS = ("units", "runs", "folders")  # of `_<role>_status`, which exporters show


@dataclass(frozen=True, kw_only=True)
class HostDeclarations:
    """A monitored host, and what its roles say that is asked for the status."""

    host: MonitoredHost
    metrics: tuple[str, ...]  # exporters whose metrics the status has
    lists: dict[str, tuple[str, ...]]


class ActionModule(ActionBase):
    """Arguments: `roles`, the roles' folder; `hosts` that are monitored; `directory` to write to; `rules` and
    `dashboards`, folders whose files are copied there. Returns `exporters` by host, and `estate`, the text of
    estate.json.
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
        declarations = [
            self._monitored(role_variables, host, {**shared["hostvars"].raw_get(host), **shared})
            for host in given["hosts"]
        ]
        hosts = [declared.host for declared in declarations]
        folder = Path(given["directory"])
        estate = self._estate(Path(given["roles"]), declarations, shared)
        estate_text = json.dumps(estate.text_fields(), indent=1, default=str) + "\n"
        files = {
            folder / "targets.json": json.dumps(targets(hosts), indent=2) + "\n",
            folder / "estate.json": estate_text,
        }
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
        return {
            "changed": bool(changed),
            "exporters": exporters,
            "estate": estate_text,
            "files": [str(file) for file in changed],
        }

    def _monitored(
        self, role_variables: RoleVariables, host: str, variables: dict[str, Any]
    ) -> HostDeclarations:
        declared = dict(role_variables.declarations("address", variables, self._evaluate))
        lists: dict[str, list[str]] = {name: [] for name in LISTS}
        metrics = [NODE]
        for _, status in role_variables.declarations("status", variables, self._evaluate_status):
            metrics += [str(name) for name, port in status["metrics"].items() if int(port) > 0]
            for name, names in lists.items():
                names += [str(text) for text in status[name] if str(text) not in names]
        return HostDeclarations(
            host=MonitoredHost(
                name=host,
                site=site_name(variables["group_names"]),
                address=str(declared["_monitoring_address"]),
                exporters=tuple(self._exporters(role_variables, variables)),
            ),
            metrics=tuple(dict.fromkeys(metrics)),
            lists={name: tuple(names) for name, names in lists.items()},
        )

    def _estate(
        self, roles: Path, declarations: list[HostDeclarations], shared: dict[str, Any]
    ) -> EstateFile:
        """Return what the inventory declares, for `aqueduct status --estate`."""
        groups, hostvars = shared["groups"], shared["hostvars"]
        defaults = self._load(roles / "kafka/defaults/main.yml")
        objects = declared_objects(groups, hostvars, defaults)
        settings = self._load(roles / "status/defaults/main.yml")
        settings = {name: hostvars[declarations[0].host.name].get(name, settings[name]) for name in settings}
        limits = {limit.name: int(settings[f"status_{limit.name}"]) for limit in fields(StatusLimits)}
        sites = [read_site(groups, hostvars, defaults, name) for name in site_names(groups)]
        return EstateFile(
            document=estate_document(objects, limits, settings["status_unreachable_sites"]),
            hosts=tuple(
                ScrapedHost(
                    name=declared.host.name,
                    site=declared.host.site,
                    address=declared.host.address,
                    exporters=declared.metrics,
                    **declared.lists,
                )
                for declared in declarations
            ),
            clusters=tuple(
                ScrapedCluster(
                    site=site.name,
                    bootstrap_servers=",".join(node.address for node in site.brokers),
                    brokers=tuple(node.node_id for node in site.brokers),
                    hosts=tuple(node.host for node in site.nodes),
                )
                for site in sites
                if site.brokers
            ),
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

    def _evaluate_status(self, status: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Evaluate the parts of what is asked for the status that exporters show."""
        parts = {"metrics": status.get("metrics", {})} | {name: status.get(name, []) for name in LISTS}
        return {name: self._evaluate(part, variables) for name, part in parts.items()}

    @staticmethod
    def _is_current(file: Path, content: str) -> bool:
        return file.is_file() and file.read_text(encoding="utf-8") == content

    def _evaluate(self, text: Any, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables).template(text)

    def _load(self, file: Path) -> dict[str, Any]:
        return self._loader.load_from_file(str(file), trusted_as_template=True) or {}
