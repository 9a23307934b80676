"""The role mirror_maker and flows of the engine `batches`: their files, their hosts, and their options."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

from aqueduct.cli import build_parser, config_file

ROOT = Path(__file__).resolve().parents[2]
SERVERS, GROUP = "pro1-kafka-1:9092", {"source": "pro1", "topics": ["flights", "orders-.*"]}
DEFAULTS = yaml.safe_load((ROOT / "roles/mirror_maker/defaults/main.yml").read_text())
FLOWS = [
    {**GROUP, "name": "java"},
    {
        **GROUP,
        "engine": "batches",
        "topics_exclude": ["orders-test"],
        "groups": ["billing"],
        "naming": "prefix",
        "tasks": 4,
        "line_ms": 80,
        "line_mbit": 200,
        "first_start": True,
    },
    {
        "source": "outside",
        "engine": "batches",
        "topics": ["bookings"],
        "source_servers": ["old:9092"],
        "source_settings": {"security.protocol": "PLAINTEXT"},
    },
]
CONSUMER = DEFAULTS["mirror_maker_consumer_settings"] | {"client.rack": "rack-2"}
INVENTORY = {
    "all": {
        "vars": {**DEFAULTS, "mirror_maker_flows": FLOWS, "mirror_maker_consumer_settings": CONSUMER},
        "children": {
            "site_pro1": {"hosts": {"pro1-kafka-1": {"kafka_node_id": 1}}},
            "site_lake": {"hosts": {"lake-kafka-1": {"kafka_node_id": 1}, "lake-2": {}}},
            "kafka": {"hosts": {"pro1-kafka-1": {}, "lake-kafka-1": {}}},
            "mirror_maker": {"hosts": {"lake-kafka-1": {}, "lake-2": {}}},
            "monitoring": {"hosts": {"lake-kafka-1": {}}},
        },
    }
}
PLAY = """
- hosts: mirror_maker
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {file: ROOT/roles/mirror_maker/vars/main.yml}
    - ansible.builtin.copy:
        dest: "{{ folder }}/{{ inventory_hostname }}.json"
        content: >-
          {{ {'units': _mirror_maker_units, 'needs': _mirror_maker_needs, 'awaited': _mirror_maker_awaited,
              'absent': _mirror_maker_absent, 'commands': _mirror_maker_status.commands} | to_json }}
        mode: "0600"
    - ansible.builtin.copy:
        dest: "{{ folder }}/{{ inventory_hostname }} {{ _mirror_maker_flow.name }}.json"
        content: "{{ _mirror_maker_contents.batches | to_json }}"
        mode: "0600"
      loop: "{{ _mirror_maker_flows | selectattr('engine', 'eq', 'batches') }}"
      loop_control: {loop_var: _mirror_maker_flow}
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return the role's variables by host, and the files of flows by host and flow."""
    folder = tmp_path_factory.mktemp("role")
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY, sort_keys=False))
    (folder / "play.yml").write_text(PLAY.replace("ROOT", str(ROOT)))
    (folder / "templates").symlink_to(ROOT / "roles/mirror_maker/templates")
    found = folder / "rendered"
    found.mkdir()
    extra = {
        "folder": str(found),
        "certificates_directory": str(folder / "certificates"),
        "_status_limit": {},
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    done = ansible_process.play(
        "-i", folder / "hosts.yml", folder / "play.yml", "--extra-vars", json.dumps(extra)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem: json.loads(path.read_text()) for path in found.iterdir()}


def options(rendered: Mapping[str, Any], flow: str, folder: Path) -> dict[str, Any]:
    """Return the options with which a unit runs `aqueduct replicate`, as its parser reads them."""
    files = rendered[f"lake-kafka-1 {flow}"]
    file = folder / "replicate.yml"
    file.write_text(files["replicate.yml"])
    command = files["start"].splitlines()[-1].split()
    assert command[:3] == ["exec", "/opt/aqueduct/mirror/bin/aqueduct", "replicate"]
    assert command[3:] == [f"--config=/etc/aqueduct/mirror_maker/{flow}/replicate.yml"]
    words = config_file.expanded(build_parser(), ["replicate", f"--config={file}"])
    return vars(build_parser().parse_args(words))


def test_options_are_those_of_the_inventory(rendered: Mapping[str, Any], tmp_path: Path) -> None:
    found = options(rendered, "pro1", tmp_path)
    tls = "/etc/aqueduct/mirror_maker/tls/client.properties"
    expected = {
        "flow": "pro1",
        "source_command_config": tls,
        "target_command_config": tls,
        "target_prefix": "pro1.",
        "source_rack": "rack-2",
        "line_ms": 80,
        "line_mbit": 200,
        "tasks": 4,
        "replication_factor": 1,
        "refresh": 60,
        "first_start": True,
        "again": (),
        "until_caught_up": False,
        "shared": True,
        "metrics_port": 9421,
        "report": None,
    }
    assert {name: found[name] for name in expected} == expected
    topics = found["topics_pattern"]
    assert [name for name in ("flights", "orders-1", "orders-test", "x") if topics.fullmatch(name)] == [
        "flights",
        "orders-1",
    ]
    assert found["groups_pattern"].fullmatch("billing")


def test_source_outside_inventory_gets_separate_settings(rendered: Mapping[str, Any], tmp_path: Path) -> None:
    found = options(rendered, "outside", tmp_path)
    assert found["source_command_config"] == "/etc/aqueduct/mirror_maker/outside/client.properties"
    assert found["groups_pattern"] is None
    assert rendered["lake-kafka-1 outside"]["client.properties"] == "security.protocol=PLAINTEXT\n"


def test_every_host_shares_it(rendered: Mapping[str, Any]) -> None:
    units = {host: [unit["name"] for unit in rendered[host]["units"]] for host in ("lake-kafka-1", "lake-2")}
    assert set(map(tuple, units.values())) == {
        ("mirror_maker@java", "mirror_maker@pro1", "mirror_maker@outside")
    }
    for host in units:
        assert rendered[host]["needs"]["environments"] == ["base", "mirror"]
    # All hosts share each flow, so one host waits for it.
    assert [len(rendered[host]["awaited"]) for host in ("lake-2", "lake-kafka-1")] == [3, 0]
    assert (ROOT / "locks/mirror.txt").is_file()


def test_unit_restarts_when_flow_file_changes(rendered: Mapping[str, Any]) -> None:
    for unit in rendered["lake-kafka-1"]["units"]:
        folder = f"/etc/aqueduct/mirror_maker/{unit['name'].partition('@')[2]}"
        assert {folder, "/etc/aqueduct/mirror_maker/tls"} <= {*unit["files"]}


def test_files_of_another_engine_are_removed(rendered: Mapping[str, Any]) -> None:
    absent, files = rendered["lake-kafka-1"]["absent"], rendered["lake-kafka-1 pro1"]
    assert {"mm2.properties", "java"} <= {*absent["batches"]} - {*files}
    assert all("replicate.yml" in absent[engine] for engine in ("mm2", "classic"))


def test_status_asks_the_engine(rendered: Mapping[str, Any]) -> None:
    asked = rendered["lake-kafka-1"]["commands"]["flow:pro1"]
    assert asked[-3:] == ["mirror", "--config=/etc/aqueduct/mirror_maker/pro1/mirror.yml", "--json"]
    options = yaml.safe_load(rendered["lake-kafka-1 pro1"]["mirror.yml"])
    assert (options["engine"], options["flow"]) == ("batches", "pro1")
    assert rendered["lake-2"]["commands"].keys() == rendered["lake-kafka-1"]["commands"].keys()
