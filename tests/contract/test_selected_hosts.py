"""A playbook for one task fails if the run selects no host for it. Ansible alone would succeed."""

from collections.abc import Collection, Iterable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "inventories/example"
WITHOUT_SERVICE = "kafka-1.dwdev1.example.com"  # a broker
WITHOUT_BROKER = "store-1.dwpro1.example.com"
# Playbooks for one task, each with a host that its task is not for.
MUST_SELECT = {
    "backup": WITHOUT_SERVICE,
    "connectors": WITHOUT_SERVICE,
    "dlq_replay": WITHOUT_SERVICE,
    "doctor": WITHOUT_BROKER,
    "drill": WITHOUT_SERVICE,
    "lab_down": WITHOUT_SERVICE,
    "lab_up": WITHOUT_SERVICE,
    "migrate_to_kraft": WITHOUT_BROKER,
    "reconcile": WITHOUT_SERVICE,
    "repair_broker_ids": WITHOUT_BROKER,
    "resend": WITHOUT_SERVICE,
    "restore": WITHOUT_SERVICE,
    "restore_quorum": WITHOUT_BROKER,
    "restore_zookeeper": WITHOUT_SERVICE,
    "rolling_restart": WITHOUT_BROKER,
    "switch_mirror": WITHOUT_SERVICE,
    "upgrade_features": WITHOUT_BROKER,
}
# They differ in the groups of their selection, or in what precedes it; the others are like one of them.
DIFFERENT = {"backup", "connectors", "lab_up", "migrate_to_kraft", "reconcile", "restore_zookeeper"}
# Playbooks for all hosts: each host that can be selected is one of theirs.
FOR_ALL_HOSTS = {"authority", "check", "hosts", "site", "status"}
# Deployments of services, which an estate or the selected hosts need not have.
MAY_SELECT_NONE = {
    *("backups", "connect", "diode", "drills", "file_backups", "hive", "kafka", "land", "mirror"),
    *("monitoring", "object_store", "schema_registry", "spark", "zookeeper"),
}
# The check itself, and a playbook for one container that it creates first.
NOT_FOR_OPERATORS = {"lab_image", "selected_hosts"}
ZOOKEEPERS = """
all:
  children:
    site_old: {hosts: {one: {zookeeper_id: 1}, two: {zookeeper_id: 2}, three: {zookeeper_id: 3}}}
    zookeeper: {children: {site_old: }, vars: {zookeeper_backup_store_url: s3://znodes}}
    kafka: {hosts: {}}
"""


def run(playbook: str, *options: str, inventory: Path = EXAMPLE) -> CompletedProcess[str]:
    return ansible_process.play(ROOT / f"playbooks/{playbook}.yml", f"--inventory={inventory}", *options)


def refusal(done: CompletedProcess[str]) -> str:
    """Return what a playbook printed that failed before it contacted a host."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "UNREACHABLE" not in done.stdout
    return " ".join(done.stdout.split())


def test_each_playbook_is_in_one_list() -> None:
    listed = [*MUST_SELECT, *FOR_ALL_HOSTS, *MAY_SELECT_NONE, *NOT_FOR_OPERATORS]
    assert sorted(listed) == sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))


def test_playbooks_check_selection_before_other_plays() -> None:
    groups = InventoryManager(DataLoader(), [str(EXAMPLE)]).get_groups_dict()
    for playbook, host in MUST_SELECT.items():
        plays = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text())
        imported = [play.get("ansible.builtin.import_playbook") for play in plays]
        before = imported[: imported.index("selected_hosts.yml")]
        assert set(before) <= {"check.yml"} or playbook == "reconcile", playbook
        needed = plays[len(before)]["vars"]["_groups"].split(":")
        assert not [group for group in needed if host in groups.get(group, ())], playbook


def with_long(playbooks: Iterable[str], run: Collection[str]) -> list[Any]:
    """Return the playbooks as parameters, of which only those in `run` run without --all."""
    return [each if each in run else pytest.param(each, marks=pytest.mark.long) for each in playbooks]


@pytest.mark.parametrize("playbook", with_long(MUST_SELECT, DIFFERENT))
def test_playbook_fails_if_it_selects_no_host(playbook: str) -> None:
    printed = refusal(run(playbook, f"--limit={MUST_SELECT[playbook]}"))
    assert "[no-host-selected]" in printed
    has_group = playbook not in {"lab_down", "lab_up", "restore_zookeeper"}
    assert ("omit --limit" in printed) is has_group
    assert ("in the inventory" in printed) is not has_group


def test_playbooks_for_all_hosts_begin_with_check() -> None:
    for playbook in FOR_ALL_HOSTS - {"authority", "check"}:
        first, *_ = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text())
        assert first["ansible.builtin.import_playbook"] == "check.yml", playbook


@pytest.mark.parametrize(
    "playbook",
    with_long(["doctor", "lab_down", *sorted(FOR_ALL_HOSTS)], ["authority", "check", "doctor", "lab_down"]),
)
def test_playbook_fails_if_inventory_has_no_host(playbook: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    assert "[no-host-selected]" in refusal(run(playbook, inventory=tmp_path / "hosts.yml"))


@pytest.mark.parametrize("playbook", ["connect", "drills"])
def test_deployment_succeeds_without_host_of_its_service(playbook: str) -> None:
    done = run(playbook, f"--limit={WITHOUT_SERVICE}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_deployments_do_not_fail_in_playbooks_they_import() -> None:
    """`connect.yml` and `kafka.yml` import playbooks that fail on their own without a host of the group."""
    for playbook in MAY_SELECT_NONE | {"site", "hosts"}:
        for play in yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text()):
            imported = Path(play.get("ansible.builtin.import_playbook", "")).stem
            if imported in MUST_SELECT:
                assert play["vars"] == {"_hosts": "!all"}, f"{playbook} imports {imported}"


def test_upgrade_of_features_selects_broker_of_site() -> None:
    printed = refusal(run("upgrade_features", f"--limit={WITHOUT_SERVICE}", "--extra-vars=site=pro1"))
    assert "[no-host-selected]" in printed


def test_restore_of_znodes_selects_server_that_restores(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(ZOOKEEPERS)
    printed = refusal(run("restore_zookeeper", "--limit=two,three", inventory=tmp_path / "hosts.yml"))
    assert "[zookeeper-site-unfit]" in printed
