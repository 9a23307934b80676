"""`aqueduct status --inventory`: what becomes of a playbook that asked, or did not."""

import json
import sys
from pathlib import Path

import pytest
from kit.estate_facts import DEFAULTS, GROUPS, HOSTVARS, sound

from aqueduct.cli import main, status_playbook
from aqueduct.common import timestamps
from aqueduct.control_node.status import report
from aqueduct.control_node.status.objects import declared_objects
from aqueduct.errors import ExitCode

# Stands for Ansible: puts a file of facts, if there is one, where the variables say.
PROGRAM = f"""#!{sys.executable}
import json, pathlib, sys, time
assert "aqueduct.estate.status" in sys.argv
variables = json.loads(sys.argv[-1])
facts = pathlib.Path(__file__).with_name("facts.json")
if facts.exists():
    document = json.loads(facts.read_text())
    if "now" not in document:
        document["now"] = int(time.time() * 1000)
    folder = pathlib.Path(variables["status_reports_directory"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status-facts.json").write_text(json.dumps(document))
print("what Ansible prints")
sys.exit(2)
"""
DECLARED = declared_objects(GROUPS, HOSTVARS, DEFAULTS)


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin/ansible-playbook"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setattr(status_playbook, "_program", lambda: str(program))
    (tmp_path / "inventory").mkdir()
    return tmp_path / "inventory"


def write_facts(inventory: Path, hosts: dict[str, dict[str, object]], now: int | None = None) -> None:
    document = report.facts_document(DECLARED, hosts, now or 0, {}, [])
    if now is None:
        del document["now"]
    (inventory.parent / "bin/facts.json").write_text(json.dumps(document))


def test_the_state_that_was_asked_now_is_shown(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_facts(inventory, sound())
    assert main(["status", "--inventory", str(inventory), "--json"]) == ExitCode.INCOMPLETE
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"] == {"asked": 3, "answered": 3}
    assert (inventory / "reports/status-facts.json").exists()


def test_status_without_any_answer_fails(inventory: Path) -> None:
    write_facts(inventory, {})
    assert main(["status", "--inventory", str(inventory)]) == ExitCode.FAILED


def test_status_of_earlier_run_is_not_shown(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_facts(inventory, sound(), timestamps.now() - 60_000)
    assert main(["status", "--inventory", str(inventory / "hosts.yml")]) == ExitCode.FAILED
    shown = capsys.readouterr()
    assert "[estate-not-asked]" in shown.err
    assert "what Ansible prints" in shown.err
    assert shown.out == ""


def test_a_playbook_that_writes_nothing_asked_nobody(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = tmp_path / "elsewhere"
    command = ["status", "--inventory", str(inventory), "--reports", str(reports)]
    assert main(command) == ExitCode.FAILED
    assert "[estate-not-asked]" in capsys.readouterr().err
