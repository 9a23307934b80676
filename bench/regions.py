"""An inventory of many regions. Each region is a copy of `inventories/example` with additional hosts.

A region has five sites and 30 hosts: two production sites, two lakes that mirror them, and an enclave behind
a one-way link. The names of its sites begin with its number, such as r001pro1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "inventories/example"
REGION_HOSTS = 30
CONNECTORS, TABLES = 20, 20  # of each region
_SITE = re.compile(r"(?<![a-z0-9])(pro1|pro2|dwdev1|dwpro1|enclave1)(?![a-z0-9])")


@dataclass(frozen=True, kw_only=True)
class LoadedInventory:
    """An inventory as an action plugin sees it."""

    groups: Mapping[str, list[str]]
    hostvars: Mapping[str, Mapping[str, Any]]
    kafka_defaults: Mapping[str, Any]
    variables: VariableManager


def write_inventory(folder: Path, regions: int) -> None:
    """Write the files of an inventory into a folder."""
    shared = EXAMPLE / "group_vars/all"
    for path in shared.iterdir():
        _write(folder / path.relative_to(EXAMPLE), path.read_text())
    own = [path for path in EXAMPLE.rglob("*.yml") if path.parent != shared]
    for region in (f"r{number:03}" for number in range(1, regions + 1)):
        for path in own:
            name = path.name if path.name != "hosts.yml" else f"{region}.yml"
            target = folder / path.relative_to(EXAMPLE).with_name(name)
            _write(target.with_name(_of_region(target.name, region)), _of_region(path.read_text(), region))
        _write(folder / f"{region}-more.yml", _of_region(yaml.safe_dump(_more_hosts()), region))


def load_inventory(folder: Path) -> LoadedInventory:
    loader = DataLoader()
    manager = InventoryManager(loader, [str(folder)])
    variables = VariableManager(loader, manager)
    return LoadedInventory(
        groups=manager.get_groups_dict(),
        hostvars=HostVars(manager, variables, loader),
        kafka_defaults=yaml.safe_load((ROOT / "roles/kafka/defaults/main.yml").read_text()),
        variables=variables,
    )


def _of_region(text: str, region: str) -> str:
    return _SITE.sub(rf"{region}\1", text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _more_hosts() -> dict[str, Any]:
    """Return what the example lacks: brokers without a controller, landings and backups of files."""
    brokers = {
        f"kafka-{number}.pro1.example.com": {"kafka_node_id": number, "kafka_roles": ["broker"]}
        for number in (4, 5, 6)
    }
    land, files = "land-1.dwpro1.example.com", "files-1.pro1.example.com"
    connectors = [_connector(f"topic-{number:02}-to-files") for number in range(CONNECTORS)]
    workers = {
        f"connect-{number}.dwpro1.example.com": {"connect_connectors": connectors} for number in (1, 2)
    }
    tables = [
        {"table": f"events.topic_{number:02}", "topics": [f"pro1.topic-{number:02}"]}
        for number in range(TABLES)
    ]
    sources = [
        {"name": name, "host": "kafka-1.pro1.example.com", "folder": f"/srv/{name}"}
        for name in ("etc", "keys", "reports")
    ]
    groups: dict[str, dict[str, Any]] = {
        "site_pro1": {**brokers, files: {}},
        "site_dwpro1": {land: {}},
        "kafka": brokers,
        "connect": workers,
        "land": {land: {"land_tables": tables}},
        "file_backup": {files: {"file_backup_sources": sources}},
    }
    return {"all": {"children": {group: {"hosts": hosts} for group, hosts in groups.items()}}}


def _connector(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "config": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": f"pro2.{name}",
            "file": f"/srv/connect/{name}",
        },
    }
