"""Firewall rules of the roles, rendered for an inventory, and packets of permitted and of other hosts."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
RESTRICTED = "aqueduct.estate.restricted_ports"
# Hosts are addresses, so that no name has to be resolved. A site's other hosts run other services of it.
INVENTORY: dict[str, Any] = {
    "all": {
        "children": {
            "site_pro1": {"hosts": {f"10.1.0.{number}": {} for number in (1, 2, 3, 4)}},
            "site_lake": {
                "hosts": {"10.2.0.1": {}, "10.2.0.2": {}, "10.2.0.3": {}},
                "vars": {
                    "hdfs_clients": ["10.7.0.0/24", "fd00::7"],
                    "hive_metastore_clients": ["10.8.0.1"],
                },
            },
            "site_enclave": {"hosts": {"10.3.0.1": {"diode_downstream_nic": "vb"}}},
            "kafka": {"hosts": {"10.1.0.4": {"kafka_node_id": 1}, "10.2.0.3": {"kafka_node_id": 1}}},
            "zookeeper": {"hosts": {f"10.1.0.{number}": {"zookeeper_id": number} for number in (1, 2, 3)}},
            "hdfs": {
                "hosts": {
                    "10.2.0.1": {"hdfs_roles": ["namenode", "datanode"]},
                    "10.2.0.2": {"hdfs_roles": ["datanode"]},
                }
            },
            "hive_metastore": {"hosts": {"10.2.0.1": {}}},
            "connect": {"hosts": {"10.2.0.3": {}}},
            "diode_downstream": {"hosts": {"10.3.0.1": {}}},
        }
    }
}
STRANGERS = ("10.9.0.9", "10.3.0.1", "fd00::9")  # one of another site, too
# Role and host: the ports, and who may reach them.
OPEN: Mapping[tuple[str, str], tuple[Sequence[int], Sequence[str], Sequence[str]]] = {
    ("zookeeper", "10.1.0.1"): ((2888, 3888), ("10.1.0.2", "10.1.0.3"), ("10.1.0.4", "10.2.0.1", *STRANGERS)),
    ("hdfs", "10.2.0.1"): (
        (8020, 9871, 9866, 9865, 9867),
        ("10.2.0.2", "10.2.0.3", "10.7.0.200", "fd00::7"),
        ("10.1.0.1", "10.8.0.1", *STRANGERS),
    ),
    ("hdfs", "10.2.0.2"): ((9866, 9865, 9867), ("10.2.0.1",), ("10.1.0.4", *STRANGERS)),
    ("hive_metastore", "10.2.0.1"): (
        (9083,),
        ("10.2.0.2", "10.2.0.3", "10.8.0.1"),
        ("10.7.0.200", "10.1.0.1", *STRANGERS),
    ),
}


def restricting_task(tasks: object) -> Mapping[str, Any] | None:
    """Return the task that restricts ports, which can be in a block."""
    if isinstance(tasks, list):
        return next(filter(None, map(restricting_task, tasks)), None)
    if not isinstance(tasks, dict):
        return None
    if tasks.get("ansible.builtin.include_role", {}).get("name") == RESTRICTED:
        return tasks
    return restricting_task(tasks.get("block"))


def restricting_roles() -> dict[str, Mapping[str, Any]]:
    """Return the roles that restrict ports, with the variables that they pass."""
    found = {}
    for path in sorted((ROOT / "roles").glob("*/tasks/*.yml")):
        task = restricting_task(yaml.safe_load(path.read_text()))
        if task:
            found[path.parts[-3]] = task["vars"]
    return found


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the rules, `<role> <host>.nft`, as the roles render them."""
    folder = tmp_path_factory.mktemp("firewall")
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY, sort_keys=False))
    restricted = ROOT / "roles/restricted_ports"
    own = yaml.safe_load((restricted / "vars/main.yml").read_text())
    look_up, *_ = yaml.safe_load((restricted / "tasks/restrict.yml").read_text())
    plays: list[dict[str, Any]] = []
    templates = {
        role: (restricted / "templates/ports.nft.j2", own | passed, [look_up])
        for role, passed in restricting_roles().items()
    }
    silence = ROOT / "roles/diode_downstream/templates/diode_silence.nft.j2"
    for role, (template, variables, before) in {
        **templates,
        "diode_downstream": (silence, {}, []),
    }.items():
        tasks = folder / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        for part in ("defaults", "vars"):
            (tasks.parent / part).symlink_to(ROOT / "roles" / role / part)
        render = {
            "name": "Render",
            "ansible.builtin.copy": {
                "content": f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}",
                "dest": f"{folder}/{role} {{{{ inventory_hostname }}}}.nft",
                "mode": "0600",
            },
        }
        block = {"name": "Render rules", "vars": variables, "block": [*before, render]}
        (tasks / "main.yml").write_text(yaml.safe_dump([block], sort_keys=False))
        plays.append({"hosts": role, "gather_facts": False, "roles": [role]})
    (folder / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
    extra = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    done = ansible_process.play(
        "-i", folder / "hosts.yml", folder / "play.yml", "--extra-vars", json.dumps(extra)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def probe(**request: Any) -> dict[str, Any]:
    command = ["unshare", "--net", sys.executable, str(Path(__file__).with_name("firewall_probe.py"))]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_rules_of_every_role_are_tried() -> None:
    assert {role for role, _ in OPEN} | {"connect"} == set(restricting_roles())
    templates = {path.name for path in (ROOT / "roles").glob("*/templates/*.nft*")}
    assert templates == {"ports.nft.j2", "diode_silence.nft.j2"}


@pytest.mark.parametrize(("role", "host"), OPEN)
def test_nftables_accepts_the_rules(role: str, host: str, rendered: Path) -> None:
    command = ["unshare", "--net", "nft", "--check", "--file", str(rendered / f"{role} {host}.nft")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("role", "host"), OPEN)
def test_only_hosts_that_need_the_ports_reach_them(role: str, host: str, rendered: Path) -> None:
    ports, permitted, refused = OPEN[role, host]
    came = probe(
        rules=str(rendered / f"{role} {host}.nft"),
        addresses=[host, "fd00::1"],
        ports=[*ports],
        permitted=[*permitted],
        refused=[*refused],
        drops=len(ports) * len(refused),
    )
    assert came["reached"] == {source: [*ports] for source in permitted} | {source: [] for source in refused}
    assert came["dropped"] >= len(ports) * len(refused)


def test_without_rules_everyone_reaches_the_ports() -> None:
    """The control: what the test above refuses is let in."""
    came = probe(rules="", addresses=["10.2.0.1"], ports=[8020], permitted=["10.9.0.9"], refused=[], drops=0)
    assert came["reached"] == {"10.9.0.9": [8020]}


@pytest.mark.parametrize("role", sorted(restricting_roles()))
def test_a_service_does_not_start_without_its_rules(role: str) -> None:
    """The folder exists while the unit of the rules is active: systemd makes it for that unit alone."""
    passed = restricting_roles()[role]["_restricted_ports_service"]
    rules = f"{passed['name']}_ports"
    unit = (ROOT / f"roles/{role}/templates/{role}.service.j2").read_text()
    assert re.search(rf"^\{{% set unit_rules = '{rules}'", unit, re.MULTILINE)
    base = (ROOT / "roles/host/templates/units/service.j2").read_text()
    assert "\nAssertPathExists=/run/{{ unit_rules }}\n" in base
    ports = (ROOT / "roles/restricted_ports/templates/ports.service.j2").read_text()
    assert "{% set unit_runtime = _restricted_ports_service.name ~ '_ports' %}" in ports


@pytest.mark.parametrize("silenced", [True, False])
def test_nothing_leaves_the_receiving_end_of_a_link(silenced: bool, rendered: Path) -> None:
    """Not even ARP, with which an answer begins. The control, without rules, lets packets out."""
    came = probe(
        rules=str(rendered / "diode_downstream 10.3.0.1.nft") if silenced else "",
        addresses=["10.3.0.1"],
        ports=[9999],
        permitted=[],
        refused=["10.3.0.2"],
        sends_to="10.3.0.2",
        drops=1 if silenced else 0,
    )
    assert came["reached"] == {"10.3.0.2": [] if silenced else [9999]}
    assert (came["left"] == 0) == silenced
    assert (came["dropped"] > 0) == silenced


# Who connects to a port of localhost, as a user of this machine.
CONNECTS = """
import json, socket, subprocess, sys
rules, port, *users = sys.argv[1:]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
if rules:
    subprocess.run(["nft", "--file", rules], check=True)
listener = socket.create_server(("127.0.0.1", int(port)))
connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 60)"
reach = [user for user in users if not subprocess.run(
    ["/usr/bin/python3", "-c", connect], user=user, group=user if user == "root" else "nogroup",
    stderr=subprocess.DEVNULL).returncode]
print(json.dumps(reach))
"""


@pytest.mark.parametrize("restricted", [True, False])
def test_other_users_cannot_reach_connect_worker(rendered: Path, tmp_path: Path, *, restricted: bool) -> None:
    """Any certificate of the authority is taken there. The control, without rules, lets everyone in."""
    rules = tmp_path / "connect.nft"
    text = (rendered / "connect 10.2.0.3.nft").read_text()
    assert "{ connect, root }" in text
    rules.write_text(text.replace("{ connect, root }", "{ daemon, root }"))  # a user that exists here
    file = str(rules) if restricted else ""
    command = ["unshare", "--net", sys.executable, "-c", CONNECTS, file, "18083", "daemon", "root", "nobody"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["daemon", "root", *([] if restricted else ["nobody"])]
