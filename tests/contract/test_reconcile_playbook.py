"""If no host answers playbooks/reconcile.yml, it reports each of them as unknown."""

import json
import re
from pathlib import Path

import ansible_process
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

LAB = Path("inventories/lab")


def test_hosts_that_do_not_answer_are_unknown(tmp_path: Path) -> None:
    groups = InventoryManager(
        DataLoader(), [str(Path(__file__).resolve().parents[2] / LAB)]
    ).get_groups_dict()
    comparing = {str(host) for group in ("reconcile", "dedup") for host in groups[group]}
    assert len(comparing) > 2
    away = {"ansible_connection": "ssh", "ansible_host": "nowhere.invalid"}
    inventory = tmp_path / "away.yml"
    inventory.write_text(json.dumps({"all": {"hosts": dict.fromkeys(map(str, groups["all"]), away)}}))
    done = ansible_process.play("playbooks/reconcile.yml", f"--inventory={LAB}", f"--inventory={inventory}")
    assert done.returncode == 2
    message = done.stdout.rpartition("TASK [Fail if records are missing")[2]
    assert {*re.findall(r"'(\S+) did not compare all", " ".join(message.split()))} == comparing
