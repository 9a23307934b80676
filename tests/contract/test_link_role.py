"""The options that the sending end's role writes, as the sending end reads them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

from aqueduct.link import options
from aqueduct.link.options import Target, Upstream

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles/diode_upstream"
PLAY = f"""
- hosts: diode_upstream
  gather_facts: false
  connection: local
  vars_files: [{ROLE}/defaults/main.yml, {ROLE}/vars/main.yml]
  tasks:
    - ansible.builtin.template:
        src: "{ROLE}/templates/{{{{ item.0 }}}}.j2"
        dest: "{{{{ inventory_dir }}}}/{{{{ item.1.sent_as }}}}.{{{{ item.0 }}}}"
        mode: "0600"
      loop: "{{{{ ['config.yml', 'neighbour.conf'] | product(_diode_upstream_links) }}}}"
      vars:
        ansible_python_interpreter: {sys.executable}
        _diode_upstream_link: "{{{{ item.1 }}}}"
        _diode_upstream_name: "{{{{ item.1.sent_as }}}}"
        _diode_upstream_index: 0
        diode_upstream_nic: eth1
"""
LINK = {"source": "pro1", "topics": ["flights"]}
FIRST = LINK | {"number": 7, "address": "10.0.0.2", "mac": "02:00:00:00:00:02"}
BESIDE = LINK | {"number": 8, "address": "10.0.1.2", "mac": "02:00:00:00:01:02", "name": "beside"}
Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write the files of these links' sending services, by the role's templates; return the folder."""

    def write(*links: dict[str, Any]) -> Path:
        groups: dict[str, Any] = {
            "site_pro1": {"hosts": {"pro1-kafka-1": {"kafka_node_id": 1}, "pro1-diode-1": {}}},
            "site_enclave": {
                "hosts": {"enclave-kafka-1": {"kafka_node_id": 1}},
                "vars": {"diode_downstream_links": [*links]},
            },
            "kafka": {"hosts": {"pro1-kafka-1": {}, "enclave-kafka-1": {}}},
            "diode_upstream": {"hosts": {"pro1-diode-1": {}}},
            "diode_downstream": {"hosts": {"enclave-kafka-1": {}}},
        }
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
        (folder / "play.yml").write_text(PLAY)
        done = ansible_process.play("-i", folder / "hosts.yml", folder / "play.yml")
        assert done.returncode == 0, done.stdout + done.stderr
        return folder

    return write


def targets(folder: Path) -> dict[str, tuple[Target, ...]]:
    """Return where each sending service sends to, as it reads its own options."""
    return {
        file.name.removesuffix(".config.yml"): options.build(
            Upstream, file, {}, {}, pytest.fail
        ).all_targets()
        for file in folder.glob("*.config.yml")
    }


def test_links_share_sending_service_only_with_sent_by(written: Write) -> None:
    one, other = Target("10.0.0.2", 9777, 7), Target("10.0.1.2", 9777, 8)
    assert targets(written(FIRST, BESIDE)) == {"enclave-pro1": (one,), "enclave-beside": (other,)}
    folder = written(FIRST, BESIDE | {"sent_by": "pro1"})
    assert targets(folder) == {"enclave-pro1": (one, other)}
    neighbours = (folder / "enclave-pro1.neighbour.conf").read_text().splitlines()
    assert [line.partition(" replace ")[2] for line in neighbours if "replace" in line] == [
        "10.0.0.2 lladdr 02:00:00:00:00:02 dev eth1 nud permanent",
        "10.0.1.2 lladdr 02:00:00:00:01:02 dev eth1 nud permanent",
    ]
