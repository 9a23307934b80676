"""estate.json has what the inventory declares, so that `aqueduct status --estate` misses nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.plugins.loader import action_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from kit import plugin_modules  # noqa: F401 (before Ansible looks for the collection)

from aqueduct.cli import main
from aqueduct.control_node.status.exporter_facts import EstateFile, read_estate
from aqueduct.control_node.status.model import ObjectKind
from aqueduct.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "inventories/lab"
MONITORED = {
    "all": {
        "hosts": {"pro1-kafka-1": {"backup_every_seconds": 300}},
        "children": {"monitoring": {"children": {"site_pro1": None, "site_dwdev1": None}}},
    }
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the action for the lab, of which two sites are monitored; return its folder."""
    folder = tmp_path_factory.mktemp("monitoring")
    (folder / "monitored.yml").write_text(json.dumps(MONITORED))
    loader = DataLoader()
    inventory = InventoryManager(loader, [str(LAB), str(folder / "monitored.yml")])
    variables = VariableManager(loader, inventory)
    groups = inventory.get_groups_dict()
    task_vars = {"hostvars": HostVars(inventory, variables, loader), "groups": groups}
    arguments = {
        "roles": str(ROOT / "roles"),
        "hosts": groups["monitoring"],
        "directory": str(folder),
        "rules": str(ROOT / "docs/alerts"),
        "dashboards": str(ROOT / "docs/dashboards"),
    }
    action = action_loader.get(
        "aqueduct.estate.exporter_targets",
        task=Task.load({"aqueduct.estate.exporter_targets": arguments}, loader=loader),
        connection=None,
        play_context=None,
        loader=loader,
        templar=Templar(loader, variables=task_vars),
        shared_loader_obj=None,
    )
    result = action.run(task_vars=task_vars)
    assert result["estate"] == (folder / "estate.json").read_text()
    return folder


def estate(folder: Path) -> EstateFile:
    return read_estate(json.loads((folder / "estate.json").read_text()))


def test_all_declared_objects_are_in_it(folder: Path) -> None:
    declared: list[dict[str, Any]] = list(estate(folder).document["declared"])
    hosts = {entry["name"] for entry in declared if entry["kind"] == ObjectKind.HOST.label}
    everything = InventoryManager(DataLoader(), [str(LAB)]).get_groups_dict()["all"]
    assert hosts == {*map(str, everything)}
    assert {entry["kind"] for entry in declared} == {kind.label for kind in ObjectKind}


def test_estate_file_lists_status_data_of_each_host(folder: Path) -> None:
    hosts = {host.name: host for host in estate(folder).hosts}
    lake = hosts["dwdev1-kafka-1"]
    assert {"kafka", "mirror_maker@pro1", "monitoring", "node_exporter"} <= {*lake.units}
    assert "node" in lake.exporters
    assert "kafka" not in lake.exporters, "the status evaluates nothing of the JMX exporter"
    assert lake.address == "dwdev1-kafka-1:9464"
    source = hosts["pro1-kafka-1"]
    assert any(exporter.startswith("diode_upstream@") for exporter in source.exporters)
    assert source.folders
    assert "backup" in source.exporters


def test_each_cluster_is_asked(folder: Path) -> None:
    clusters = {cluster.site: cluster for cluster in estate(folder).clusters}
    assert {"pro1", "pro2", "dwdev1", "dwpro1"} <= clusters.keys()
    assert "pro1-kafka-1" in clusters["pro1"].hosts
    assert clusters["pro1"].brokers
    assert "pro1-kafka-1:" in clusters["pro1"].bootstrap_servers


def test_limits_are_those_of_the_role_status(folder: Path) -> None:
    limits = estate(folder).document["limits"]
    assert (limits["disk_percent"], limits["certificate_days"]) == (85, 20)


def test_it_is_no_file_of_facts(folder: Path) -> None:
    assert main(["status", "--facts", str(folder / "estate.json")]) == ExitCode.REFUSED
