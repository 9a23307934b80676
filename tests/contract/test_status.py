"""Each object that an inventory declares is in the status, whether anything answered or not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from aqueduct.cli import main
from aqueduct.control_node.status import report
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.model import DeclaredObject, ObjectKind, ObjectState
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.control_node.status.shared_checks import EstateFacts
from aqueduct.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
# The scenario `installed` has its sites in the inventory that it creates.
SCENARIOS = sorted(path for path in ROOT.glob("molecule/*/inventory") if path.parent.name != "installed")
INVENTORIES = [ROOT / "inventories/lab", *SCENARIOS]
NOW = 1_780_000_000_000


def declared(inventory: Path) -> tuple[list[DeclaredObject], dict[str, list[str]]]:
    loader = DataLoader()
    manager = InventoryManager(loader, [str(inventory)])
    hostvars = HostVars(manager, VariableManager(loader, manager), loader)
    groups = manager.get_groups_dict()
    defaults = yaml.safe_load((ROOT / "roles/kafka/defaults/main.yml").read_text())
    return declared_objects(groups, hostvars, defaults), groups


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_object_is_unknown_where_nothing_answered(inventory: Path) -> None:
    objects, groups = declared(inventory)
    status = evaluate(objects, EstateFacts(hosts={}, now=NOW))
    assert {each.state for each in status.objects} == {ObjectState.UNKNOWN}
    assert len(status.objects) == len(objects)
    sites = [hosts for name, hosts in groups.items() if name.startswith("site_")]
    names = [each.name for each in objects if each.kind == ObjectKind.HOST]
    assert sorted(names) == sorted(host for hosts in sites for host in hosts)
    assert len({(each.kind, each.name) for each in objects}) == len(objects)


def test_the_lab_has_each_kind() -> None:
    objects, groups = declared(ROOT / "inventories/lab")
    assert {each.kind for each in objects} == set(ObjectKind)
    assert {each.name for each in objects if each.kind == ObjectKind.BROKER} == {*groups["kafka"]}
    flows = {each.name for each in objects if each.kind == ObjectKind.FLOW}
    assert flows == {
        f"{source} to {target}" for source in ("pro1", "pro2") for target in ("dwdev1", "dwpro1")
    }


def test_lab_with_one_answering_host_is_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects, _ = declared(ROOT / "inventories/lab")
    hosts: dict[str, Any] = {"pro1-kafka-1": {"time": 1, "asked": 1, "answered": 1}}
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(report.facts_document(objects, hosts, NOW, {}, [])))
    assert main(["status", "--facts", str(file), "--json"]) == ExitCode.INCOMPLETE
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["well"] == 0
    assert (
        main(["status", "--facts", str(file), "--html", str(tmp_path / "page.html")]) == ExitCode.INCOMPLETE
    )
    assert (tmp_path / "page.html").read_text().count('<tr><th scope="row">') == len(objects)
    file.write_text(json.dumps(report.facts_document(objects, {}, NOW, {}, [])))
    assert main(["status", "--facts", str(file)]) == ExitCode.FAILED
    assert main(["status", "--facts", str(file), "--site", "nowhere"]) == ExitCode.REFUSED
    assert main(["status", "--facts", str(tmp_path / "none")]) == ExitCode.REFUSED


def test_every_role_with_service_declares_status() -> None:
    """A comparison of reconcile ends; it has no unit."""
    files = {path.parents[1].name: path.read_text() for path in ROOT.glob("roles/*/vars/main.yml")}
    services = {role for role, text in files.items() if f"_{role}_needs:" in text}
    assert len(services) > 10
    assert {role for role in services if f"_{role}_status:" not in files[role]} == {"reconcile"}
