"""playbooks/status.yml asks the lab's hosts as it asks any: here, each of them is this machine.

The programs systemctl and systemd-run are replaced. The latter checks that the command that a role asks with
is one of Aqueduct's, and answers in its place.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "inventories/lab"
SYSTEMD_RUN = f"""#!{sys.executable}
import json, sys
argv = sys.argv[sys.argv.index("--") + 2:]
assert "--property=RuntimeMaxSec=120" in sys.argv
if not any(word.startswith("--config=") for word in argv):  # test_units.py tests what the files hold
    from aqueduct.cli import build_parser
    build_parser(argv[:1]).parse_args(argv)
answers = {{
    "health": {{"controllers": {{"leader": 1, "behind": {{"1": 0}}}}, "brokers": [1], "partitions": 4,
               "offline": 0, "under_replicated": 0, "problems": []}},
    "mirror": {{"findings": [], "partitions": [{{"behind": 2}}]}},
    "doctor": {{"connectors": [{{"name": "flights-to-files", "state": "RUNNING",
                               "tasks": [{{"task": 0, "state": "RUNNING"}}]}}]}},
    "land": {{"tables": [{{"table": "flights.departures", "left_out": [], "catalogue": "", "rows": 1,
                         "bad": 0, "files": 1, "bytes": 9, "partitions": [{{"landed": 1, "end": 1}}]}}]}},
    "dlq": {{"topics": ["flights-to-files-dlq"], "causes": [], "unknown": [],
            "older_offsets_not_read_by_topic": {{"flights-to-files-dlq": 0}}}},
    "snapshots": [],
    "diode": {{"results": []}},
}}
print(json.dumps(answers[argv[0]]))
"""
SYSTEMCTL = """#!/bin/sh
[ "$1" = list-units ] && exit 0
while [ "$1" != -- ]; do shift; done
shift
for unit; do
    printf 'Id=%s.service\\nLoadState=loaded\\nActiveState=active\\nResult=success\\n' "$unit"
    printf 'StateChangeTimestamp=@1780000000\\nExecMainExitTimestamp=\\n\\n'
done
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs, and an inventory beside the lab's: its hosts are here; one is added that does not answer."""
    folder = tmp_path_factory.mktemp("status")
    for name, text in (("systemd-run", SYSTEMD_RUN), ("systemctl", SYSTEMCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    hosts = InventoryManager(DataLoader(), [str(LAB)]).get_groups_dict()["all"]
    here = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    beyond = {"kafka_node_id": 1, "ansible_connection": "ssh", "ansible_host": "nowhere.invalid"}
    inventory = {
        "all": {
            "hosts": dict.fromkeys(map(str, hosts), here) | {"far-kafka-1": beyond},
            "children": {
                "site_far": {"hosts": {"far-kafka-1": None}},
                "kafka": {"hosts": {"far-kafka-1": None}},
            },
        }
    }
    (folder / "here.yml").write_text(json.dumps(inventory))
    return folder


def status(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run the playbook; return its exit code, the JSON, and what it printed."""
    reports = folder / "reports"
    # All hosts are this one, which may be busy.
    options_of_status = {"status_reports_directory": str(reports), "status_seconds": 120}
    done = ansible_process.play(
        *("--inventory", LAB, "--inventory", folder / "here.yml"),
        *(ROOT / "playbooks/status.yml", "--extra-vars", json.dumps(options_of_status)),
        *options,
        PATH=f"{folder}:{os.environ['PATH']}",
    )
    assert (reports / "status.json").exists(), done.stdout[-3000:]
    document = json.loads((reports / "status.json").read_text())
    (reports / "status.json").unlink()
    return done.returncode, document, done.stdout


def states(document: dict[str, Any], kind: str) -> dict[str, str]:
    return {each["name"]: each["state"] for each in document["objects"] if each["kind"] == kind}


def test_status_playbook_reports_silent_host_as_unknown(folder: Path) -> None:
    code, document, printed = status(folder)
    assert code != 0
    assert document["exit_code"] == 3
    assert document["hosts"] == {"asked": 11, "answered": 10}
    assert states(document, "host")["far-kafka-1"] == "unknown"
    brokers = states(document, "broker")
    assert brokers.pop("far-kafka-1") == "unknown"
    assert {*brokers.values()} == {"well"}
    assert {*states(document, "flow").values()} == {"well"}
    assert {*states(document, "connector").values()} == {"well"}
    assert {*states(document, "landing").values()} == {"unknown"}, "no metrics"
    assert states(document, "backup") == {"topics of pro1 at pro1-kafka-1": "needs action"}, "no snapshot"
    assert {*states(document, "link").values()} == {"unknown"}, "no metrics"
    assert {*states(document, "certificate").values()} == {"unknown"}, "no file"
    assert "[no-snapshot-yet]" in printed
    assert "[host-not-answering] far-kafka-1" in printed
    assert "far-kafka-1" in (folder / "reports/status.html").read_text()


def test_facts_can_be_evaluated_again(folder: Path) -> None:
    variables = {"status_unreachable_sites": ["far"], "backup_every_seconds": 300}
    _, document, _ = status(folder, "--extra-vars", json.dumps(variables))
    assert states(document, "host")["far-kafka-1"] == "not asked from here"
    assert document["hosts"] == {"asked": 10, "answered": 10}
    facts = json.loads((folder / "reports/status-facts.json").read_text())
    backup = facts["hosts"]["pro1-kafka-1"]
    assert ("backup" in backup["services"], "backup" in backup["exporters"]) == (True, True)
    assert "backup_verify" in backup["runs"]
    answers = [
        (host, name, each)
        for host, of in facts["hosts"].items()
        if of
        for name, each in of.get("answers", {}).items()
    ]
    assert {name for _, name, _ in answers} >= {
        "cluster",
        "flow:pro1",
        "connect",
        "land",
        "snapshots",
        "ledger:pro1",
    }
    assert [(host, name, each) for host, name, each in answers if each["code"] != 0] == []


def test_one_site_is_asked_alone(folder: Path) -> None:
    _, document, _ = status(folder, "--extra-vars", "status_site=dwdev1")
    assert document["hosts"] == {"asked": 1, "answered": 1}
    assert {each["site"] for each in document["objects"]} == {"dwdev1", ""}
    first_seen = json.loads((folder / "reports/status-first-seen.json").read_text())
    times = {each["since"] for each in first_seen if each["name"] == "dwdev1-kafka-1"}
    _, again, _ = status(folder, "--extra-vars", "status_site=dwdev1")
    assert {finding["since"] for each in again["objects"] for finding in each["findings"]} >= times
    assert json.loads((folder / "reports/status-first-seen.json").read_text()) == first_seen
    assert states(document, "flow") == {"pro1 to dwdev1": "well", "pro2 to dwdev1": "well"}


def test_one_command_asks_and_has_exit_codes(folder: Path) -> None:
    """Its exit code is that of the state; Ansible's own is 2 for every failure."""
    slow = folder / "slow.yml"
    hosts = InventoryManager(DataLoader(), [str(LAB)]).get_groups_dict()["all"]
    patient = {str(host): {"status_seconds": 120} for host in hosts}
    slow.write_text(json.dumps({"all": {"hosts": patient}}))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "aqueduct.cli", "status", "--site", "dwdev1", "--json"),
            *("--inventory", LAB, "--inventory", folder / "here.yml", "--inventory", slow),
            *("--reports", folder / "reports"),
        ],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    assert document["hosts"] == {"asked": 1, "answered": 1}
    assert (folder / "reports/status.html").exists()
