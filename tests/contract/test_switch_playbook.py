"""The role mirror_maker refuses a changed engine, unless `playbooks/switch_mirror.yml` runs it."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from kit import ansible_process

from aqueduct.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles/mirror_maker"
FLOWS = [{"name": "pro1", "engine": "batches"}, {"name": "pro2", "engine": "mm2"}]


def configured(tmp_path: Path, **variables: object) -> tuple[str, list[str]]:
    """Run the check before the files of flows are written; return the output, and the hosts that continue.

    `old` has the files of MirrorMaker 2 for both flows, `new` has none.
    """
    for flow in ("pro1", "pro2"):
        for host in ("old", "new"):
            (tmp_path / host / flow).mkdir(parents=True)
        (tmp_path / "old" / flow / "mm2.properties").touch()
    check = yaml.safe_load((ROLE / "tasks/configure.yml").read_text())[1]
    assert "Fail if" in check["name"]
    marker = {"dest": f"{tmp_path}/{{{{ inventory_hostname }}}}/continues", "content": "", "mode": "0600"}
    role_variables = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars": {
            "_mirror_maker_changed": role_variables["_mirror_maker_changed"],
            "_mirror_maker_names": [flow["name"] for flow in FLOWS],
            "_mirror_maker_flows": FLOWS,
            "_mirror_maker_site": "lake",
            "_mirror_maker_config": f"{tmp_path}/{{{{ inventory_hostname }}}}",
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            **variables,
        },
        "tasks": [
            *yaml.safe_load((ROLE / "tasks/engines.yml").read_text()),
            check,
            {"ansible.builtin.copy": marker},
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    run = ansible_process.play("-i", "old,new,", tmp_path / "play.yml")
    continuing = [host for host in ("old", "new") if (tmp_path / host / "continues").exists()]
    assert (run.returncode == 0) == (len(continuing) == 2)
    return run.stdout, continuing


def test_changed_engine_is_refused_on_all_hosts(tmp_path: Path) -> None:
    """A host without files of the flow would start the other engine."""
    output, continuing = configured(tmp_path)
    assert "[mirror-engine-differs]" in output
    assert continuing == []


def test_switched_flow_gets_its_other_engine(tmp_path: Path) -> None:
    _, continuing = configured(tmp_path, _mirror_maker_switched=["pro1"])
    assert continuing == ["old", "new"]


def test_switch_of_flow_refuses_engine_change_of_another(tmp_path: Path) -> None:
    output, continuing = configured(tmp_path, _mirror_maker_switched=["pro2"])
    assert "[mirror-engine-differs]" in output
    assert continuing == []


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_vars: {file: ROOT/roles/mirror_maker/defaults/main.yml}
    - ansible.builtin.include_vars: {file: ROOT/roles/mirror_maker/vars/main.yml}
    - ansible.builtin.copy:
        dest: "{{ dest }}"
        content: "{{ _mirror_maker_switch | to_json }}"
        mode: "0600"
"""


@pytest.mark.parametrize("engine", ["mm2", "batches"])
def test_positions_are_moved_to_the_declared_engine(tmp_path: Path, engine: str) -> None:
    (tmp_path / "play.yml").write_text(PLAY.replace("ROOT", str(ROOT)))
    flow = {
        "name": "pro1",
        "engine": engine,
        "servers": "pro1-kafka-1:9092",
        "source_servers": [],
        "topics_pattern": "flights|orders-.*",
        "groups_pattern": "",
        "prefix": "pro1.",
        "tasks": 4,
        "line_ms": 0,
        "line_mbit": 1000,
        "first_start": True,
    }
    extra = {
        "dest": str(tmp_path / "words.json"),
        "_mirror_maker_flow": flow,
        "_mirror_maker_replication": 3,
        "_mirror_maker_is_monitored": False,
        "_mirror_maker_site": "lake",
        "_mirror_maker_flows": [flow],
        "_mirror_maker_options": yaml.safe_load((ROLE / "vars/main.yml").read_text())["_mirror_maker_options"]
        | {"target-bootstrap-server": "lake-kafka-1:9092"},
    }
    run = ansible_process.play("-i", "localhost,", tmp_path / "play.yml", "--extra-vars", json.dumps(extra))
    assert run.returncode == 0, run.stdout + run.stderr
    command = json.loads((tmp_path / "words.json").read_text())
    assert command[:2] == ["/opt/aqueduct/base/bin/aqueduct", "switch"]
    options = vars(build_parser().parse_args(command[1:]))
    expected = {"flow": "pro1", "to": engine, "tasks": 4, "replication_factor": 3, "target_prefix": "pro1."}
    assert {name: options[name] for name in expected} == expected
    assert options["topics_pattern"].fullmatch("orders-1")
    assert not options["dry_run"]
