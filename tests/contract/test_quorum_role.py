"""The tasks of the role zookeeper that have servers trust each other's own certificates, run on this machine.

Three hosts of one inventory are folders here. No server runs, so the others are asked and nobody listens.
"""

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kit import ansible_process

from aqueduct.recovery.zookeeper.quorum_keys import Certificates, QuorumKeys, split
from servers.pki import Authority
from servers.process import free_ports

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("old-1", "old-2", "old-3")
PLAY = [
    {
        "hosts": "zookeeper",
        "gather_facts": False,
        "any_errors_fatal": True,
        "tasks": [
            {
                "ansible.builtin.include_role": {"name": "aqueduct.estate.zookeeper", "tasks_from": "quorum"},
            }
        ],
    }
]


class State(NamedTuple):
    used: list[str]
    trusted: dict[str, set[str]]
    files: dict[Path, bytes]


class Estate:
    """The three hosts, each with the key that the playbook has brought."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority(folder / "pki")
        for host in HOSTS:
            (folder / host / "quorum").mkdir(parents=True)
            (folder / host / "tls").mkdir()
            self.renew(host)
        every = dict.fromkeys(HOSTS)
        hosts = {
            host: {"zookeeper_id": number, "zookeeper_host": "127.0.0.1", "zookeeper_election_port": port}
            for (number, host), port in zip(enumerate(HOSTS, start=1), free_ports(len(HOSTS)), strict=True)
        }
        groups = {"site_old": {"hosts": every}, "zookeeper": {"hosts": hosts}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
        (folder / "play.yml").write_text(yaml.safe_dump(PLAY))

    def renew(self, host: str) -> None:
        key = self.folder / host / "tls/zookeeper-old.pem"
        key.write_bytes(self.authority.issue("zookeeper-old").read_bytes())
        (self.folder / host / "tls/ca.pem").write_bytes(self.authority.certificate.read_bytes())

    def certificates(self, host: str) -> Certificates:
        return QuorumKeys(self.folder / host / "quorum", os.getuid(), os.getgid()).certificates()

    def used(self) -> list[str]:
        return [self.certificates(host).used for host in HOSTS]

    def trusted(self, host: str) -> set[str]:
        return {*self.certificates(host).trusted}

    def state(self) -> State:
        files = {path: path.read_bytes() for path in self.folder.glob("*/quorum/*")}
        return State(self.used(), {host: self.trusted(host) for host in HOSTS}, files)

    def run(self, *options: str) -> str:
        """Run the tasks; return what Ansible prints."""
        home = f"{self.folder}/{{{{ _zookeeper_server | default(inventory_hostname) }}}}"
        given: dict[str, Any] = {
            "_zookeeper_quorum": f"{home}/quorum",
            "_zookeeper_file": f"{home}/zoo.cfg",
            "_zookeeper_tls": f"{home}/tls",
            "_zookeeper_user": getpass.getuser(),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "_environment_python": sys.executable,
        }
        done = ansible_process.play(
            f"--inventory={self.folder}/hosts.yml",
            f"--extra-vars={json.dumps(given)}",
            *options,
            self.folder / "play.yml",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def estate(tmp_path: Path) -> Estate:
    return Estate(tmp_path)


class Deployment(NamedTuple):
    """An estate after two runs, and what its hosts had after each of them."""

    estate: Estate
    first: State
    second: State


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    estate = Estate(tmp_path_factory.mktemp("deployed"))
    states = []
    for _ in range(2):
        estate.run()
        states.append(estate.state())
    return Deployment(estate, *states)


def test_servers_trust_each_others_certificates_and_no_authority(deployment: Deployment) -> None:
    used = {*deployment.first.used}
    assert len(used) == len(HOSTS)
    assert deployment.first.trusted == dict.fromkeys(HOSTS, used)
    assert deployment.first.files
    assert deployment.second.files == deployment.first.files


@pytest.mark.long
def test_a_renewal_ends_with_the_new_certificates_alone(estate: Estate) -> None:
    estate.run()
    former = estate.used()
    for host in HOSTS:
        estate.renew(host)
    estate.run()
    used = estate.used()
    assert not {*used} & {*former}
    for host in HOSTS:
        assert estate.trusted(host) == {*used}


def test_key_waits_until_servers_outside_run_trust_it(deployment: Deployment) -> None:
    """Servers outside of --limit keep trusting the former certificate, which stays in use."""
    estate = deployment.estate
    former = estate.used()
    estate.renew("old-1")
    said = estate.run("--limit=old-1")
    assert "still uses its former certificate for the quorum" in said
    assert estate.used() == former
    assert estate.trusted("old-2") == {*former}
    assert {*former} < estate.trusted("old-1")
    estate.run()
    used = estate.used()
    assert used[0] != former[0]
    assert used[1:] == former[1:]
    for host in HOSTS:
        assert estate.trusted(host) == {*used}


def test_upgraded_servers_trust_authority_until_all_restarted(estate: Estate) -> None:
    for host in HOSTS:
        (estate.folder / host / "zoo.cfg").write_text(
            "sslQuorum=true\nssl.quorum.trustStore.location=/ca.pem\n"
        )
    estate.run()
    authority = split(estate.authority.certificate.read_text())[0]
    for host in HOSTS:
        found = estate.certificates(host)
        assert found.of_authority
        assert authority in found.trusted
        assert {estate.certificates(each).offered for each in HOSTS} < {*found.trusted}
    for host in HOSTS:  # the role has written its own settings, and then the run was cut short
        (estate.folder / host / "zoo.cfg").write_text(f"x={estate.folder}/{host}/quorum/own.pem\n")
    estate.run()
    assert all(estate.certificates(host).of_authority for host in HOSTS)
    estate.run("--extra-vars={_zookeeper_has_restarted: true}")
    used = estate.used()
    for host in HOSTS:
        assert not estate.certificates(host).of_authority
        assert estate.trusted(host) == {*used}
