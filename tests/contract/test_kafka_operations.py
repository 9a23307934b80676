"""Roles of operations on Kafka use the variables of the role kafka."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

from aqueduct.estate.role_variables import RoleVariables

ROOT = Path(__file__).resolve().parents[2]
HOST = {"kafka_node_id": 7, "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
INVENTORY = {
    "all": {
        "children": {
            "site_pro1": {"hosts": {"kafka-1": HOST, "kafka-2": HOST | {"kafka_node_id": 8}}},
            "kafka": {"children": {"site_pro1": None}},
        }
    }
}
# In place of systemd, which containers of CI lack: it prints its arguments and fails as a refused command.
SYSTEMD_RUN = """#!/bin/sh
echo "$@" >&2
exit 2
"""
CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "kafka_migration": ("check", {}, ["[migration-broker-unfit] Kafka 4.3.1 ", "for site pro1"]),
    "kafka_quorum": (
        "restore",
        {"_kafka_quorum_options": ["--dry-run"]},
        ["The run cannot inspect kafka-2"],
    ),
    "kafka_broker_ids": (
        "repair",
        {"_kafka_broker_ids_step": "plan", "_kafka_lost_folders": []},
        ["repair inspect --data-folder /var/lib/kafka/log"],
    ),
}


def role_runs(folder: Path, role: str, entry_point: str, variables: dict[str, Any]) -> str:
    runner = folder / "systemd-run"
    runner.write_text(SYSTEMD_RUN)
    runner.chmod(0o755)
    included = {"name": f"aqueduct.estate.{role}", "tasks_from": entry_point}
    play = {
        "hosts": "kafka",
        "gather_facts": False,
        "environment": {"PATH": f"{folder}:/usr/bin:/bin"},
        "tasks": [{"ansible.builtin.include_role": included, "vars": variables}],
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY))
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible_process.play(f"--inventory={folder}/hosts.yml", "--limit=kafka-1", folder / "play.yml")
    assert done.returncode != 0, done.stdout
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("role", CASES)
def test_operation_has_the_variables_of_the_role_kafka(role: str, tmp_path: Path) -> None:
    """Its entry point reaches a task of its own that uses defaults and internal variables of kafka."""
    entry_point, variables, expected = CASES[role]
    printed = role_runs(tmp_path, role, entry_point, variables)
    assert "is undefined" not in printed
    for fragment in expected:
        assert fragment in printed


def test_extending_role_has_hosts_and_variables_of_base(tmp_path: Path) -> None:
    def write(role: str, part: str, content: dict[str, Any]) -> None:
        (tmp_path / role / part).mkdir(parents=True, exist_ok=True)
        (tmp_path / role / part / "main.yml").write_text(json.dumps(content))

    write("kafka", "defaults", {"kafka_port": 9092})
    write("kafka", "vars", {"_kafka_home": "/opt"})
    write("kafka_quorum", "vars", {"_kafka_quorum_extends": "kafka", "_kafka_quorum_needs": "needs"})
    roles = RoleVariables(tmp_path, lambda path: dict(json.loads(path.read_text())))

    def needs(*groups: str) -> list[tuple[str, Any]]:
        return [*roles.declarations("needs", {"group_names": [*groups]}, lambda _, variables: variables)]

    [(name, variables)] = needs("kafka")
    assert name == "_kafka_quorum_needs"
    assert (variables["kafka_port"], variables["_kafka_home"]) == (9092, "/opt")
    assert needs("kafka_quorum", "zookeeper") == []
