"""Evaluates the answers of all hosts on the control node; prints the state, and writes it for programs."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase

from aqueduct.common import timestamps
from aqueduct.control_node.status import first_sight, metrics, report
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.model import StatusLimits
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.page import page
from aqueduct.errors import AqueductError, ExitCode
from aqueduct.estate.model import site_names

FIRST_SEEN = "status-first-seen.json"
NUMBERS = tuple(limit.name for limit in fields(StatusLimits))


class ActionModule(ActionBase):
    """Arguments: `hosts` of the play; `answers`, the variable in which each host has its own; `roles`, the
    roles' folder; `directory` for the files; and variables of the role status without its name."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "str", "required": True},
                "answers": {"type": "str", "required": True},
                "roles": {"type": "path", "required": True},
                "directory": {"type": "path", "required": True},
                "site": {"type": "str", "default": ""},
                "unreachable_sites": {"type": "list", "elements": "str", "default": []},
                "verbose": {"type": "bool", "default": False},
                **{name: {"type": "int", "required": True} for name in NUMBERS},
            }
        )
        variables = task_vars or {}
        groups, hostvars = variables["groups"], variables["hostvars"]
        try:
            self._check_sites(given, site_names(groups))
            defaults = yaml_load((Path(given["roles"]) / "kafka/defaults/main.yml").read_text())
            declared = declared_objects(groups, hostvars, defaults)
            answers = {host: _facts(hostvars[host].get(given["answers"])) for host in given["hosts"]}
            limits = {name: given[name] for name in NUMBERS}
            folder = Path(given["directory"])
            earlier = first_sight.parse(_json(folder / FIRST_SEEN))
            source = report.facts_document(
                declared, answers, timestamps.now(), limits, given["unreachable_sites"], earlier
            )
            source = json.loads(json.dumps(source, default=str))  # without what Ansible keeps with its texts
            objects, facts, beyond = report.read_facts(source)
            status = evaluate(objects, facts, unreachable=beyond, site=given["site"])
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        self._display.display(report.text(status, verbose=given["verbose"]))
        folder.mkdir(parents=True, exist_ok=True)
        seen = first_sight.remembered(status, objects, facts.first_sights or {})
        _write(folder / FIRST_SEEN, json.dumps(first_sight.entries(seen), indent=2))
        _write(folder / "status-facts.json", json.dumps(source))
        _write(folder / "status.json", json.dumps(report.document(status), indent=2, ensure_ascii=False))
        _write(folder / "status.html", page(status))
        _write(folder / "status.prom", metrics.text(status).removesuffix("\n"))
        return {
            "changed": False,
            "failed": status.exit_code != ExitCode.DONE,
            "exit_code": int(status.exit_code),
            "msg": f"{report.summary(status)} See {folder / 'status.html'}.",
        }

    @staticmethod
    def _check_sites(given: Mapping[str, Any], sites: list[str]) -> None:
        named = [*given["unreachable_sites"], *filter(None, [given["site"]])]
        if unknown := sorted({*named} - {*sites}):
            raise AnsibleActionFail(
                "[site-unknown] "
                f"The inventory has no site {', '.join(unknown)}. Its sites: {', '.join(sites)}. "
                "Correct status_site or status_unreachable_sites."
            )


def _facts(answer: Any) -> Any:
    """Return the facts of a host's answer, or why it gave none."""
    if not isinstance(answer, Mapping):
        return None
    return answer.get("facts") or {"error": str(answer.get("msg") or "the host was not queried")}


def _json(path: Path) -> Any:
    """Return the content of a file; None: there is none, or it is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, content: str) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(f"{content}\n", encoding="utf-8", errors="backslashreplace")
    unfinished.replace(path)
