"""The role kafka formats a data folder whose disk was lost, and no other one of a node that has data."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from kit import ansible_process

from servers.broker import new_uuid
from servers.process import binary

# In place of systemd, which containers of CI lack: it runs the command after `--`.
SYSTEMD_RUN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
PROPERTIES = """
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=127.0.0.1:1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:2
log.dirs={folder}/one,{folder}/two
"""
INVENTORY = {
    "site_pro1": {
        "hosts": {
            "controller": {"kafka_node_id": 1, "kafka_roles": ["controller"]},
            "broker": {"kafka_node_id": 2, "kafka_roles": ["broker"]},
        }
    },
    "kafka": {"children": {"site_pro1": None}},
}


def store_formatted(tmp_path: Path, lost: Sequence[str]) -> None:
    """Run the role's tasks for a broker with the folders `one`, which has its metadata, and `two`."""
    runner = tmp_path / "systemd-run"
    runner.write_text(SYSTEMD_RUN)
    runner.chmod(0o755)
    (tmp_path / "server.properties").write_text(PROPERTIES.format(folder=tmp_path))
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": INVENTORY}}))
    role = {"name": "aqueduct.estate.kafka", "tasks_from": "storage"}
    play = {
        "hosts": "site_pro1",
        "gather_facts": False,
        "environment": {"PATH": f"{tmp_path}:/usr/bin:/bin"},
        "tasks": [{"ansible.builtin.include_role": role, "when": "inventory_hostname == 'broker'"}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "_kafka_home": str(Path(binary("AQUEDUCT_KAFKA_JARS")).parent),
        "_kafka_config": str(tmp_path),
        "_kafka_log": f"{tmp_path}/one",
        "_kafka_writable": str(tmp_path),
        "_kafka_left_cluster_id": CLUSTER,
        "_kafka_lost_directories": [f"{tmp_path}/{name}" for name in lost],
    }
    run = ansible_process.play(
        "-i", tmp_path / "hosts.yml", tmp_path / "play.yml", "-e", json.dumps(variables)
    )
    assert run.returncode == 0, run.stdout + run.stderr


CLUSTER = new_uuid()


@pytest.mark.parametrize(
    ("formatted", "lost", "after"),
    [
        (["one"], [], ["one"]),  # the other disk may only be unmounted
        (["one"], ["two"], ["one", "two"]),
        (["two"], ["one"], ["one", "two"]),
        ([], [], ["one", "two"]),  # a new node
    ],
)
def test_only_lost_log_dirs_are_formatted(
    tmp_path: Path, formatted: list[str], lost: list[str], after: list[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    for name in formatted:
        lines = ("version=1", f"cluster.id={CLUSTER}", "node.id=2", f"directory.id={new_uuid()}")
        (tmp_path / name / "meta.properties").write_text("".join(f"{line}\n" for line in lines))
    before = {name: (tmp_path / name / "meta.properties").read_text() for name in formatted}
    store_formatted(tmp_path, lost)
    found = {path.parent.name: path.read_text() for path in tmp_path.glob("*/meta.properties")}
    assert sorted(found) == after
    assert found.items() >= before.items()  # what was there stays
    assert all(f"cluster.id={CLUSTER}\n" in text for text in found.values())
