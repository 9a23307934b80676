"""If no host answers playbooks/reconcile.yml, it reports each of them as unknown."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
LAB = Path("inventories/lab")
CROSS = Path("molecule/cross/inventory")


def groups_of(folder: Path) -> Mapping[str, Sequence[str]]:
    groups = InventoryManager(DataLoader(), [str(ROOT / folder)]).get_groups_dict()
    return {str(group): [*map(str, hosts)] for group, hosts in groups.items()}


def away(folder: Path, tmp_path: Path, more: Mapping[str, object] | None = None) -> Path:
    """Return an inventory in which no host of another one answers; `more`: variables of all hosts."""
    variables = {"ansible_connection": "ssh", "ansible_host": "nowhere.invalid", **(more or {})}
    inventory = tmp_path / "away.yml"
    hosts = groups_of(folder)["all"]
    inventory.write_text(json.dumps({"all": {"hosts": dict.fromkeys(hosts, variables)}}))
    return inventory


def test_hosts_that_do_not_answer_are_unknown(tmp_path: Path) -> None:
    groups = groups_of(LAB)
    comparing = {host for group in ("reconcile", "dedup") for host in groups[group]}
    assert len(comparing) > 2
    inventory = away(LAB, tmp_path)
    done = ansible_process.play("playbooks/reconcile.yml", f"--inventory={LAB}", f"--inventory={inventory}")
    assert done.returncode == 2
    message = done.stdout.rpartition("TASK [Fail if records are missing")[2]
    assert {*re.findall(r"'(\S+) did not compare all", " ".join(message.split()))} == comparing


@pytest.mark.parametrize("accepted", [False, True], ids=["not_accepted", "accepted"])
def test_a_link_without_a_ledger_is_a_finding(accepted: bool, tmp_path: Path) -> None:
    """The scenario's inventory has one; no host answers, so there are other findings, too."""
    inventory = away(CROSS, tmp_path, {"diode_downstream_uncompared_links": ["plain"]} if accepted else {})
    done = ansible_process.play("playbooks/reconcile.yml", f"--inventory={CROSS}", f"--inventory={inventory}")
    assert done.returncode == 2
    message = " ".join(done.stdout.rpartition("TASK [Fail if records are missing")[2].split())
    assert "did not compare all of its links" in message
    assert ("[link-not-compared]" in message) is not accepted


def test_check_mode_reports_that_nothing_was_compared(tmp_path: Path) -> None:
    inventory = away(LAB, tmp_path)
    done = ansible_process.play(
        "playbooks/reconcile.yml", f"--inventory={LAB}", f"--inventory={inventory}", "--check"
    )
    reported = done.stdout.partition("TASK [Report that check mode compares nothing")[2]
    assert "ok: [" in reported.partition("TASK [")[0]
    assert "All announced offsets arrived" not in done.stdout
